# shellcheck shell=bash
# Sourced by the other scripts: messages, Debian packages, the Rust toolchain.
#
# Nothing here changes the machine unless something is missing, and whatever is
# installed is named first.

set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export CARGO_TERM_PROGRESS_WHEN=${CARGO_TERM_PROGRESS_WHEN:-never}

say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }
[[ -t 2 && -z ${NO_COLOR:-} ]] || say() { printf '==> %s\n' "$*" >&2; }
die() {
    printf 'error: %s\n' "$1" >&2
    [[ $# -lt 2 ]] || printf 'hint: %s\n' "$2" >&2
    exit 1
}

# as_root COMMAND…: as it is for root, by sudo otherwise.
as_root() {
    if [[ $(id -u) -eq 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "not root and no sudo: cannot run '$*'" "run it as root, then make again"
    fi
}

# apt_missing PACKAGE…: prints those that are not installed.
apt_missing() {
    local package
    for package in "$@"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
            printf '%s\n' "$package"
    done
}

# apt_need WHY PACKAGE…: installs what is missing, and says so.
apt_need() {
    local why=$1 missing
    shift
    if ! command -v apt-get >/dev/null; then
        say "no apt-get here: $why needs what Debian calls $*; going on with what there is"
        return 0
    fi
    mapfile -t missing < <(apt_missing "$@")
    [[ ${#missing[@]} -gt 0 ]] || return 0
    # Two scripts at a time: apt-get waits for dpkg, but not for the lists of packages.
    local lock
    exec {lock}<"$top/scripts/lib.sh"
    flock "$lock"
    say "installing for $why: ${missing[*]}"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600 update >&2 ||
        say "apt-get update failed; trying with the lists that are there"
    # --no-remove: never trade something of the user's for something of ours.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends --no-remove \
        -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 install "${missing[@]}" >&2 ||
        die "apt-get could not install ${missing[*]}" \
            "apt-get install ${missing[*]} says why; a conflict with Debian's older rustc goes away with apt-get remove rustc cargo"
    exec {lock}<&-
}

# The oldest Rust that the workspace accepts, from Cargo.toml.
rust_minimum() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$top/Cargo.toml" | head -n 1; }

# rust_at_least DIR: whether DIR has a rustc and a cargo that are new enough.
rust_at_least() {
    local found
    [[ -x $1/rustc && -x $1/cargo ]] || return 1
    found=$(cd "$top" && "$1/rustc" --version 2>/dev/null | awk '{print $2}') || return 1
    [[ -n $found ]] && printf '%s\n%s\n' "$(rust_minimum)" "${found%%-*}" | sort -C -V
}

# rust_find: prints the folder of the first toolchain that is new enough.
rust_find() {
    local dir dirs
    IFS=: read -ra dirs <<<"$PATH"
    for dir in "${dirs[@]}" "${CARGO_HOME:-$HOME/.cargo}/bin" /usr/local/bin /usr/bin; do
        [[ -n $dir ]] && rust_at_least "$dir" && printf '%s\n' "$dir" && return 0
    done
    return 1
}

# rust_need: a toolchain first in PATH; Debian's packages where there is none.
rust_need() {
    local dir
    if ! dir=$(rust_find); then
        say "no Rust $(rust_minimum) or newer found"
        command -v apt-get >/dev/null ||
            die "no Rust $(rust_minimum) or newer here, and no apt-get to install it with" \
                "install Rust as its project says, then make again"
        apt_need "building" rustc-web cargo-web
        dir=$(rust_find) ||
            die "the Rust that apt installed is older than $(rust_minimum)" \
                "enable the Debian security archive, which has a newer rustc-web, and make again"
    fi
    [[ $(command -v cargo || true) == "$dir/cargo" ]] || export PATH=$dir:$PATH
    # Debian's toolchain brings a linker; others expect to find one.
    command -v cc >/dev/null || apt_need "linking" gcc libc6-dev
}

# rust_lint_need: rustfmt and clippy of the toolchain that rust_need chose.
rust_lint_need() {
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return 0
    if command -v rustup >/dev/null && [[ $(rust_find) != /usr/bin ]]; then
        say "installing for the checks: rustfmt and clippy (rustup components)"
        rustup component add rustfmt clippy >&2
    else
        apt_need "the checks" rustfmt-web rust-web-clippy
    fi
}

# not_passed LOG: the names of tests of cargo and of pages that failed, or of cargo's that had not ended, in a log.
not_passed() {
    sed -E 's/\x1b\[[0-9;]*m//g' "$1" | awk '
        /^test .* \.\.\. FAILED$/ { print $2 }
        sub(/^FAIL /, "") { print }
        /^test .* has been running for over / { slow[$2] = 1 }
        /^test .* \.\.\. / { delete slow[$2] }
        END { for (name in slow) print name " (had not ended)" }'
}

# cargo_test OPTION… [-- OPTION…]: `cargo test`. On a shared machine a measurement may be disturbed: up to three tests
# that fail are run once more, alone; those that pass then are told as `repeated: NAME` (scripts/test lists them).
cargo_test() {
    local log name
    local -a names arguments=("$@")
    log=$(mktemp)
    INSTA_UPDATE=no "$top/scripts/cargo" test --locked --workspace "$@" 2>&1 | tee "$log" && return
    mapfile -t names < <(not_passed "$log")
    [[ ${#names[@]} -ge 1 && ${#names[@]} -le 3 && "${names[*]}" != *"had not ended"* ]] || return 1
    [[ " ${arguments[*]} " == *" -- "* ]] || arguments+=(--)
    for name in "${names[@]}"; do
        # Its own result is not counted once more.
        INSTA_UPDATE=no "$top/scripts/cargo" test --locked --workspace "${arguments[@]}" --exact "$name" 2>&1 |
            sed 's/^test result:/once more:/' || return 1
        printf 'repeated: %s\n' "$name"
    done
}

# debug_build: target/debug/latlab and the examples of stages, with exactly what the tests are built of. Built alone
# (cargo build -p latlab), crates that it shares with tests have fewer features, and so all that depends on them
# would be compiled once more.
debug_build() {
    "$top/scripts/cargo" build --locked --quiet --workspace --bin latlab --example gallery --example page
}

# first_build: target/first/latlab, which `make run` runs.
first_build() { "$top/scripts/cargo" build --profile first --no-default-features --locked -p latlab; }

# quiet: until the stage ends, nothing is built ahead, so that it can measure (scripts/test continues the builds).
quiet() { [[ -z ${TEST_AHEAD:-} ]] || kill -STOP -- "-$TEST_AHEAD" 2>/dev/null || true; }

target_dir() { printf '%s\n' "${CARGO_TARGET_DIR:-$top/target}"; }

# rust_flags FLAG…: what is built with these flags is the same in whichever folders it is built.
rust_flags() {
    local target
    target=$(realpath -m "$(target_dir)")
    # The last that fits is taken.
    set -- "$@" "--remap-path-prefix=$top=/latlab" "--remap-path-prefix=$target=/target" \
        "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
    CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && printf '%s' "$*")
    export CARGO_ENCODED_RUSTFLAGS
}
