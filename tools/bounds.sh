#!/usr/bin/env bash
# What the trainer must reach on measured corpora, beside what it reaches; fails where a
# bound is missed. Each row is scored with the shipped priors, and with priors that were learned
# without the family of its corpus. Takes about twenty minutes on two cores. `gate` is a quick check: it
# scores two of the rows, in six runs and against wider bounds. WATTGATE_BUILT says that the example is built.
#
#     tools/bounds.sh [FOLDER-OF-CORPORA [errors|coverage|choices|interval|hindsight|gate]]
set -euo pipefail
cd "$(dirname "$0")/.."

. tools/corpora.sh
tools/packages.sh gcc libc6-dev
[ -n "${WATTGATE_BUILT-}" ] || cargo build --release --locked -p wattgate-lab --example bounds
exec target/release/examples/bounds "$data" ${2:+"$2"}
