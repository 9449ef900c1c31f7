#!/usr/bin/env bash
# Builds the Debian package of the programs on a Jetson, the daemon and the profiler,
# target/debian/wattgated_*_arm64.deb, and checks it: its files, that the programs are small and
# static, manual pages, unit. In an emulator the packaged daemon then controls a simulated board, the
# packaged profiler profiles it, and both restore it at the end.
#
#     tools/deb.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/debian.sh

daemon_bytes=$((7 * 1024 * 1024 / 4))
profiler_bytes=$((7 * 1024 * 1024 / 2))
# Exposure of the unit by `systemd-analyze security`, times ten. Comments in the unit explain it.
most_exposure=12

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
. tools/simulated.sh --tmpdir
# The programs of this machine print the completions, for which the packaged ones would need the emulator.
cargo build --release --locked -p wattgate-watchdog -p wattgate-profiler
completions=$target/$triple/release/wattgated.completions
rm -rf "$completions"
mkdir -p "$completions"
for name in wattgate wattgated; do
    "$target/release/$name" completions bash >"$completions/$name.bash"
    "$target/release/$name" completions fish >"$completions/$name.fish"
    "$target/release/$name" completions zsh >"$completions/_$name"
    bash -n "$completions/$name.bash" || fail "completions of bash"
done
# One unit a crate: the daemon is a tenth smaller for half a minute of building.
export CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1
# For size: the vector code of the runtime is written by hand, so it hardly depends on the level.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=s
# Across all crates at once: another 4 %, for a minute of building.
lto=fat
package wattgate-watchdog wattgated 'MIT|Apache-2.0' -p wattgate-watchdog -p wattgate-profiler

# No conffiles: the unit is not enabled, and /etc belongs to the user.
contents control postinst postrm prerm <<'FILES'
-rwxr-xr-x 0/0 ./usr/bin/wattgate
-rwxr-xr-x 0/0 ./usr/bin/wattgated
-rw-r--r-- 0/0 ./usr/lib/systemd/system/wattgated-early.service
-rw-r--r-- 0/0 ./usr/lib/systemd/system/wattgated-metrics.service
-rw-r--r-- 0/0 ./usr/lib/systemd/system/wattgated-over.path
-rw-r--r-- 0/0 ./usr/lib/systemd/system/wattgated-safe.service
-rw-r--r-- 0/0 ./usr/lib/systemd/system/wattgated.service
-rw-r--r-- 0/0 ./usr/lib/sysusers.d/wattgated.conf
-rw-r--r-- 0/0 ./usr/share/bash-completion/completions/wattgate
-rw-r--r-- 0/0 ./usr/share/bash-completion/completions/wattgated
-rw-r--r-- 0/0 ./usr/share/doc/wattgated/changelog.gz
-rw-r--r-- 0/0 ./usr/share/doc/wattgated/copyright
-rw-r--r-- 0/0 ./usr/share/doc/wattgated/crates
-rw-r--r-- 0/0 ./usr/share/doc/wattgated/examples/hardware-watchdog.conf
-rw-r--r-- 0/0 ./usr/share/doc/wattgated/examples/metrics.conf
-rw-r--r-- 0/0 ./usr/share/doc/wattgated/examples/realtime.conf
-rw-r--r-- 0/0 ./usr/share/doc/wattgated/examples/wattgated-over.service
-rw-r--r-- 0/0 ./usr/share/doc/wattgated/examples/wattgated.toml
-rw-r--r-- 0/0 ./usr/share/fish/vendor_completions.d/wattgate.fish
-rw-r--r-- 0/0 ./usr/share/fish/vendor_completions.d/wattgated.fish
-rw-r--r-- 0/0 ./usr/share/man/man1/wattgate.1.gz
-rw-r--r-- 0/0 ./usr/share/man/man5/wattgated.toml.5.gz
-rw-r--r-- 0/0 ./usr/share/man/man8/wattgated.8.gz
-rw-r--r-- 0/0 ./usr/share/wattgate/references/orin-agx-64.wgt
-rw-r--r-- 0/0 ./usr/share/wattgate/references/orin-nano-8-super.wgt
-rw-r--r-- 0/0 ./usr/share/wattgate/references/xavier-agx.wgt
-rw-r--r-- 0/0 ./usr/share/zsh/vendor-completions/_wattgate
-rw-r--r-- 0/0 ./usr/share/zsh/vendor-completions/_wattgated
FILES
for script in postinst postrm prerm; do
    sh -n "$place/control/$script"
done
program wattgated "$daemon_bytes"
program wattgate "$profiler_bytes"

# The other manuals that this machine has do not matter. Those of programs that no package has are checked here as well.
mandoc -T lint -W style tools/wattgate/wattgate.1 tools/watchdog/wattgated.8 \
    tools/watchdog/wattgated.toml.5 tools/simulator/judge/wattgate-simulator.1 \
    tools/demo/wattgate-demo.1 tools/bench/sweep.1 >"$place/lint" 2>/dev/null || true
! grep -v 'referenced manual not found' "$place/lint" || fail "manual pages"

# Verify the unit alone and with each example. The units that it needs are copied from this machine.
mkdir -p "$root/bin" "$root/etc/systemd/system/wattgated.service.d"
for other in sh kill mkdir; do
    install -m 755 /dev/null "$root/bin/$other"
done
cp -r /lib/systemd/system/. "$root/usr/lib/systemd/system/"
for example in none metrics hardware-watchdog realtime; do
    drop_in=$root/etc/systemd/system/wattgated.service.d/$example.conf
    [ "$example" = none ] || cp "$root/usr/share/doc/wattgated/examples/$example.conf" "$drop_in"
    # Complaints about other units of this machine are ignored.
    systemd-analyze verify --man=no --root="$root" wattgated{,-early,-metrics,-safe}.service \
        >"$place/verify" 2>&1 || true
    ! grep wattgated "$place/verify" || fail "the unit with example $example"
    rm -f "$drop_in"
done
systemd-analyze security --offline=true --no-pager --threshold=$most_exposure --root="$root" \
    wattgated.service >"$place/exposure" || fail "exposure: $(tail -n 1 "$place/exposure")"
grep -v '^✓' "$place/exposure"

# The packaged programs on a simulated board.
emulated=(qemu-aarch64-static "$root/usr/bin/wattgated")
settings() {
    (cd "$place/board" && find sys \( -name online -o -name 'scaling_m*_freq' -o \
        -name 'm*_freq' -o -name mrq_rate_locked -o -name emc_iso_cap \) -type f |
        sort | xargs tail -n +1)
}
# As tools/ci.sh has built it for the tests.
cargo build --release --locked -p wattgate-judge
simulator=$target/release/wattgate-simulator
"$simulator" board --board orin-agx-64 --mode 0 --workload resnet18 \
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
! settings | cmp -s - "$place/before" || fail "the stop raised the power"
"${emulated[@]}" restore --root "$place/board"
settings | diff "$place/before" - || fail "not all settings are restored"
left=$(ls -A "$place/board/var/lib/wattgate")
[ -z "$left" ] || fail "the daemon left files behind: $left"

cat >"$place/modes.csv" <<'MODES'
cores,cpu_khz,gpu_khz,emc_khz
4,1190400,726750,3199000
8,2188800,1300500,3199000
MODES
qemu-aarch64-static "$root/usr/bin/wattgate" profile --modes "$place/modes.csv" --name resnet18 \
    -o "$place/corpus.csv" --root "$place/board" -- \
    "$simulator" workload --root "$place/board" --workload resnet18
cat "$place/corpus.csv"
# The second mode has the faster steps, and draws more.
awk -F , 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
    { times[NR] = $column["time_ms"]; powers[NR] = $column["power_mw"] }
    END { exit !(NR == 3 && 0 < times[3] && times[3] < times[2] && 0 < powers[2] && powers[2] < powers[3]) }' \
    "$place/corpus.csv" || fail "the profiler's rows are wrong"
settings | diff "$place/before" - || fail "the profiler did not restore all settings"
echo "$deb"
