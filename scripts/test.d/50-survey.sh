# What `make run` does, on this machine.
. scripts/lib.sh
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
first_build
debug_build
latlab=$(target_dir)/first/latlab
quiet
from=$SECONDS
"$latlab" survey --quick --out "$out/run"
echo "the quick survey took $((SECONDS - from)) s"
[[ -s $out/run/run.json && -s $out/run/report.html ]] || die "the survey left no run.json or no report.html"
# What was kept can be read again, by the build with all commands; this one says which that is.
"$(target_dir)/debug/latlab" report "$out/run" >/dev/null
! "$latlab" report "$out/run" 2>"$out/refused" || die "the build of make run reads runs: test that"
grep -q 'hint: .*make install' "$out/refused" || die "$(cat "$out/refused")"
