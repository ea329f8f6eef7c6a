# The readers of trace files, print formats and text, fuzzed for a minute each (FUZZ_SECONDS for another time).
. scripts/lib.sh
rust_need
apt_need "libFuzzer" g++
scripts/fuzz.sh "${FUZZ_SECONDS:-60}"
