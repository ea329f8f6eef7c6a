# The readers of foreign bytes, fuzzed for ten seconds each (FUZZ_SECONDS for another time).
. scripts/lib.sh
rust_need
apt_need "libFuzzer" g++
scripts/fuzz.sh "${FUZZ_SECONDS:-10}"
