#!/usr/bin/env bash
# The loop of a user who measures by hand: plan, measure, fill in, fit, predict, select. In place of a
# person, modes are measured on a simulated AGX Xavier.
#
#     tools/loop.sh
set -euo pipefail
cd "$(dirname "$0")/.."

tools/packages.sh gcc libc6-dev
cargo build --release --locked -p wattgate-trainer
cargo build --release --locked -p wattgate-judge
programs=$(realpath "${CARGO_TARGET_DIR:-target}")/release
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$programs/wattgate-simulator" corpus --board xavier-agx --workload yolov8n --modes all --seed 1 \
    -o "$place/truth.csv"
cd "$place"

run() {
    echo
    echo "\$ wattgate-trainer $*"
    "$programs/wattgate-trainer" "$@"
}

# Fills in the time and the power of each row that has none.
measure() {
    awk 'BEGIN { FS = OFS = "," }
        FNR == 1 { for (at = 1; at <= NF; at++) column[$at] = at }
        { mode = $column["cores"] OFS $column["cpu_khz"] OFS $column["gpu_khz"] OFS $column["emc_khz"] }
        NR == FNR { time[mode] = $column["time_ms"]; power[mode] = $column["power_mw"]; next }
        FNR > 1 && $column["time_ms"] == "" {
            $column["time_ms"] = time[mode]
            $column["power_mw"] = power[mode]
        }
        { print }' truth.csv yolo.csv >measured.csv
    mv measured.csv yolo.csv
}

run plan --board xavier-agx --modes 8 --workload yolo -o yolo.csv
head -n 3 yolo.csv
# The model must not say that these were measured on a board.
sed -i '1s/$/,kind/; 2,$s/$/,simulated/' yolo.csv
measure
run plan yolo.csv --board xavier-agx --modes 12 -o yolo.csv
measure
run fit yolo.csv --board xavier-agx -o yolo.wgt
run inspect yolo.wgt
run predict yolo.wgt --mode 4,1190400,675750,1600000
run select yolo.wgt --limit 15W
