# What `make run` does, on this machine.
. scripts/lib.sh
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
scripts/cargo build --profile first --no-default-features --locked -p latlab
latlab=$(target_dir)/first/latlab
quiet
from=$SECONDS
"$latlab" survey --quick --out "$out/run"
echo "the quick survey took $((SECONDS - from)) s"
[[ -s $out/run/run.json && -s $out/run/report.html ]] || die "the survey left no run.json or no report.html"
# What was kept can be read again.
"$latlab" report "$out/run" >/dev/null
