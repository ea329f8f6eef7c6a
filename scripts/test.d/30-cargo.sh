# Unit, property, snapshot, kernel and command-line tests of all crates.
. scripts/lib.sh
# Other programs that tests compare with, or that a command drives.
apt_need "tests that compare with them" cpio fish iproute2 kmod linux-perf openssh-client openssh-server procps trace-cmd zsh
# The shared store of `latlab history` is tested on a real server, which the test starts and ends itself.
# Debian's package would start one for good when it is installed: it is told not to.
if ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && command -v apt-get >/dev/null; then
    say "PostgreSQL is installed without a cluster of its own (/etc/postgresql-common/createcluster.d/latlab-tests.conf)"
    as_root mkdir -p /etc/postgresql-common/createcluster.d
    echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.d/latlab-tests.conf >/dev/null
    apt_need "testing the shared store of history" postgresql
fi
# Campaigns run on a Slurm that the test starts and ends itself; without a configuration the package starts none.
apt_need "testing campaigns on Slurm" slurm-client slurmctld slurmd
# Jobs for LAVA are checked by its schema and run by its dispatcher. The dispatcher's package starts a service and brings
# libguestfs with 150 packages, which jobs on a running device do not use: only its files are unpacked.
lava=$(target_dir)/test-lava
if command -v apt-get >/dev/null; then
    apt_need "running jobs of LAVA" lava-common lavacli python3-configobj python3-jinja2 python3-magic python3-netifaces \
        python3-pexpect python3-pyudev python3-requests python3-setproctitle python3-tz
    if [[ ! -e $lava/usr/lib/python3/dist-packages/guestfs.py ]]; then
        say "unpacking for the tests: lava-dispatcher and lava-dispatcher-host, in ${lava#"$PWD"/}"
        mkdir -p "$lava"
        if (cd "$lava" && apt-get -qq download lava-dispatcher lava-dispatcher-host); then
            for package in "$lava"/*.deb; do dpkg -x "$package" "$lava"; done
            echo '"""Imported for images of disks, which a running device does not have."""' >"$lava/usr/lib/python3/dist-packages/guestfs.py"
        else
            say "apt-get cannot download lava-dispatcher; the tests that need it will say so"
        fi
    fi
    export LATLAB_TEST_LAVA=$lava
fi
# Parquet tables and metrics are read back by somebody else's readers, and boards lent by a labgrid, in a Python environment below the target folder; lakes are copied to
# an object store there.
venv=$(target_dir)/test-python
if ! "$venv/bin/python" -c 'import awscli, duckdb, labgrid, moto.server, prometheus_client' 2>/dev/null; then
    apt_need "reading Parquet and metrics back, lending boards and storing lakes" python3 python3-venv
    say "installing for the tests: the Python packages awscli, duckdb, labgrid, moto and prometheus_client, in ${venv#"$PWD"/}"
    python3 -m venv "$venv" && "$venv/bin/pip" --quiet --disable-pip-version-check install awscli duckdb labgrid "moto[s3,server]" prometheus_client
fi
[[ ! -x $venv/bin/python ]] || export LATLAB_PYTHON=$venv/bin/python
if [[ ! -e /sys/kernel/tracing/instances && $(id -u) == 0 ]]; then
    say "mounting tracefs for the kernel tests"
    mount -t tracefs nodev /sys/kernel/tracing || say "it cannot be mounted; tests that need it will say so"
fi
scripts/cargo test --locked --workspace --no-run
# First what does not measure, while other things are built.
bad=0
mapfile -t others < <(sed -n 's|^crates/[^/]*/tests/\([a-z0-9_]*\)\(/main\)\?\.rs$|\1|p' < <(git ls-files 'crates/*/tests/*.rs') |
    grep -vxE 'cli|sys' | sort -u | sed 's/^/--test=/')
cargo_test --no-fail-fast --doc || bad=1
cargo_test --no-fail-fast "${others[@]}" || bad=1
cargo_test --no-fail-fast --test cli -- failing_disk:: || bad=1
quiet
cargo_test --no-fail-fast --lib --bins --test sys --test cli -- --skip failing_disk:: || bad=1
exit "$bad"
