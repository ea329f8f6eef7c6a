# Formatting.
. scripts/lib.sh
scripts/cargo fmt --all --check
