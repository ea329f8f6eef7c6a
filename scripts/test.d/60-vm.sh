# The virtual lab: real ARM and x86 PREEMPT_RT kernels in QEMU. Kernels are fetched once, into the user's cache.
. scripts/lib.sh
rust_need
apt_need "the virtual lab" qemu-system-arm qemu-system-x86 seabios ipxe-qemu kmod cpio procps \
    openssh-client openssh-server make gcc gcc-arm-linux-gnueabihf \
    flex bison bc patch xz-utils libelf-dev
scripts/boards armv7 x86_64
debug_build
"$(target_dir)/debug/latlab" vm fetch armv7-rt x86_64-rt
# Two machines at a time: each emulates one CPU.
cargo_test --no-fail-fast --test cli -- menu:: tune_board:: tune_vm:: vm:: vm_count:: vm_kernel:: vm_ssh:: vm_twin:: watch_vm:: why_vm:: worst:: --ignored --test-threads 2
