# A kernel from source for the virtual lab: it compiles on all CPUs for a quarter of an hour. Run by its name only.
. scripts/lib.sh
rust_need
apt_need "kernels from source" qemu-system-x86 seabios ipxe-qemu kmod cpio procps make gcc flex bison bc patch xz-utils libelf-dev
[[ -x dist/latlab-x86_64 ]] || scripts/boards x86_64
cargo_test --no-fail-fast --test cli -- vm_build:: --ignored
