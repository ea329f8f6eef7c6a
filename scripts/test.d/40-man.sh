# Man pages and completions come out of the command line's definition, and are well formed.
. scripts/lib.sh
apt_need "checking the man pages" mandoc
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
debug_build
"$(target_dir)/debug/latlab" generate "$out"
mandoc -T lint -W error "$out"/man/man1/*.1
bash -n "$out/bash-completion/completions/latlab"
echo "$(find "$out/man" -name '*.1' | wc -l) man pages"
