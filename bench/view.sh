#!/bin/bash
# view.sh [EVENTS]: latlab view on a large trace, and KernelShark beside it on the same file under Xvfb.
# Makes a file of EVENTS (default 10,000,000) out of the pages of fixtures/trace/f6.dat in $TMPDIR; measures the time to
# a page that can be used and to one that shows all of it, frames while moving and zooming in Chromium, memory of server
# and browser; then KernelShark's time to its first drawing of the trace and its memory. Run it on a quiet machine.
# FILE=PATH uses (or makes) and keeps that file; PARTS="move zoom search kernelshark" runs only some, "open" none of them;
# QUIET=COMMAND is put before everything that is measured.
cd "$(dirname "$0")/.."
. scripts/lib.sh
events=${1:-10000000}
parts=${PARTS:-move zoom search kernelshark}
apt_need "the browser" chromium
if [[ ! -v LATLAB ]]; then
    cargo build --release -q -p latlab
    LATLAB=$(target_dir)/release/latlab
fi
(cd viewer/trace && [[ -d node_modules ]] || npm ci --no-audit --no-fund --loglevel=error)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
file=${FILE:-$dir/big.dat}
if [[ ! -s $file ]]; then
    cargo build --release -q -p latlab-testkit --example trace_bench
    "$(target_dir)/release/examples/trace_bench" make fixtures/trace/f6.dat "$file" "$events"
fi
ls -l "$file" | awk '{ print $5 " bytes" }'
cat "$file" >/dev/null
export LATLAB SHOTS=${SHOTS:-$dir}
for part in $parts; do
    echo "== $part"
    case $part in
        kernelshark) apt_need "the comparison" kernelshark xvfb python3 && ${QUIET:-} python3 bench/view-kernelshark.py "$file" ;;
        *) (cd viewer/trace && ${QUIET:-} node e2e/bench.mjs "$file" "$part") ;;
    esac
done
