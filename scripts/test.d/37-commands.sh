# Command lines of the documentation parse; examples (blocks ```console run) run and print what is shown.
. scripts/lib.sh
debug_build
PATH=$(cd "$(target_dir)/debug" && pwd):$PATH
export PATH NO_COLOR=1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# The checks themselves: four of these command lines are wrong, and so are two of the examples.
cat >"$out/commands.md" <<'BAD'
Run `latlab wakeup --no-such` or `latlab image [X]`, `latlab wakeup -D 5`.
```console
$ latlab vm run m -- sh -c '
    latlab doctor --wrong; latlab doctor'
latlab prints this
$ latlab why --limit 100us 2>log | jq . # latlab nothing
$ latlab bench 'a b' "c d" \
    --no-option
$ latlab load cpu & latlab nocommand
```
BAD
found=$(perl scripts/doc-commands.pl "$out/commands.md" | tail -n 1) || true
[[ $found == "5 passed, 4 failed" ]] || die "of nine command lines, four of them wrong: $found"
cat >"$out/examples.md" <<'BAD'
```console run
$ printf 'a\nb\nc\n'
a
…
c
$ echo a; exit 2
a
[exit code 2]
$ echo a
b
$ false
```
BAD
found=$(perl scripts/doc-examples.pl "$out/examples.md" | tail -n 1) || true
[[ $found == "2 passed, 2 failed" ]] || die "of four examples, two of them wrong: $found"

mapfile -t pages < <(git ls-files README.md CONTRIBUTING.md 'docs/*.md')
bad=0
perl scripts/doc-commands.pl "${pages[@]}" || bad=1
perl scripts/doc-examples.pl "${pages[@]}" || bad=1
exit "$bad"
