#!/usr/bin/env bash
# Builds the Debian package of the daemon for a Jetson, target/debian/wattgated_*_arm64.deb, and
# checks it: its files, the program's size and that it is static, manual pages, unit. In an
# emulator the packaged program then controls a simulated board, and restores it at the end.
#
#     tools/deb.sh
set -euo pipefail
cd "$(dirname "$0")/.."

# Static, with musl: a program linked here with Debian's C library asks for glibc 2.34, and R32
# has 2.27, R35 2.31. With a static glibc it is 0.6 MiB larger.
triple=aarch64-unknown-linux-musl
cargo_deb=3.8.0
most_bytes=$((3 * 1024 * 1024 / 2))
# In tenths of what `systemd-analyze security` prints: 1.2. The unit says why it is not less.
most_exposure=12

fail() {
    echo "deb.sh: FAILED, $1" >&2
    exit 1
}

# eventually WHAT COMMAND…: waits until it succeeds.
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
# Without features, and unoptimised: it is built in 20 s and packs in one.
cargo install --quiet cargo-deb --version "=$cargo_deb" --locked --no-default-features --debug \
    --root "$target/tools" --target-dir "$target/tools/build"

CARGO_PROFILE_RELEASE_LTO=thin CARGO_PROFILE_RELEASE_STRIP=symbols \
    tools/cross.sh $triple build --release --locked -p wattgate-watchdog
# Build scripts and macros are not linked in.
cargo tree --locked -p wattgate-watchdog --target $triple -e normal,no-proc-macro \
    --prefix none --no-dedupe -f '{p} {l}' | grep -v '^wattgate-' | sort -u \
    >"$target/$triple/release/wattgated.crates"
! grep -vE '\b(MIT|Apache-2.0)\b' "$target/$triple/release/wattgated.crates" ||
    fail "a licence that debian/copyright does not have"
rm -rf "$target/debian"
"$target/tools/bin/cargo-deb" deb --quiet --locked --no-build --no-strip --target $triple \
    -p wattgate-watchdog --output "$target/debian/"
deb=$(echo "$target"/debian/wattgated_*_arm64.deb)
dpkg-deb -I "$deb"
dpkg-deb -c "$deb"

place=$(mktemp -d)
board=
daemon=
end() {
    for process in $daemon $board; do
        kill "$process" && wait "$process" || true
    done
    rm -rf "$place"
}
trap end EXIT
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
) || fail "other files than expected"
# No configuration file: the unit is not enabled, and what is in /etc is the user's.
(cd "$place/control" && echo *) | diff - <(echo control postinst postrm prerm) ||
    fail "other files of control than expected"
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

# Which other manuals there are depends on the machine.
mandoc -T lint -W style tools/watchdog/wattgated.8 tools/watchdog/wattgated.toml.5 \
    >"$place/lint" 2>/dev/null || true
! grep -v 'referenced manual not found' "$place/lint" || fail "manual pages"

# The unit as it stands, and with each example. The units that it stands on are this machine's.
mkdir -p "$root/bin" "$root/etc/systemd/system/wattgated.service.d"
for other in sh kill; do
    install -m 755 /dev/null "$root/bin/$other"
done
cp -r /lib/systemd/system/. "$root/usr/lib/systemd/system/"
for example in none metrics hardware-watchdog; do
    drop_in=$root/etc/systemd/system/wattgated.service.d/$example.conf
    [ "$example" = none ] || cp "$root/usr/share/doc/wattgated/examples/$example.conf" "$drop_in"
    # It complains about units of this machine as well.
    systemd-analyze verify --man=no --root="$root" wattgated.service >"$place/verify" 2>&1 || true
    ! grep wattgated "$place/verify" || fail "the unit, example: $example"
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
cargo build --release --locked -p wattgate-simulator
"$target/release/wattgate-simulator" board --board orin-agx-64 --workload resnet18 \
    --root "$place/board" &
board=$!
eventually "a board" test -s "$place/board/proc/device-tree/model"
cat >"$place/wattgated.toml" <<CONFIG
version = 1
model = "$PWD/weights/orin-agx-64-resnet18.wgt"
limit = "30W"
CONFIG
"${emulated[@]}" --help | grep '^Usage: wattgated COMMAND'
"${emulated[@]}" check --config "$place/wattgated.toml" --root "$place/board"
settings >"$place/before"
"${emulated[@]}" run --config "$place/wattgated.toml" --root "$place/board" 2>"$place/log" &
daemon=$!
eventually "a measured mode" grep -q 'tracking; measured' "$place/log"
! settings | cmp -s - "$place/before" || fail "no mode was set"
kill "$daemon"
wait "$daemon" || fail "the daemon ended with $?"
daemon=
cat "$place/log"
settings | diff "$place/before" - || fail "not all is restored"
left=$(ls -A "$place/board/var/lib/wattgate")
[ -z "$left" ] || fail "left behind: $left"
echo "$deb"
