#!/bin/sh
# sched-speed.sh [EVENTS]: how long the analyses of `latlab sched FILE` and `latlab timer FILE` take for EVENTS (default
# 10,000,000) events: the pages of fixtures/trace/f6.dat again and again. Run it on a quiet machine.
set -eu
cd "$(dirname "$0")/.."
events=${1:-10000000}
cargo build --release -q -p latlab-testkit --example trace_bench
bench=$PWD/target/release/examples/trace_bench
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$bench" make fixtures/trace/f6.dat "$dir/v6.dat" "$events"
cat "$dir/v6.dat" >/dev/null
for what in sched sched sched timer timer timer; do
    printf '%s: ' "$what"
    "$bench" "$what" "$dir/v6.dat" 2
done
