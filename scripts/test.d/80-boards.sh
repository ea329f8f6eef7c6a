# The armv7 board build is static, small enough, and starts (under QEMU's user emulation).
. scripts/lib.sh
scripts/boards armv7
size=$(stat -c %s dist/latlab-armv7)
((size < 3 << 20)) || die "dist/latlab-armv7 has $size bytes; the limit is 3 MiB"
apt_need "running the armv7 build" qemu-user-static
qemu-arm-static dist/latlab-armv7 --version
# One step of the survey: threads, clocks, affinity and files work on 32 bits.
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
qemu-arm-static dist/latlab-armv7 survey --quick --step gaps --out "$out/run" >/dev/null
grep -q '"armv7l"' "$out/run/run.json" || die "the armv7 run does not name its architecture"
