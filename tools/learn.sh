#!/usr/bin/env bash
# The way from a Jetson in the box to a held limit, on a simulated board and with a simulated
# workload, each a process of its own: `wattgate learn` measures a few modes within the limit, learns
# all others, and holds the limit for five minutes. Then the truth is looked up.
#
#     tools/learn.sh [--board orin-agx-64] [--workload mobilenetv3] [--limit 20W] [--modes 15]
#                    [--unit N] [--reference FILE] [--json]
#
# The board's time runs ten times as fast as the real one.
set -euo pipefail
cd "$(dirname "$0")/.."

board_name=orin-agx-64 workload=mobilenetv3 limit=20W modes=15 unit=() reference=() json=()
while [ $# -gt 0 ]; do
    case $1 in
    --board) board_name=$2 ;;
    --workload) workload=$2 ;;
    --limit) limit=$2 ;;
    --modes) modes=$2 ;;
    --unit) unit=(--unit "$2") ;;
    --reference) reference=(--reference "$2") ;;
    --json)
        json=(--json)
        shift
        continue
        ;;
    *)
        echo "learn.sh: unknown argument $1" >&2
        exit 2
        ;;
    esac
    shift 2
done
# The shipped reference of the board, as the package has it.
for shipped in weights/"$board_name"-resnet18-all-modes.wgt weights/"$board_name"-resnet18.wgt; do
    [ -n "${reference[*]}" ] || [ ! -e "$shipped" ] || reference=(--reference "$shipped")
done
speed=10 held_s=300

tools/packages.sh gcc libc6-dev >&2
# The trainer takes minutes, as it needs burn; CI has built all of them.
for package in wattgate-trainer wattgate-judge wattgate-profiler; do
    [ -n "${WATTGATE_BUILT-}" ] || cargo build --release --locked -p $package >&2
done
programs=$(realpath -m "${CARGO_TARGET_DIR:-target}")/release
# A disk would slow the board's files down.
tmp=/dev/shm
[ -w $tmp ] || tmp=/tmp
. tools/simulated.sh --tmpdir=$tmp
root=$place/board

"$programs/wattgate-simulator" board --board "$board_name" "${unit[@]}" --root "$root" \
    --speed ${speed}x --trace "$place/trace.csv" &
board=$!
seconds() {
    sed -nE 's/^seconds=([0-9.]+) .*/\1/p' "$root/progress" 2>/dev/null
}
for _ in {1..100}; do
    [ -z "$(seconds)" ] || break
    sleep 0.1
done

offset=$(seconds)
"$programs/wattgate" learn --limit "$limit" --modes "$modes" --hold $held_s \
    --planner "$programs/wattgate-trainer plan --ask-tell" --name "$workload" \
    -o "$place/corpus.csv" --model "$place/model.wgt" --root "$root" --speed $speed \
    "${reference[@]}" ${json[@]:+--json} -- \
    "$programs/wattgate-simulator" workload --root "$root" --workload "$workload" |
    while IFS= read -r line; do
        # What is learned after that does not count.
        [[ $line != *held*over* ]] || seconds >"$place/ended"
        echo "$line"
    done | tee "$place/learned" >&2
ended=$(<"$place/ended")
kill $board
wait $board
board=

"$programs/wattgate-trainer" check "$place/corpus.csv" >&2
# The first second of the limit is the daemon's to set its mode.
from=$(awk -v end="$ended" -v held=$held_s 'BEGIN { print end - held + 1 }')
"$programs/wattgate-simulator" judge --board "$board_name" --workload "$workload" "${unit[@]}" \
    --model "$place/model.wgt" --measured "$place/corpus.csv" --offset "$offset" \
    --trace "$place/trace.csv" --from "$from" --until "$ended" --limit "$limit" \
    "${json[@]}" >"$place/judged"
if [ -z "${json[*]}" ]; then
    cat "$place/judged"
    exit
fi
# One object of both.
measured=$(sed -nE 's/.*"modes":([0-9]+).*/\1/p' "$place/learned")
minutes=$(sed -nE 's/.*"board_minutes":([0-9.]+).*/\1/p' "$place/learned")
echo "{\"board_minutes\":$minutes,\"modes\":$measured,$(tr -d '\n' <"$place/judged" | sed -E 's/^\{//')"
