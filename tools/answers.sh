#!/usr/bin/env bash
# What model files answer on measured corpora, as a table: how often their bounds hold, for any mode, for single
# clocks, for the modes that are chosen under limits and deadlines, and in the worst tenth of the models; and what
# the choices cost. No mode is scored by a row that it was trained on. 20 runs of 50 modes on all corpora take ten
# minutes on two cores.
#
#     tools/answers.sh [FOLDER-OF-CORPORA [MODES [RUNS [random|planned [PART-OF-A-NAME [REFERENCE]]]]]]
set -euo pipefail
cd "$(dirname "$0")/.."

. tools/corpora.sh
tools/packages.sh gcc libc6-dev
[ -n "${WATTGATE_BUILT-}" ] || cargo build --release --locked -p wattgate-lab --example answers
exec target/release/examples/answers "$data" "${2:-50}" "${3:-20}" "${4:-random}" ${5+"$5"} ${6+"$6"}
