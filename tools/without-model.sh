#!/usr/bin/env bash
# How fast constant loads run under a limit that is held without a model, as a table: simulated boards that differ in seven
# ways, and recorded boards. Takes four minutes after the build.
#
#     tools/without-model.sh [FOLDER-OF-CORPORA]
set -euo pipefail
cd "$(dirname "$0")/.."

. tools/corpora.sh
tools/packages.sh gcc libc6-dev python3
for package in wattgate-trainer wattgate-judge; do
    [ -n "${WATTGATE_BUILT-}" ] || cargo build --release --locked -p $package >&2
done
programs=$(realpath -m "${CARGO_TARGET_DIR:-target}")/release
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# row KNOWN BOARD OPTIONS: a row of the table.
row() {
    local known=$1 board=$2
    shift 2
    "$programs/wattgate-simulator" loads --governor "$known" --kind constant --seeds 2 --json "$@" >"$place/rows.json"
    python3 - "${known/without-model/generic model}" "$board" "$place/rows.json" <<'PYTHON'
import json
import statistics
import sys

known, board, path = sys.argv[1:]
rows = json.load(open(path))
speeds = [row["speed_vs_fixed_pct"] for row in rows]
over = max(row["over_430ms_pct"]["worst"] for row in rows)
median = statistics.median(speed["median"] for speed in speeds)
worst = min(speed["worst"] for speed in speeds)
print(f"| {known.replace('-', ' ')} | {board} | {over:.2f} | {median:.1f} | {worst:.1f} |")
PYTHON
}

echo "| known | board | over, % | speed, median, % | worst, % |"
echo "|---|---|---|---|---|"
for known in without-model unknown-board; do
    for board in orin-agx-64 orin-nano-8-super xavier-agx; do
        row $known "$board" --board $board
    done
    for recorded in tx2__train-vit-cifar10-mb32 xavier-agx__train-vit-cifar10-mb32; do
        truth=$data/${recorded}__bofl.csv
        # The model tells the limits, and nothing else.
        model=$place/$recorded.wgt
        [ -e "$model" ] || "$programs/wattgate-trainer" fit "$truth" --modes 50 --seed 1 -o "$model" >"$place/log" 2>&1
        row $known "${recorded%%__*}, recorded" --truth "$truth" --weights "$model"
    done
done
