#!/usr/bin/env bash
# PowerTrain's published transfers beside the same transfers on simulated boards, in a
# quarter of an hour on two cores.
#
#     tools/published.sh
set -euo pipefail
cd "$(dirname "$0")/.."

tools/packages.sh gcc libc6-dev
cargo build --release --locked -p wattgate-demo --example published
exec target/release/examples/published
