#!/usr/bin/env bash
# Predicts the networks of the Python package `onnx`, which nobody ran, from models of their kernels, and
# holds a limit with their models on the simulated board, on units that nobody measured:
#
#     tools/networks.sh [compose | SEED]
#
# The kernels are learned from eleven simulated units. Then the predictions are scored, which takes about twenty
# minutes on two cores. With `compose` they are not, and few rows of kernels are learned from: a minute.
# WATTGATE_BUILT says that the programs are built.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/packages.sh python3-venv gcc libc6-dev
place=${CARGO_TARGET_DIR:-target}/networks
/usr/bin/python3 -m venv "$place"
"$place/bin/pip" install -q "onnx==1.23.2"
light=$("$place/bin/python" -c 'import onnx, os; print(os.path.dirname(onnx.__file__))')
light=$light/backend/test/data/light
if [ -z "${WATTGATE_BUILT:-}" ]; then
    cargo build --release --locked -p wattgate-judge
    cargo build --release --locked -p wattgate-lab --bin wattgate-lab --example networks
fi
rows=140000 trees=600
if [ "${1:-}" = compose ]; then
    rows=14000 trees=150
fi
target/release/wattgate-simulator kernels --board xavier-agx --units 11 --rows $rows --seed 1 \
    -o "$place/kernels.csv"
target/release/wattgate-lab kernels fit --corpus "$place/kernels.csv" --trees $trees \
    -o "$place/kernels.wgk"
target/release/wattgate-simulator load --kind training --seconds 60 -o "$place/load.csv"
count=0
for network in "$light"/*.onnx; do
    name=$(basename "$network" .onnx)
    target/release/wattgate-lab compose --kernels "$place/kernels.wgk" --network "$network" \
        --board xavier-agx --calls "$place/$name.csv" --figure "$place/$name.svg" -o "$place/$name.wgt"
    # The limit holds for it on a unit that nobody measured.
    target/release/wattgate-simulator replay --board xavier-agx --unit $((5000 + count)) \
        --weights "$place/$name.wgt" --calls "$place/$name.csv" --limit 15W --load "$place/load.csv" \
        --json >"$place/$name.json"
    awk -F '[:,]' '/"(over_430ms_pct|speed_vs_fixed_pct)"/ { print $1 ":" $2 }
        /"over_430ms_pct"/ && $2 > 0.5 { bad = 1 } END { exit bad }' "$place/$name.json"
    count=$((count + 1))
done
[ $count -ge 9 ]
if [ "${1:-}" != compose ]; then
    exec target/release/examples/networks "$place/kernels.wgk" "$light" "$@"
fi
