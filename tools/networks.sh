#!/usr/bin/env bash
# Predicts the networks of the Python package `onnx` that nobody ran, and compares with the simulated board,
# on units that the kernels' models have not seen:
#
#     tools/networks.sh [SEED]
#
# The kernels are learned from eleven simulated units. Takes about twenty minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/packages.sh python3-venv gcc libc6-dev
place=${CARGO_TARGET_DIR:-target}/networks
/usr/bin/python3 -m venv "$place"
"$place/bin/pip" install -q "onnx==1.23.2"
light=$("$place/bin/python" -c 'import onnx, os; print(os.path.dirname(onnx.__file__))')/backend/test/data/light
cargo build --release --locked -p wattgate-trainer -p wattgate-simulator
cargo build --release --locked -p wattgate-trainer --example networks
target/release/wattgate-simulator kernels --board xavier-agx --units 11 --rows 140000 --seed 1 -o "$place/kernels.csv"
target/release/wattgate-trainer kernels fit --corpus "$place/kernels.csv" -o "$place/kernels.wgk"
for network in "$light"/*.onnx; do
    name=$(basename "$network" .onnx)
    target/release/wattgate-trainer compose --kernels "$place/kernels.wgk" --network "$network" \
        --board xavier-agx --figure "$place/$name.svg" -o "$place/$name.wgt"
done
exec target/release/examples/networks "$place/kernels.wgk" "$light" "$@"
