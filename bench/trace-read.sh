#!/bin/sh
# trace-read.sh [EVENTS]: how fast traces are read, beside Debian's trace-cmd, in one run.
# Makes a file of EVENTS (default 10,000,000) out of the pages of fixtures/trace/f6.dat in $TMPDIR, compresses
# it with `trace-cmd convert`, and runs each reader three times. Needs trace-cmd and GNU time; run it on a quiet machine.
set -eu
cd "$(dirname "$0")/.."
events=${1:-10000000}
cargo build --release -q -p latlab-trace --example trace_bench
bench=$PWD/target/release/examples/trace_bench
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$bench" make fixtures/trace/f6.dat "$dir/v6.dat" "$events"
trace-cmd convert -i "$dir/v6.dat" -o "$dir/v7.dat" --file-version 7 --compression zstd >/dev/null 2>&1
ls -l "$dir" | awk 'NR > 1 { print $5, $9 }'
run() {
    what=$1
    shift
    for _ in 1 2 3; do
        bash -c 'TIMEFORMAT="$0: %R s elapsed, %U user"; time "$@"' "$what" "$@" 2>&1 | cat
    done
}
cat "$dir/v6.dat" >/dev/null
run "cat" sh -c "cat $dir/v6.dat >/dev/null"
run "scan v6, 1 thread" "$bench" scan "$dir/v6.dat" 1
run "scan v7 zstd, 1 thread" "$bench" scan "$dir/v7.dat" 1
run "scan v7 zstd, 2 threads" "$bench" scan "$dir/v7.dat" 2
run "text v6, 1 thread" sh -c "$bench text $dir/v6.dat 1 >/dev/null"
run "text v6, 2 threads" sh -c "$bench text $dir/v6.dat 2 >/dev/null"
run "first line of v6" sh -c "$bench text $dir/v6.dat 2 | head -1"
run "trace-cmd report -F sched_switch" sh -c "trace-cmd report -F sched_switch $dir/v6.dat >/dev/null 2>&1"
[ "${QUICK:-}" ] || run "trace-cmd report" sh -c "trace-cmd report $dir/v6.dat >/dev/null 2>&1"
