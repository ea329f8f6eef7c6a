# Clippy, with the bans of the pure crates (their clippy.toml) as errors; also the board build's features.
. scripts/lib.sh
scripts/cargo clippy --locked --workspace --all-targets -- -D warnings
scripts/cargo clippy --locked -p latlab --no-default-features --all-targets -- -D warnings
