#!/usr/bin/env bash
# Builds every bare-metal image, runs it in QEMU, compares its console with the golden report
# and its figures with budgets.toml. What fails is listed at the end.
#
# The report is that of the host test `runtime/tests/it/golden.rs`: equal consoles are equal bits
# of every prediction, front and answer.
set -euo pipefail
cd "$(dirname "$0")"

../tools/packages.sh gcc libc6-dev qemu-system-arm
cargo test --release --locked -p wattgate-harness
exec cargo run --release --locked -p wattgate-harness
