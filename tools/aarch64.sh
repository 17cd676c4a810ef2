#!/usr/bin/env bash
# The Rust tests for AArch64: cross compiled here, run under qemu-user.
#
#   tools/aarch64.sh test [ARGUMENTS]   run them; arguments after `--` are the test program's, as with `cargo test`
#   tools/aarch64.sh prepare DIR        make a folder with Debian's compilers and emulator; as root, takes debootstrap
#
# SUITE is the release of Debian (default: testing). APT_OPTIONS go to apt-get, for example `-o Acquire::Check-Valid-Until=false` for a
# mirror that is not kept up to date.
#
# `test` takes rustup's std for AArch64. Where rustup cannot download it, AARCH64_ROOT=DIR takes a folder that `prepare` made; it is entered
# by chroot, as root, with the crates that cargo has here.
set -euo pipefail
cd "$(dirname "$0")/.."

TARGET=aarch64-unknown-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER='qemu-aarch64 -L /usr/aarch64-linux-gnu'
# Optimised, for without optimisation no loop is compiled to NEON; with the checks of a debug build.
CARGO_TEST=(cargo test --locked -q --profile sanitize --lib --target "$TARGET" --target-dir target/aarch64)

fail() {
    echo "aarch64: $1" >&2
    exit 1
}

prepare() {
    local options
    read -ra options <<< "${APT_OPTIONS:-}"
    export DEBIAN_FRONTEND=noninteractive
    debootstrap --variant=minbase "${SUITE:-testing}" "$1"
    chroot "$1" dpkg --add-architecture arm64
    chroot "$1" apt-get "${options[@]}" -q update
    chroot "$1" apt-get "${options[@]}" -qy install --no-install-recommends \
        cargo rustc gcc libc6-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross libstd-rust-dev:arm64 qemu-user
    chroot "$1" apt-get clean
}

# The mounts belong to a namespace of their own and end with it.
test_in_root() {
    local root=$1 cargo_home=${CARGO_HOME:-$HOME/.cargo}
    shift
    cargo fetch --locked -q
    mkdir -p "$root/cargo/registry" "$root/rustdev"
    unshare --mount bash -euc '
        root=$0 registry=$1
        shift
        mount --bind "$registry" "$root/cargo/registry"
        mount --bind . "$root/rustdev"
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        exec chroot "$root" env -C /rustdev HOME=/root PATH=/usr/bin:/bin CARGO_HOME=/cargo "$@"' \
        "$root" "$cargo_home/registry" "${CARGO_TEST[@]}" --offline "$@"
}

test_here() {
    ls "$(rustc --print target-libdir --target "$TARGET")"/libstd-*.rlib > /dev/null 2>&1 ||
        fail "rustc has no std for it: \`rustup target add $TARGET\`, or AARCH64_ROOT=DIR after \`tools/aarch64.sh prepare DIR\`"
    for program in aarch64-linux-gnu-gcc qemu-aarch64; do
        command -v "$program" > /dev/null || fail "there is no $program: \`apt install gcc-aarch64-linux-gnu qemu-user\`"
    done
    "${CARGO_TEST[@]}" "$@"
}

case ${1:-} in
    test) if [ -n "${AARCH64_ROOT:-}" ]; then test_in_root "$AARCH64_ROOT" "${@:2}"; else test_here "${@:2}"; fi ;;
    prepare) prepare "${2:?prepare takes a folder}" ;;
    *) fail 'it takes test or prepare; see its first lines' ;;
esac
