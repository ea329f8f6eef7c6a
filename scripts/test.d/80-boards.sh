# The armv7 board build is static, small enough, and starts (under QEMU's user emulation).
. scripts/lib.sh
scripts/boards armv7
size=$(stat -c %s dist/latlab-armv7)
((size < 15 << 18)) || die "dist/latlab-armv7 has $size bytes; the limit is 3.75 MiB"
apt_need "running the armv7 build" qemu-user-static
qemu-arm-static dist/latlab-armv7 --version
for words in "view trace.dat" "--on ssh://board doctor"; do
    # shellcheck disable=SC2086 # two words
    refused=$(qemu-arm-static dist/latlab-armv7 $words 2>&1) && die "latlab $words runs in a board build"
    [[ $refused == *"not in this build"* ]] || die "latlab $words in a board build: $refused"
done
# One step of the survey: threads, clocks, affinity and files work on 32 bits.
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
qemu-arm-static dist/latlab-armv7 survey --quick --step gaps --out "$out/run" >/dev/null
grep -q '"armv7l"' "$out/run/run.json" || die "the armv7 run does not name its architecture"
