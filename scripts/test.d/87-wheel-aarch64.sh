# The wheel for aarch64: built here, installed as pip chooses wheels there, and its tests pass in Debian's Python for
# arm64 with the command that it carries, under QEMU's user emulation.
. scripts/lib.sh
if [[ $(uname -m) == aarch64 ]]; then
    echo "skipped: the wheel for aarch64 is the machine's own here"
    [[ -z ${CI:-} ]]
    exit
fi
apt_need "testing the wheel for aarch64" mmdebstrap python3 python3-venv qemu-user-static
work=$(realpath -m "$(target_dir)/wheel-aarch64")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
wheel=$(ARCH=aarch64 WHEEL_PROFILE=dev scripts/wheel "$out/dist")
if [[ ! -x $work/debian/usr/bin/python3 ]]; then
    say "Debian's Python for arm64, kept in ${work#"$PWD"/}"
    as_root mmdebstrap --quiet --variant=extract --architectures=arm64 --include=python3,libstdc++6 bookworm "$out/debian"
    as_root rm -rf "$work/debian"
    as_root mv "$out/debian" "$work/debian"
fi
platforms=()
for glibc in 2_36 2_35 2_28 2_17; do platforms+=(--platform "manylinux_${glibc}_aarch64"); done
"$(target_dir)/wheel-tools/bin/pip" --quiet --disable-pip-version-check install --target "$out/site" \
    "${platforms[@]}" --platform manylinux2014_aarch64 --implementation cp --python-version 3.11 --only-binary=:all: \
    "$wheel" pandas polars pyarrow pytest
# A program that Python starts is not emulated by itself.
mkdir "$out/bin"
printf '#!/bin/sh\nexec qemu-aarch64-static -L %q %q "$@"\n' "$work/debian" "$out/site/bin/latlab" >"$out/bin/latlab"
printf '#!/bin/sh\nexec qemu-aarch64-static -L %q %q "$@"\n' "$work/debian" "$work/debian/usr/bin/python3" >"$out/bin/emulated-python"
chmod +x "$out/bin/latlab" "$out/bin/emulated-python"
cp -r python/tests python/pyproject.toml fixtures "$out"
cd "$out"
unset PYTHONHOME VIRTUAL_ENV
export LATLAB_TEST_PYTHON=$out/bin/emulated-python LATLAB_FIXTURES=$out/fixtures PATH=$out/bin:/usr/bin:/bin PYTHONPATH=$out/site PYTHONSAFEPATH=1
latlab --version
qemu-aarch64-static -L "$work/debian" "$work/debian/usr/bin/python3" -c '
import platform, sys, pytest
assert platform.machine() == "aarch64"
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "tests"]))'
