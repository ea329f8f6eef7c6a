# Unit, property, snapshot, kernel and command-line tests of all crates.
. scripts/lib.sh
# Other programs that tests compare with, or that a command drives.
apt_need "tests that compare with them" cpio linux-perf openssh-client openssh-server procps trace-cmd
# Parquet tables are read back by somebody else's reader, in a Python environment below the target folder.
venv=$(target_dir)/test-python
if ! "$venv/bin/python" -c 'import duckdb' 2>/dev/null; then
    apt_need "reading Parquet back" python3 python3-venv
    say "installing for the tests: the Python package duckdb, in ${venv#"$PWD"/}"
    python3 -m venv "$venv" && "$venv/bin/pip" --quiet --disable-pip-version-check install duckdb
fi
[[ ! -x $venv/bin/python ]] || export LATLAB_PYTHON=$venv/bin/python
if [[ ! -e /sys/kernel/tracing/instances && $(id -u) == 0 ]]; then
    say "mounting tracefs for the kernel tests"
    mount -t tracefs nodev /sys/kernel/tracing || say "it cannot be mounted; tests that need it will say so"
fi
INSTA_UPDATE=no scripts/cargo test --locked --workspace --no-fail-fast
