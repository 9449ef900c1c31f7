# Sourced by the scripts that build a Debian package for a Jetson, with functions that build it and
# check what all packages have in common.

# Static, with musl. A program linked with this Debian's C library needs glibc 2.34; R32 has 2.27
# and R35 2.31. A static glibc would add 0.6 MiB.
triple=aarch64-unknown-linux-musl
cargo_deb=3.8.0
# Where tools/ready.sh puts Rust.
PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

fail() {
    echo "${0##*/}: FAILED, $1" >&2
    exit 1
}

# package CRATE NAME LICENCES OPTION…: builds the programs of cargo's OPTIONs, and packs them by the
# metadata of the crate. Creates $deb, and unpacks it into $root and $place/control.
package() {
    local crate=$1 name=$2 licences=$3
    shift 3
    # Without features and unoptimised, cargo-deb builds in 20 s; it packs in 1 s. Two installations
    # at once delete each other's files, and `tools/ci.sh full` builds two packages.
    mkdir -p "$target/tools"
    flock "$target/tools" cargo install --quiet cargo-deb --version "=$cargo_deb" --locked \
        --no-default-features --debug --root "$target/tools" --target-dir "$target/tools/build"
    CARGO_PROFILE_RELEASE_STRIP=symbols CARGO_PROFILE_RELEASE_LTO=${lto:-thin} tools/cross.sh $triple build --release --locked "$@"
    # Build scripts and macros are not linked, so they are left out. forust-ml states its licence in a file
    # alone, which is the Apache License 2.0.
    local crates=$target/$triple/release/$name.crates
    cargo tree --locked "$@" --target $triple -e normal,no-proc-macro --prefix none --no-dedupe \
        -f '{p} {l}' | grep -v '^wattgate-' | sort -u |
        sed -E '/^$/d; s/^(forust-ml v[0-9.]+) *$/\1 Apache-2.0/' >"$crates"
    ! grep -vE "\b($licences)\b" "$crates" ||
        fail "a crate has a licence that the package's copyright lacks"
    rm -f "$target/debian/$name"_*
    "$target/tools/bin/cargo-deb" deb --quiet --locked --no-build --no-strip --target $triple \
        -p "$crate" --output "$target/debian/"
    deb=$(echo "$target/debian/$name"_*_arm64.deb)
    dpkg-deb -I "$deb"
    dpkg-deb -c "$deb"
    root=$place/root
    dpkg-deb -x "$deb" "$root"
    dpkg-deb -e "$deb" "$place/control"
}

# Compares the files of the package with a list on standard input, and the control files with the
# arguments.
contents() {
    cat >"$place/files"
    dpkg-deb -c "$deb" | awk '!/\/$/ { print $1, $2, $6 }' | sort -k 3 | diff - "$place/files" ||
        fail "the package has other files than expected"
    (cd "$place/control" && echo *) | diff - <(echo "$@") ||
        fail "the package has other control files than expected"
}

# program NAME BYTES: checks that a program is static, stripped, and has at most so many bytes.
program() {
    local program=$root/usr/bin/$1 most=$2 bytes
    bytes=$(stat -c %s "$program")
    echo "$1: $bytes bytes"
    [ "$bytes" -le "$most" ] || fail "$1 has more than $most bytes"
    readelf -hlSW "$program" >"$place/elf"
    grep -q 'Machine: *AArch64' "$place/elf" || fail "$1 is for another processor"
    ! grep -E 'INTERP|DYNAMIC' "$place/elf" || fail "$1 is not static"
    ! grep -E '\.(symtab|debug_info)' "$place/elf" || fail "$1 is not stripped"
}
