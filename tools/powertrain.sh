#!/usr/bin/env bash
# PowerTrain's claims on measured trainings: transfers from one workload to another, on the same board and on
# another one, by its recipe, by trees, and by ours with and without the reference. Prints a table for each target,
# and draws learning curves into target/powertrain. With 5 runs it takes hours on two cores.
#
#     tools/powertrain.sh [FOLDER-OF-CORPORA [RUNS]]
set -euo pipefail
cd "$(dirname "$0")/.."

. tools/corpora.sh
tools/packages.sh gcc libc6-dev
[ -n "${WATTGATE_BUILT-}" ] || cargo build --release --locked -p wattgate-lab --example powertrain
exec target/release/examples/powertrain "$data" "${2:-5}" target/powertrain
