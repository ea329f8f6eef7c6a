# Unit, property, snapshot, kernel and command-line tests of all crates.
. scripts/lib.sh
INSTA_UPDATE=no scripts/cargo test --locked --workspace --no-fail-fast
