#!/usr/bin/env bash
# Compares the kernels' learner with XGBoost, as MIRAGE used it, on units that neither has seen:
#
#     tools/xgboost-peer.sh [CORPUS.csv TEST-UNITS]
#
# Without arguments the corpus is simulated: 13 units of a Jetson AGX Xavier, of which two are scored.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/packages.sh python3-venv gcc libc6-dev
place=${CARGO_TARGET_DIR:-target}/xgboost
/usr/bin/python3 -m venv "$place"
"$place/bin/pip" install -q "numpy==2.4.6" "pandas==3.1.1" "scikit-learn==1.9.1" "xgboost==3.2.0"
if [ -z "${WATTGATE_BUILT-}" ]; then
    cargo build --release --locked -p wattgate-lab -p wattgate-judge
    cargo build --release --locked -p wattgate-lab --example kernel_speed --example kernel_inputs
fi
corpus=${1:-$place/kernels.csv}
units=${2:-12,13}
if [ $# -eq 0 ]; then
    target/release/wattgate-simulator kernels --board xavier-agx --rows 140000 --seed 1 -o "$corpus"
fi
target/release/wattgate-lab kernels evaluate --corpus "$corpus" --test-units "$units" --json > "$place/ours.json"
target/release/examples/kernel_inputs "$corpus" "$units" "$place/inputs.csv"
"$place/bin/python" tools/xgboost-peer.py "$corpus" "$units" "$place/ours.json" "$place/inputs.csv"
target/release/wattgate-lab kernels fit --corpus "$corpus" -o "$place/ours.wgk" > "$place/fit.txt"
target/release/examples/kernel_speed "$place/ours.wgk" "$corpus"
