# Where dependencies come from, and known vulnerabilities in them. With cargo-deny: licences, bans,
# sources and the advisories of RustSec (deny.toml). Without it, or without its database: the sources
# of the lock files, and a line that says what was not checked. `npm audit` for the viewers likewise.
. scripts/lib.sh
not_checked() { printf 'NOT CHECKED: %s\n' "$*"; }

for lock in Cargo.lock fuzz/Cargo.lock crates/latlab-python/Cargo.lock; do
    others=$(grep '^source = ' "$lock" | grep -v '"registry+.*/crates.io-index"$') || :
    [[ -z $others ]] || die "$lock: a dependency is not from crates.io: $others" "publish it there, or make it a part of the workspace"
    from=$(grep -c '^source = ' "$lock")
    [[ $from == "$(grep -c '^checksum = ' "$lock")" ]] || die "$lock: a dependency has no checksum" "cargo update writes it"
    echo "$lock: $from dependencies, all from crates.io with a checksum"
done

rust_need
if deny=$(command -v cargo-deny); then
    "$deny" --locked check licenses bans sources
    "$deny" --locked --manifest-path crates/latlab-python/Cargo.toml check --config deny.toml licenses bans sources
    if "$deny" --locked fetch db >/dev/null 2>&1; then
        "$deny" --locked check advisories
    elif found=$("$deny" --locked --offline check advisories 2>&1); then
        not_checked "advisories newer than the copy of RustSec's database that is here: it cannot be fetched"
    elif grep -q 'RUSTSEC-' <<<"$found"; then
        die "$found"
    else
        not_checked "advisories: RustSec's database is not here and cannot be fetched"
    fi
else
    not_checked "advisories, bans: no cargo-deny here (cargo install --locked cargo-deny); licences are checked by 15-licences"
fi

if command -v npm >/dev/null; then
    for page in viewer/*/package-lock.json; do
        page=$(dirname "$page")
        report=$(cd "$page" && npm audit --package-lock-only --omit=optional --json 2>/dev/null) || :
        if ! grep -q '"auditReportVersion"' <<<"$report"; then
            not_checked "npm audit of $page: the registry does not answer it"
        elif ! (cd "$page" && npm audit --package-lock-only --omit=optional --audit-level=high); then
            die "npm audit of $page has findings" "cd $page && npm audit fix"
        fi
    done
else
    not_checked "npm audit: no npm here"
fi
