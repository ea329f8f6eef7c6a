# Every crate can be packaged without a warning (cargo package; the lock file would need the others on crates.io).
. scripts/lib.sh
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
scripts/cargo package --workspace --locked --no-verify --allow-dirty --exclude-lockfile --target-dir "$out" 2>&1 | tee "$out/log"
! grep -q '^warning' "$out/log" || die "cargo package prints warnings"
found=$(find "$out/package" -maxdepth 1 -name '*.crate' | wc -l)
members=$(find crates -mindepth 2 -maxdepth 2 -name Cargo.toml ! -path '*/latlab-python/*' | wc -l)
[[ $found == "$members" ]] || die "$found of $members crates were packaged"
