#!/bin/bash
# view.sh [EVENTS]: latlab view on a large trace, and KernelShark beside it on the same file under Xvfb.
# Makes a file of EVENTS (default 10,000,000) out of the pages of fixtures/trace/f6.dat in $TMPDIR; measures the time to
# a page that shows it, frames while moving and zooming in Chromium, memory of server and browser; then KernelShark's time
# to its first drawing of the trace and its memory (KERNELSHARK=0 leaves it out). Run it on a quiet machine.
cd "$(dirname "$0")/.."
. scripts/lib.sh
events=${1:-10000000}
apt_need "the browser" chromium
cargo build --release -q -p latlab
cargo build --release -q -p latlab-trace --example trace_bench
bin=$(target_dir)/release
(cd viewer/trace && [[ -d node_modules ]] || npm ci --no-audit --no-fund --loglevel=error)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
file=$dir/big.dat
"$bin/examples/trace_bench" make fixtures/trace/f6.dat "$file" "$events"
ls -l "$file" | awk '{ print $5 " bytes" }'
cat "$file" >/dev/null
(cd viewer/trace && LATLAB=$bin/latlab SHOTS=${SHOTS:-$dir} node e2e/bench.mjs "$file")
[[ ${KERNELSHARK:-1} == 0 ]] || { apt_need "the comparison" kernelshark xvfb python3 && python3 bench/view-kernelshark.py "$file"; }
