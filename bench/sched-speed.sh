#!/bin/sh
# sched-speed.sh [EVENTS]: how fast one core does the analyses of `latlab sched FILE`, `latlab timer FILE`, both in one
# pass, and the index of `latlab view FILE` for EVENTS (default 10,000,000) events: the pages of fixtures/trace/f6.dat
# again and again. Run it on a quiet machine.
set -eu
cd "$(dirname "$0")/.."
events=${1:-10000000}
cargo build --release -q -p latlab-testkit --example trace_bench
cargo build --release -q -p latlab-view --example index-speed
examples=${CARGO_TARGET_DIR:-$PWD/target}/release/examples
bench=$examples/trace_bench
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$bench" make fixtures/trace/f6.dat "$dir/v6.dat" "$events"
cat "$dir/v6.dat" >/dev/null
for what in sched timer both; do
    for _ in 1 2 3; do
        printf '%s: ' "$what"
        taskset -c 0 "$bench" "$what" "$dir/v6.dat" 1
    done
done
for _ in 1 2 3; do
    printf 'index: '
    taskset -c 0 "$examples/index-speed" "$dir/v6.dat" 1
done
