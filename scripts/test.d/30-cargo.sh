# Unit, property, snapshot, kernel and command-line tests of all crates.
. scripts/lib.sh
# Other programs that tests compare with, or that a command drives.
apt_need "tests that compare with them" cpio openssh-client openssh-server procps trace-cmd
if [[ ! -e /sys/kernel/tracing/instances && $(id -u) == 0 ]]; then
    say "mounting tracefs for the kernel tests"
    mount -t tracefs nodev /sys/kernel/tracing || say "it cannot be mounted; tests that need it will say so"
fi
INSTA_UPDATE=no scripts/cargo test --locked --workspace --no-fail-fast
