#!/usr/bin/env bash
# Learns the priors of the trainer's hyperparameters from all families of corpora, four measured
# and one simulated, and writes trainer/priors.csv. Takes a minute after the build.
#
#     tools/priors.sh [FOLDER-OF-CORPORA]
set -euo pipefail
cd "$(dirname "$0")/.."

. tools/corpora.sh
tools/packages.sh gcc libc6-dev
cargo build --release --locked -p wattgate-lab --example priors
target/release/examples/priors "$data" >target/priors.csv
mv target/priors.csv trainer/priors.csv
