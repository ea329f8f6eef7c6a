#!/bin/bash
# trace-read.sh [EVENTS]: how fast traces are read, beside Debian's trace-cmd, in one run.
# Makes a file of EVENTS (default 20,000,000: about 1 GB) out of the pages of fixtures/trace/f6.dat in $TMPDIR,
# compresses it with `trace-cmd convert`, and runs each reader three times: speed, the time to the first line, the
# peak of anonymous memory. trace-cmd prints a tenth as many events, and its speed is given by the event.
# Beside them stands the limit: what one core needs to read the same bytes from memory.
# Needs trace-cmd; run it on a quiet machine.
set -eu
cd "$(dirname "$0")/.."
events=${1:-20000000}
cargo build --release -q -p latlab-testkit --example trace_bench
bench=${CARGO_TARGET_DIR:-$PWD/target}/release/examples/trace_bench
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$bench" make fixtures/trace/f6.dat "$dir/v6.dat" "$events"
"$bench" make fixtures/trace/f6.dat "$dir/tenth.dat" $((events / 10))
trace-cmd convert -i "$dir/v6.dat" -o "$dir/v7.dat" --file-version 7 --compression zstd >/dev/null 2>&1
stat -c '%s bytes  %n' "$dir"/*.dat
cat "$dir"/*.dat >/dev/null # into the page cache

# run WHAT COMMAND…: three times; elapsed and user time.
run() {
    local what=$1
    shift
    for _ in 1 2 3; do
        TIMEFORMAT="$what: %R s elapsed, %U user"
        time "$@"
    done
}
# peak WHAT COMMAND…: the most anonymous memory while it runs, looked at every 5 ms.
peak() {
    local what=$1 pid kb most=0
    shift
    "$@" >/dev/null &
    pid=$!
    while kb=$(awk '/^RssAnon/ { print $2 }' "/proc/$pid/status" 2>/dev/null) && [ -n "$kb" ]; do
        ((kb <= most)) || most=$kb
        sleep 0.005
    done
    wait "$pid"
    echo "$what: $((most / 1024)) MB of anonymous memory at most"
}
to_null() { "$@" >/dev/null 2>&1; }
first_line() { "$@" 2>/dev/null | head -n 2 >/dev/null || true; }

run "limit: the file's bytes from memory, 1 core" dd if="$dir/v6.dat" of=/dev/null bs=1M status=none
run "scan v6, 1 thread" "$bench" scan "$dir/v6.dat" 1
run "scan v6, 2 stretches" "$bench" pieces "$dir/v6.dat" 2
run "scan v7 zstd, 1 thread" "$bench" scan "$dir/v7.dat" 1
run "scan v7 zstd, 2 threads" "$bench" scan "$dir/v7.dat" 2
run "scan v7 zstd, 2 stretches" "$bench" pieces "$dir/v7.dat" 2
run "text v6, 1 thread, $events events" to_null "$bench" text "$dir/v6.dat" 1
run "text v6, 2 threads, $events events" to_null "$bench" text "$dir/v6.dat" 2
run "first line of v6" first_line "$bench" text "$dir/v6.dat" 2
run "first line of v7" first_line "$bench" text "$dir/v7.dat" 2
peak "scan v6" "$bench" scan "$dir/v6.dat" 1
peak "scan v7 zstd, 2 threads" "$bench" scan "$dir/v7.dat" 2
peak "text v6, 2 threads" "$bench" text "$dir/v6.dat" 2
peak "text v7 zstd, 2 threads" "$bench" text "$dir/v7.dat" 2
run "trace-cmd report -F sched_switch, $((events / 10)) events" to_null trace-cmd report -F sched_switch -i "$dir/tenth.dat"
[ "${QUICK:-}" ] || run "trace-cmd report, $((events / 10)) events" to_null trace-cmd report -i "$dir/tenth.dat"
