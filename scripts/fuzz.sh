#!/bin/sh
# fuzz.sh [SECONDS] [TARGET...]: builds the fuzz targets and runs each for SECONDS (default 60), side by side.
# Needs no nightly compiler: the coverage pass of the stable one is enough for libFuzzer.
# Ends with 1 when an input crashes, hangs (10 s) or takes more than 512 MB; the input is kept in fuzz/artifacts.
set -eu
cd "$(dirname "$0")/../fuzz"
seconds=${1:-60}
[ $# -gt 0 ] && shift
targets=${*:-reader print_fmt text}
passes="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing"
triple=$(rustc -vV | sed -n 's/^host: //p')
RUSTC_BOOTSTRAP=1 RUSTFLAGS="$passes" cargo build --release --target-dir target --target "$triple"
[ "$seconds" -gt 0 ] || exit 0
running=
for t in $targets; do
    mkdir -p "corpus/$t" "artifacts/$t"
    case $t in
        reader) for f in ../fixtures/trace/*.dat; do [ "$(wc -c <"$f")" -lt 70000 ] && cp "$f" corpus/reader/; done ;;
        text) head -c 4000 ../fixtures/trace/f7-zstd.trace-cmd.txt >corpus/text/trace-cmd; cp seeds/text/* corpus/text/ ;;
        print_fmt) cp seeds/print_fmt/* corpus/print_fmt/ ;;
    esac
    echo "fuzz: $t for $seconds s"
    "target/$triple/release/$t" "corpus/$t" -artifact_prefix="artifacts/$t/" \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=512 -max_len=262144 -print_final_stats=1 -verbosity=0 \
        >"artifacts/$t.log" 2>&1 &
    running="$running $t:$!"
done
trap 'for r in $running; do kill "${r#*:}" 2>/dev/null || :; done' INT TERM
failed=0
for r in $running; do
    t=${r%%:*}
    wait "${r#*:}" || failed=1
    # Which code is new says nothing to a reader.
    grep -v NEW_FUNC "artifacts/$t.log" | sed "s/^/$t: /"
done
exit "$failed"
