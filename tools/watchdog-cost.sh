#!/usr/bin/env bash
# Prints the daemon's cost on a simulated board whose files are in memory: memory, share of
# one core, time from a reading over the limit to the last write, and share of the
# sensors' I2C bus that reads take: tools/watchdog-cost.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}

tools/packages.sh gcc libc6-dev
# As it ships.
export CARGO_PROFILE_RELEASE_LTO=thin
cargo build --release --locked -p wattgate-watchdog -p wattgate-judge
target=${CARGO_TARGET_DIR:-target}/release
. tools/simulated.sh --tmpdir=/dev/shm
"$target/wattgate-simulator" board --board orin-agx-64 --mode 0 --workload resnet18 --root "$place/root" &
board=$!
sleep 2
"$target/wattgated" run --config "$place/wattgated.toml" --root "$place/root" 2>"$place/log" &
daemon=$!
sleep 20
# CPU time of all threads in ns.
used() {
    cut -d ' ' -f 1 "/proc/$daemon/task"/*/schedstat | awk '{ sum += $1 } END { printf "%.0f", sum }'
}
echo "| cost | of it |"
echo "|---|---|"
before=$(used)
sleep "$seconds"
echo "$before $(used) $seconds" | awk '{
    printf "| share of one core, all threads, over %d s | %.2f %% |\n", $3, ($2 - $1) / $3 / 1e7
}'
awk '/VmHWM/ { printf "| resident memory, all locked, at most | %.2f MiB |\n", $2 / 1024 }' "/proc/$daemon/status"
cargo test --release --locked -p wattgate-watchdog --test it -- --nocapture cost:: control:: \
    2>/dev/null | grep -oE '^\|.*'
