#!/usr/bin/env bash
# The main job: a profile of a real board goes in, a power mode comes out.
#
#     tools/tour.sh [CORPUS.csv]
#
# Without an argument the corpus is that of a Jetson TX1 in trainer/corpora. The model is
# written to target/tour.wgt.
set -euo pipefail
cd "$(dirname "$0")/.."

corpus=${1:-trainer/corpora/tx1-image5000.csv}
if [ ! -e "$corpus" ]; then
    echo "tour.sh: no corpus at $corpus; name one: tools/tour.sh CORPUS.csv" >&2
    exit 1
fi
tools/packages.sh gcc libc6-dev
cargo build --release --locked -p wattgate-trainer

run() {
    echo
    echo "\$ wattgate-trainer $*"
    target/release/wattgate-trainer "$@"
}

run check "$corpus"
run fit "$corpus" --modes 50 --seed 1 -o target/tour.wgt
run inspect target/tour.wgt
run select target/tour.wgt --limit 5W
