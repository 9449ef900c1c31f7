#!/usr/bin/env bash
# Predicts the networks of the Python package `onnx`, which nobody ran, from models of their kernels, and
# compares them with the simulated board, on units that the models have not seen:
#
#     tools/networks.sh [compose | SEED]
#
# The kernels are learned from eleven simulated units. Takes about twenty minutes on two cores. With `compose`
# only the model files are made, from few rows of kernels, in about a minute. WATTGATE_BUILT says that the
# programs are built.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/packages.sh python3-venv gcc libc6-dev
place=${CARGO_TARGET_DIR:-target}/networks
/usr/bin/python3 -m venv "$place"
"$place/bin/pip" install -q "onnx==1.23.2"
light=$("$place/bin/python" -c 'import onnx, os; print(os.path.dirname(onnx.__file__))')
light=$light/backend/test/data/light
if [ -z "${WATTGATE_BUILT:-}" ]; then
    cargo build --release --locked -p wattgate-simulator
    cargo build --release --locked -p wattgate-trainer --bin wattgate-trainer --example networks
fi
rows=140000 trees=600
if [ "${1:-}" = compose ]; then
    rows=14000 trees=150
fi
target/release/wattgate-simulator kernels --board xavier-agx --units 11 --rows $rows --seed 1 \
    -o "$place/kernels.csv"
target/release/wattgate-trainer kernels fit --corpus "$place/kernels.csv" --trees $trees \
    -o "$place/kernels.wgk"
count=0
for network in "$light"/*.onnx; do
    name=$(basename "$network" .onnx)
    target/release/wattgate-trainer compose --kernels "$place/kernels.wgk" --network "$network" \
        --board xavier-agx --figure "$place/$name.svg" -o "$place/$name.wgt"
    target/release/wattgate-trainer select "$place/$name.wgt" --limit 15W --confidence 0.95
    count=$((count + 1))
done
[ $count -ge 9 ]
if [ "${1:-}" != compose ]; then
    exec target/release/examples/networks "$place/kernels.wgk" "$light" "$@"
fi
