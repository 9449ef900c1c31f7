#!/usr/bin/env bash
# What the daemon costs beside a simulated board whose files are in memory: size, memory, share
# of one core, and the time from a result over the limit to the last write.
# tools/watchdog-cost.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}

cargo build --release --locked -p wattgate-watchdog -p wattgate-simulator
target=${CARGO_TARGET_DIR:-target}/release
place=$(mktemp -d /dev/shm/wattgate.XXXXXX)
board=
daemon=
end() {
    for process in $daemon $board; do
        kill "$process" && wait "$process" || true
    done
    rm -rf "$place"
}
trap end EXIT

cat >"$place/wattgated.toml" <<CONFIG
version = 1
model = "$PWD/weights/orin-agx-64-resnet18.wgt"
limit = "30W"
CONFIG
strip -o "$place/wattgated" "$target/wattgated"
echo "stripped binary: $(stat -c %s "$place/wattgated") bytes"
"$target/wattgate-simulator" board --board orin-agx-64 --workload resnet18 --root "$place/root" &
board=$!
sleep 2
"$place/wattgated" run --config "$place/wattgated.toml" --root "$place/root" 2>"$place/log" &
daemon=$!
sleep 20
# Nanoseconds on a core.
before=$(cut -d ' ' -f 1 "/proc/$daemon/schedstat")
sleep "$seconds"
after=$(cut -d ' ' -f 1 "/proc/$daemon/schedstat")
awk -v ns=$((after - before)) -v s="$seconds" \
    'BEGIN { printf "of one core: %.2f %% over %d s\n", ns / s / 1e7, s }'
awk '/VmHWM/ { print "resident memory: at most " $2 " kB" }' "/proc/$daemon/status"
cargo test --release --locked -p wattgate-watchdog --test cost -- --nocapture 2>/dev/null |
    grep reactions
