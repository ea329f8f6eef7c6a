# shellcheck shell=bash disable=SC2034 # variables of the caller
# Sourced after lib.sh: compilers for other architectures.
#
# Where rustup's glibc target is installed, that is used. Otherwise Debian's Rust builds its standard library from
# rust-web-src for that target, and Debian's cross compiler links. `-Z build-std` is an unstable option, hence
# RUSTC_BOOTSTRAP; the language features used stay the stable ones.

# arch_facts ARCH: names of one architecture: Debian's compiler, its C library, Rust's glibc and musl targets.
arch_facts() {
    case $1 in
    armv7) gnu=armv7-unknown-linux-gnueabihf musl=armv7-unknown-linux-musleabihf
        cc=arm-linux-gnueabihf-gcc cc_packages=(gcc-arm-linux-gnueabihf libc6-dev-armhf-cross) ;;
    aarch64) gnu=aarch64-unknown-linux-gnu musl=aarch64-unknown-linux-musl
        cc=aarch64-linux-gnu-gcc cc_packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross) ;;
    x86_64) gnu=x86_64-unknown-linux-gnu musl=x86_64-unknown-linux-musl
        cc=x86_64-linux-gnu-gcc cc_packages=(gcc-x86-64-linux-gnu libc6-dev-amd64-cross) ;;
    *) die "'$1' is no board architecture" "choose from armv7, aarch64, x86_64" ;;
    esac
    # At home the ordinary compiler is the cross compiler.
    if [[ $(uname -m) == "$1" ]]; then cc=cc cc_packages=(gcc libc6-dev); fi
}

# has_std TARGET: whether the toolchain in PATH has a standard library for it.
has_std() { [[ -n $(compgen -G "$(rustc --print sysroot)/lib/rustlib/$1/lib/libstd-*.rlib") ]]; }

# cross_need ARCH: installs what a build for its glibc needs.
cross_need() {
    local gnu musl cc cc_packages
    arch_facts "$1"
    if has_std "$gnu"; then
        apt_need "linking for $1" "${cc_packages[@]}"
    else
        apt_need "building for $1" rustc-web cargo-web rust-web-src "${cc_packages[@]}"
    fi
}

# debian_rust COMMAND…: with Debian's Rust, and what its unstable options need.
debian_rust() { RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 PATH=/usr/bin:$PATH "$@"; }
