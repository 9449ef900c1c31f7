#!/usr/bin/env bash
# Learns the priors of the trainer's hyperparameters from all families of corpora, four measured
# and one simulated, and writes trainer/priors.csv. Takes a minute after the build.
#
#     tools/priors.sh [FOLDER-OF-CORPORA]
set -euo pipefail
cd "$(dirname "$0")/.."

data=${1:-../shared/data}
if [ ! -d "$data" ]; then
    echo "priors.sh: no corpora in $data; name their folder: tools/priors.sh FOLDER" >&2
    exit 1
fi
tools/packages.sh gcc libc6-dev
cargo build --release --locked -p wattgate-trainer --example priors
target/release/examples/priors "$data" >trainer/priors.csv.new
mv trainer/priors.csv.new trainer/priors.csv
