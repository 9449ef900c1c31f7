#!/usr/bin/env bash
# Builds the Debian package of the daemon for a Jetson, target/debian/wattgated_*_arm64.deb, and
# checks it: its files, the program's size and that it is static, manual pages, unit. In an
# emulator the packaged program then controls a simulated board, and restores it at the end.
#
#     tools/deb.sh
set -euo pipefail
cd "$(dirname "$0")/.."

# Static, with musl. A program linked with this Debian's C library needs glibc 2.34; R32 has 2.27
# and R35 2.31. A static glibc would add 0.6 MiB.
triple=aarch64-unknown-linux-musl
cargo_deb=3.8.0
most_bytes=$((3 * 1024 * 1024 / 2))
# Exposure of the unit by `systemd-analyze security`, times ten. Comments in the unit explain it.
most_exposure=12

fail() {
    echo "deb.sh: FAILED, $1" >&2
    exit 1
}

# eventually WHAT COMMAND…: waits until the command succeeds.
eventually() {
    local what=$1
    shift
    for _ in {1..600}; do
        "$@" && return
        sleep 0.1
    done
    fail "not within a minute: $what"
}

tools/packages.sh binutils gcc libc6-dev mandoc qemu-user-static systemd
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# Without features and unoptimised, cargo-deb builds in 20 s; it packs in 1 s.
cargo install --quiet cargo-deb --version "=$cargo_deb" --locked --no-default-features --debug \
    --root "$target/tools" --target-dir "$target/tools/build"

CARGO_PROFILE_RELEASE_STRIP=symbols tools/cross.sh $triple build --release --locked \
    -p wattgate-watchdog
# Build scripts and macros are not linked, so they are left out.
cargo tree --locked -p wattgate-watchdog --target $triple -e normal,no-proc-macro \
    --prefix none --no-dedupe -f '{p} {l}' | grep -v '^wattgate-' | sort -u \
    >"$target/$triple/release/wattgated.crates"
! grep -vE '\b(MIT|Apache-2.0)\b' "$target/$triple/release/wattgated.crates" ||
    fail "a crate has a licence that debian/copyright lacks"
rm -rf "$target/debian"
"$target/tools/bin/cargo-deb" deb --quiet --locked --no-build --no-strip --target $triple \
    -p wattgate-watchdog --output "$target/debian/"
deb=$(echo "$target"/debian/wattgated_*_arm64.deb)
dpkg-deb -I "$deb"
dpkg-deb -c "$deb"

. tools/simulated.sh --tmpdir
root=$place/root
dpkg-deb -x "$deb" "$root"
dpkg-deb -e "$deb" "$place/control"

dpkg-deb -c "$deb" | awk '!/\/$/ { print $1, $2, $6 }' | sort -k 3 | diff - <(
    cat <<'FILES'
-rwxr-xr-x 0/0 ./usr/bin/wattgated
-rw-r--r-- 0/0 ./usr/lib/systemd/system/wattgated.service
-rw-r--r-- 0/0 ./usr/lib/sysusers.d/wattgated.conf
-rw-r--r-- 0/0 ./usr/share/doc/wattgated/changelog.gz
-rw-r--r-- 0/0 ./usr/share/doc/wattgated/copyright
-rw-r--r-- 0/0 ./usr/share/doc/wattgated/crates
-rw-r--r-- 0/0 ./usr/share/doc/wattgated/examples/hardware-watchdog.conf
-rw-r--r-- 0/0 ./usr/share/doc/wattgated/examples/metrics.conf
-rw-r--r-- 0/0 ./usr/share/doc/wattgated/examples/wattgated.toml
-rw-r--r-- 0/0 ./usr/share/man/man5/wattgated.toml.5.gz
-rw-r--r-- 0/0 ./usr/share/man/man8/wattgated.8.gz
FILES
) || fail "the package has other files than expected"
# No conffiles: the unit is not enabled, and /etc belongs to the user.
(cd "$place/control" && echo *) | diff - <(echo control postinst postrm prerm) ||
    fail "the package has other control files than expected"
for script in postinst postrm prerm; do
    sh -n "$place/control/$script"
done

program=$root/usr/bin/wattgated
bytes=$(stat -c %s "$program")
echo "program: $bytes bytes"
[ "$bytes" -le "$most_bytes" ] || fail "the program has more than $most_bytes bytes"
readelf -hlSW "$program" >"$place/elf"
grep -q 'Machine: *AArch64' "$place/elf" || fail "the program is for another processor"
! grep -E 'INTERP|DYNAMIC' "$place/elf" || fail "the program is not static"
! grep -E '\.(symtab|debug_info)' "$place/elf" || fail "the program is not stripped"

# The other manuals that this machine has do not matter.
mandoc -T lint -W style tools/watchdog/wattgated.8 tools/watchdog/wattgated.toml.5 \
    >"$place/lint" 2>/dev/null || true
! grep -v 'referenced manual not found' "$place/lint" || fail "manual pages"

# Verify the unit alone and with each example. The units that it needs are copied from this machine.
mkdir -p "$root/bin" "$root/etc/systemd/system/wattgated.service.d"
for other in sh kill; do
    install -m 755 /dev/null "$root/bin/$other"
done
cp -r /lib/systemd/system/. "$root/usr/lib/systemd/system/"
for example in none metrics hardware-watchdog; do
    drop_in=$root/etc/systemd/system/wattgated.service.d/$example.conf
    [ "$example" = none ] || cp "$root/usr/share/doc/wattgated/examples/$example.conf" "$drop_in"
    # Complaints about other units of this machine are ignored.
    systemd-analyze verify --man=no --root="$root" wattgated.service >"$place/verify" 2>&1 || true
    ! grep wattgated "$place/verify" || fail "the unit with example $example"
    rm -f "$drop_in"
done
systemd-analyze security --offline=true --no-pager --threshold=$most_exposure --root="$root" \
    wattgated.service >"$place/exposure" || fail "exposure: $(tail -n 1 "$place/exposure")"
grep -v '^✓' "$place/exposure"

# The packaged program on a simulated board.
emulated=(qemu-aarch64-static "$program")
settings() {
    (cd "$place/board" && find sys \( -name online -o -name 'scaling_m*_freq' -o \
        -name 'm*_freq' -o -name mrq_rate_locked -o -name emc_iso_cap \) -type f |
        sort | xargs tail -n +1)
}
# As tools/ci.sh has built it for the tests.
CARGO_PROFILE_RELEASE_LTO=off cargo build --release --locked -p wattgate-simulator
"$target/release/wattgate-simulator" board --board orin-agx-64 --workload resnet18 \
    --root "$place/board" &
board=$!
# The board obeys when all of its files are there, and control.log then has its answer.
eventually "the board starts" test -e "$place/board/control"
echo 'power 1' >>"$place/board/control"
eventually "the board obeys" grep -qs 'power 1: ok' "$place/board/control.log"
"${emulated[@]}" --help | grep '^Usage: wattgated COMMAND'
"${emulated[@]}" check --config "$place/wattgated.toml" --root "$place/board"
settings >"$place/before"
"${emulated[@]}" run --config "$place/wattgated.toml" --root "$place/board" 2>"$place/log" &
daemon=$!
eventually "the daemon measures a mode" grep -q 'tracking; measured' "$place/log"
! settings | cmp -s - "$place/before" || fail "the daemon set no mode"
kill "$daemon"
wait "$daemon" || fail "the daemon ended with $?"
daemon=
cat "$place/log"
settings | diff "$place/before" - || fail "the daemon did not restore all settings"
left=$(ls -A "$place/board/var/lib/wattgate")
[ -z "$left" ] || fail "the daemon left files behind: $left"
echo "$deb"
