#!/usr/bin/env bash
# Builds every bare-metal image, runs it in QEMU, and compares its console with the golden report
# and its figures with budgets.toml. Failures are listed at the end.
#
#     firmware-tests/run.sh where TARGET     prints where flash, instructions and memory of `hold` go
#
# The host test `runtime/tests/it/golden.rs` prints the same report. Equal reports mean that every
# prediction, front and answer is bit-exact.
set -euo pipefail
cd "$(dirname "$0")"

# Where tools/ready.sh puts Rust.
PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
../tools/packages.sh gcc libc6-dev qemu-system-arm
# Debian 12 has RISC-V in a package of many processors, later ones in a package of its own.
command -v qemu-system-riscv32 >/dev/null ||
    ../tools/packages.sh qemu-system-misc
cargo test --release --locked -p wattgate-harness
exec cargo run --release --locked -p wattgate-harness -- "$@"
