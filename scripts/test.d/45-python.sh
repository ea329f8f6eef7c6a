# The Python package: its Rust module is formatted and has no warnings, the wheel installs in an empty
# environment outside of the tree, types and stubs agree, and the tests pass there, among them the notebooks of the documentation.
. scripts/lib.sh
apt_need "testing the Python package" python3 python3-venv
rust_need
rust_lint_need
cargo fmt --check --manifest-path crates/latlab-python/Cargo.toml
CARGO_TARGET_DIR=$(target_dir) cargo clippy --quiet --locked --manifest-path crates/latlab-python/Cargo.toml --all-targets -- -D warnings
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
wheel=$(WHEEL_PROFILE=dev scripts/wheel "$out/dist")
python3 -m venv "$out/venv"
"$out/venv/bin/pip" --quiet --disable-pip-version-check install "$wheel" mypy pandas polars pyarrow pytest nbclient ipykernel
cp -r python/tests python/pyproject.toml fixtures docs/how-to/python "$out"
cd "$out"
# Nothing of the tree and of the caller's Python is visible.
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV
export LATLAB_FIXTURES=$out/fixtures LATLAB_NOTEBOOKS=$out/python PATH=$out/venv/bin:/usr/bin:/bin PYTHONSAFEPATH=1
[[ $(command -v latlab) == "$out/venv/bin/latlab" ]] || die "the wheel did not install the command"
latlab --version
pytest -q -p no:cacheprovider tests
mypy
stubtest latlab --mypy-config-file pyproject.toml
