#!/usr/bin/env bash
# The errors of the teacher on measured corpora without one of its parts, with priors that were
# learned without the family of the corpus. Takes about five minutes on two cores.
#
#     tools/ablation.sh [FOLDER-OF-CORPORA]
set -euo pipefail
cd "$(dirname "$0")/.."

. tools/corpora.sh
tools/packages.sh gcc libc6-dev
cargo build --release --locked -p wattgate-lab --example ablation
exec target/release/examples/ablation "$data"
