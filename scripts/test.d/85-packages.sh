# The packages: the commands of README's section Install, in an empty Debian where that is what they are for. Two
# packings have the same bytes, lintian has nothing to say, and what is installed works: virtual machine and SSH
# with the package for amd64, the board build under QEMU's user emulation for armhf, the tarball without anything.
# The command is the unoptimized build, which is there; these packages are removed.
. scripts/lib.sh
apt_need "testing the packages" lintian mmdebstrap qemu-user-static
if [[ $(dpkg --print-architecture) != amd64 ]]; then
    echo "skipped: what the package has on another architecture than amd64 is not tested"
    [[ -z ${CI:-} ]]
    exit
fi
export PACKAGES_PROFILE=dev
cache=$(realpath -m "$(target_dir)/packages-test")
out=$(mktemp -d)
trap 'rm -rf "$out" dist/packages' EXIT
mkdir -p "$cache/latlab"

# inside COMMAND: as root in the empty Debian, with nothing of this machine but its kernel, network and packages.
inside() {
    # shellcheck disable=SC2016 # for the inner shell
    as_root env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root NO_COLOR=1 unshare --mount --pid --fork bash -ec '
        root=$1
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs tmpfs "$root/run"
        mount --bind "$2" "$root/root/.cache"
        mkdir -p /run "$root/run/sshd"
        exec chroot "$root" sh -ec "cd /root && $3"' - "$out/debian" "$cache" "$1"
}

if [[ ! -s $cache/debian.tar ]]; then
    say "an empty Debian with what the package recommends, kept in ${cache#"$PWD"/}"
    as_root mmdebstrap --quiet --variant=minbase bookworm "$cache/new.tar" \
        --include=kmod,openssh-client,openssh-server,qemu-system-arm,qemu-system-x86
    mv "$cache/new.tar" "$cache/debian.tar"
fi
mkdir "$out/debian"
trap 'as_root rm -rf "$out" dist/packages' EXIT
as_root tar -C "$out/debian" --exclude=./dev/* -xf "$cache/debian.tar"
as_root mkdir "$out/debian/root/.cache"
[[ ! -e /etc/resolv.conf ]] || as_root cp -L /etc/resolv.conf "$out/debian/etc/resolv.conf"

# shellcheck disable=SC2016 # no expansion
mapfile -t commands < <(sed -n '/^## Install/,/^## [^I]/{/^```sh/,/^```$/{/^```/!p}}' README.md | sed 's/ *#.*//; /^$/d')
[[ ${#commands[@]} -ge 3 ]] || die "README.md has no section Install with its commands"
for command in "${commands[@]}"; do
    say "$command"
    case $command in
    "make packages") $command ;;
    "sudo apt install ./"*)
        as_root install -D -t "$out/debian/root/dist/packages" dist/packages/*_amd64.deb
        inside "${command#sudo }"
        ;;
    "cargo install "*)
        # With the features and the profile of `make run`, which was built ahead: what all commands need is tested above.
        (rust_need && CARGO_INSTALL_ROOT=$out/cargo $command --profile first --no-default-features 2>&1 | tee "$out/log")
        ! grep -q '^warning: [^b]' "$out/log" || die "cargo install prints warnings"
        [[ $("$out/cargo/bin/latlab" --version) == "latlab "* ]] || die "cargo install installed no latlab"
        ;;
    *) die "no test for the command '$command' of README.md" "add it to scripts/test.d/85-packages.sh" ;;
    esac
done

say "packing once more"
mkdir "$out/first"
cp dist/packages/* "$out/first"
scripts/packages >/dev/null
diff -r "$out/first" dist/packages || die "two packings of one build differ"
(cd dist/packages && sha256sum --quiet --check SHA256SUMS)

lintian --version
lintian --allow-root --fail-on error,warning dist/packages/*.deb

say "the package for amd64"
inside 'latlab --version
    latlab doctor >/dev/null
    latlab survey --quick --step gaps --out run >/dev/null
    latlab report run >/dev/null
    latlab vm doctor
    ls /usr/share/man/man1/latlab-why.1.gz /usr/share/bash-completion/completions/latlab >/dev/null || exit 1
    bash -n /usr/share/bash-completion/completions/latlab'
inside 'latlab vm fetch armv7-rt
    latlab --on vm:armv7-rt wakeup -D 2 --out vm
    grep -q armv7l vm/run.json'
inside 'mkdir -p .ssh && chmod 700 .ssh
    ssh-keygen -q -t ed25519 -N "" -f .ssh/id_ed25519
    cp .ssh/id_ed25519.pub .ssh/authorized_keys
    printf "Host board\nProxyCommand /usr/sbin/sshd -i\nStrictHostKeyChecking no\n" >.ssh/config
    latlab --on ssh://root@board survey --quick --step gaps --out ssh >/dev/null
    test -s ssh/run.json'

say "the package for armhf, and the tarball"
dpkg-deb -x dist/packages/*_armhf.deb "$out/armhf"
qemu-arm-static "$out/armhf/usr/bin/latlab" --version
qemu-arm-static "$out/armhf/usr/bin/latlab" survey --quick --step gaps --out "$out/run" >/dev/null
grep -q '"armv7l"' "$out/run/run.json" || die "the armhf run does not name its architecture"
mkdir "$out/tarball"
tar -C "$out/tarball" --strip-components 1 -xf dist/packages/latlab-*-linux-x86_64.tar.gz
as_root chroot "$out/tarball" /latlab --version

# The lists of parts are those of each build's features.
names() { sed -n 's/^   "name": "\(.*\)",$/\1/p' "dist/packages/"*"_$1.cdx.json"; }
python3 -m json.tool "$(echo dist/packages/*_amd64.cdx.json)" >/dev/null
grep -qx rusqlite < <(names amd64) || die "the list of parts for amd64 lacks rusqlite"
! grep -qx rusqlite < <(names armhf) || die "the list of parts for armhf has rusqlite, which the board build lacks"
