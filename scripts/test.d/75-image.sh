# Board images: two are built, checked, started by U-Boot and by UEFI in QEMU from the cards themselves, and measured over SSH.
. scripts/lib.sh
rust_need
apt_need "board images" qemu-system-arm qemu-efi-arm u-boot-qemu e2fsprogs kmod openssh-client \
    nfs-ganesha nfs-ganesha-vfs flex bison bc patch xz-utils libssl-dev gcc-arm-linux-gnueabihf libc6-dev-armhf-cross
[[ -x dist/latlab-armv7 ]] || scripts/boards armv7
scripts/cargo test --locked --workspace --test cli -- image:: --include-ignored --test-threads 1
