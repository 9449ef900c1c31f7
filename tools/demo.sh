#!/usr/bin/env bash
# The main job on a simulated Jetson: profiles a workload, learns from it, chooses a mode for each
# limit, and lets the watchdog hold a limit that changes.
#
#     tools/demo.sh [OPTION…]      options of wattgate-demo: `tools/demo.sh --help`
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/ready.sh

ready 1100 11 gcc libc6-dev
cargo build --release --locked -p wattgate-demo || not_built
built
"$target/release/wattgate-demo" "$@"
