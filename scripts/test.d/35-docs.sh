# The API documentation builds, and its links lead somewhere.
. scripts/lib.sh
RUSTDOCFLAGS="-D warnings" scripts/cargo doc --locked --workspace --no-deps --document-private-items
