# The Python package: its Rust module is formatted and has no warnings, the wheel installs in an empty
# environment outside of the tree, types and stubs agree, and the tests and the scripts of the documentation pass there.
. scripts/lib.sh
apt_need "testing the Python package" python3 python3-venv
rust_need
rust_lint_need
cargo fmt --check --manifest-path crates/latlab-python/Cargo.toml
cargo clippy --quiet --locked --manifest-path crates/latlab-python/Cargo.toml --all-targets -- -D warnings
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
wheel=$(WHEEL_PROFILE=dev scripts/wheel "$out/dist")
python3 -m venv "$out/venv"
"$out/venv/bin/pip" --quiet --disable-pip-version-check install "$wheel" mypy pandas polars pyarrow pytest
cp -r python/tests python/pyproject.toml fixtures docs/how-to/python "$out"
cd "$out"
# Nothing of the tree and of the caller's Python is visible.
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV
export LATLAB_FIXTURES=$out/fixtures PATH=$out/venv/bin:/usr/bin:/bin PYTHONSAFEPATH=1
[[ $(command -v latlab) == "$out/venv/bin/latlab" ]] || die "the wheel did not install the command"
latlab --version
pytest -q -p no:cacheprovider tests
mypy
stubtest latlab --mypy-config-file pyproject.toml
# The scripts of the documentation answer their questions.
python python/who_waited.py fixtures/trace/rt-load.dat | tee who
[[ $(grep -c ' waited .* ms on CPU ' who) == 5 ]] || die "who_waited.py does not name five waits"
python python/tails.py fixtures/runs-v1/wakeup fixtures/runs-v1/wakeup-2 | tee tails
grep -q '^wakeup.user p50: ' tails || die "tails.py compares no median"
python python/why_late.py fixtures/trace/rt-load.dat 100000 plot.svg | tee late
grep -q '^equal_priority ' late || die "why_late.py names no cause"
grep -q '^<svg' plot.svg || die "why_late.py draws no plot"
