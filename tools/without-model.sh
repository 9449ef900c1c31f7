#!/usr/bin/env bash
# How fast constant loads run under a limit that is held without a model, as a table: simulated boards that differ in seven
# ways, and recorded boards. From the first minute on, and in the eleventh one. Takes ten minutes after the build.
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
    local loads=("$programs/wattgate-simulator" loads --governor "$known" --kind constant --json "$@")
    "${loads[@]}" --seeds 2 >"$place/rows.json"
    for minutes in 10 11; do
        "${loads[@]}" --seeds 1 --minutes $minutes >"$place/$minutes.json"
    done
    python3 - "${known/without-model/generic model}" "$board" "$place" <<'PYTHON'
import json
import statistics
import sys

known, board, place = sys.argv[1:]
rows, ten, eleven = (json.load(open(f"{place}/{name}.json")) for name in ("rows", "10", "11"))
speeds = [row["speed_vs_fixed_pct"] for row in rows]
over = max(row["over_430ms_pct"]["worst"] for row in rows)
median = statistics.median(speed["median"] for speed in speeds)
worst = min(speed["worst"] for speed in speeds)
# Speed counts from the end of the first minute on.
work = [[length * row["speed_vs_fixed_pct"]["median"] for row in rows] for length, rows in ((9, ten), (10, eleven))]
late = statistics.median(after - before for before, after in zip(*work))
print(f"| {known.replace('-', ' ')} | {board} | {over:.2f} | {median:.1f} | {worst:.1f} | {late:.1f} |")
PYTHON
}

echo "| known | board | over, % | speed, median, % | worst, % | in the eleventh minute, median, % |"
echo "|---|---|---|---|---|---|"
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
