#!/usr/bin/env bash
# Runs cargo for a target that this machine is not:
#
#     tools/cross.sh TARGET CARGO-COMMAND [ARGUMENT…]
#
# TARGET is a bare-metal one of the list below, or aarch64-unknown-linux-gnu or -musl, whose
# programs run under qemu-aarch64-static. Where rustup has the target or can fetch it, that
# toolchain is used; elsewhere Debian's own one, installed on the first run, which has no musl.
set -euo pipefail

target=$1 command=$2
shift 2
packages=$(dirname "$0")/packages.sh

rustup_has_target() {
    command -v rustup >/dev/null || return 1
    rustup target list --installed | grep -qx "$target" && return
    # Two of them at once spoil each other's downloads, and tools/ci.sh runs two of these.
    flock "$(rustup show home)" timeout 120 rustup target add "$target" >&2
}

# Build scripts and macros are programs of this machine.
"$packages" gcc libc6-dev
arguments=(--target "$target")
case $target in
aarch64-unknown-none | aarch64-unknown-none-softfloat | x86_64-unknown-none | \
    thumbv6m-none-eabi | thumbv7m-none-eabi | thumbv7em-none-eabihf | \
    thumbv8m.main-none-eabihf | armv7r-none-eabihf | riscv32imac-unknown-none-elf)
    bare_metal=yes
    ;;
aarch64-unknown-linux-gnu)
    bare_metal=no
    "$packages" gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64-static
    # Static programs: a machine may have no C library for this target where QEMU looks for
    # it, or two, and the loader of one hangs with the other. Documentation tests are linked by
    # rustdoc, which takes flags of its own.
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS=-Ctarget-feature=+crt-static
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTDOCFLAGS=-Ctarget-feature=+crt-static
    ;;
aarch64-unknown-linux-musl)
    bare_metal=no
    "$packages" qemu-user-static
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=qemu-aarch64-static
    ;;
*)
    echo "cross.sh: unknown target $target" >&2
    exit 2
    ;;
esac

if rustup_has_target; then
    exec cargo "$command" "${arguments[@]}" "$@"
fi

if [ "$target" = aarch64-unknown-linux-musl ]; then
    echo "cross.sh: $target is had from rustup only" >&2
    exit 1
fi
echo "cross.sh: no $target from rustup, using Debian's toolchain" >&2
"$packages" rustc-web cargo-web
[ "$command" != clippy ] || "$packages" rust-web-clippy
# Before rustup's programs of the same names.
export PATH=/usr/bin:$PATH
case $bare_metal in
yes)
    # Debian has no `core` for these targets, so it is built, and with it what the target
    # would have brought along: memory functions and a linker.
    "$packages" rust-web-src lld
    export RUSTC_BOOTSTRAP=1
    linker=CARGO_TARGET_${target^^}_LINKER
    export "${linker//-/_}=ld.lld"
    arguments+=(-Zbuild-std=core,alloc -Zbuild-std-features=compiler-builtins-mem)
    ;;
no)
    if ! dpkg --print-foreign-architectures | grep -qx arm64; then
        root=()
        [ "$(id -u)" -eq 0 ] || root=(sudo)
        "${root[@]}" dpkg --add-architecture arm64
    fi
    "$packages" libstd-rust-web-dev:arm64
    ;;
esac
exec cargo "$command" "${arguments[@]}" "$@"
