#!/usr/bin/env bash
# Whether the limit is held on recorded boards, as tables: four boards that play back corpora of real ones, with models of 15
# planned and of 50 random modes of the noisy rows that a profiler reads on them, under all built-in loads; then the
# scenarios. Takes six minutes on two busy cores after the build.
#
#     tools/recorded.sh [FOLDER-OF-CORPORA]
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

boards=(
    "AGX Xavier, ViT=$data/xavier-agx__train-vit-cifar10-mb32__bofl.csv"
    "TX2, ViT=$data/tx2__train-vit-cifar10-mb32__bofl.csv"
    "AGX Orin, YOLOv8=$data/orin-agx__infer-yolov8-640__distributed-learning.csv"
    "TX1, image recognition=trainer/corpora/tx1-image5000.csv"
)

quiet() {
    "$@" 2>"$place/messages" || {
        cat "$place/messages" >&2
        exit 1
    }
}

for board in "${boards[@]}"; do
    truth=${board#*=}
    noisy=$place/noisy.csv
    quiet "$programs/wattgate-simulator" corpus --truth "$truth" --seed 1 -o "$noisy" >&2
    for modes in '15 planned' '50 random'; do
        model=$place/${board%%=*}-${modes% *}.wgt
        quiet "$programs/wattgate-trainer" fit "$noisy" --modes "${modes% *}" --sampling "${modes#* }" --seed 1 \
            -o "$model" >&2
        quiet "$programs/wattgate-simulator" loads --truth "$truth" --weights "$model" --limit-pct 25,50,75 --seeds 1 \
            --json >"$place/loads.json"
        python3 tools/recorded.py "${board%%=*}" "$modes" "$place/loads.json"
    done
done
for board in "${boards[@]}"; do
    quiet "$programs/wattgate-simulator" scenarios --truth "${board#*=}" --weights "$place/${board%%=*}-50.wgt" \
        --seeds 1 --json >"$place/scenarios.json"
    python3 tools/recorded.py "${board%%=*}" "50 random" "$place/scenarios.json"
done
