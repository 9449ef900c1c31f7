#!/usr/bin/env bash
# Where time and energy of a training go, on a simulated AGX Xavier: Characterizing's four modes and linear
# models beside our own, the report and its page, a profile of a living board with its report, and advice for
# three workloads with the truth of the simulator: tools/characterize.sh [--quick] [FOLDER]. Two minutes after
# the build; with --quick 15 seconds, without the large corpora and the advice, which tests cover.
#
# `cargo run --release -p wattgate-lab --example advice` judges the advice for 100 random workloads.
set -euo pipefail
cd "$(dirname "$0")/.."

quick=
[ "${1-}" != --quick ] || { quick=yes; shift; }
folder=${1:-target/characterize}
mkdir -p "$folder"
# The trainer takes minutes, as it needs burn; CI has built all of them.
for package in wattgate-lab wattgate-judge wattgate-profiler; do
    [ -n "${WATTGATE_BUILT-}" ] || cargo build --release --locked -p $package >&2
done
PATH=$(realpath "${CARGO_TARGET_DIR:-target}")/release:$PATH
# A disk would slow the board's files down.
tmp=/dev/shm
[ -w $tmp ] || tmp=/tmp
. tools/simulated.sh --tmpdir=$tmp
cd "$folder"

for workload in lenet resnet18-cifar10 mobilenetv3 vgg11; do
    wattgate-simulator corpus --board xavier-agx --workload "$workload" --modes characterizing \
        -o "$workload.csv"
done
wattgate-lab characterize modes lenet.csv resnet18-cifar10.csv mobilenetv3.csv \
    --samples 60000,50000,23080 -o four.json
wattgate-lab characterize modes vgg11.csv --samples 50000 --modes four.json

# As on a real board: the profiler measures what the workload tells, with four workers and with none.
echo
echo "A living board, profiled in one mode"
wattgate-simulator board --board xavier-agx --root "$place/board" &
board=$!
for _ in {1..100}; do
    [ ! -s "$place/board/progress" ] || break
    sleep 0.1
done
mode=8,2265600,1377000,2133000
printf 'cores,cpu_khz,gpu_khz,emc_khz\n%s\n' $mode >"$place/modes.csv"
rm -f living.csv
for workers in 4 0; do
    wattgate profile --modes "$place/modes.csv" --root "$place/board" --name mobilenetv3 --device xavier-agx \
        --workers $workers -o living.csv -- \
        wattgate-simulator workload --root "$place/board" --workload mobilenetv3 --workers $workers
done
wattgate-lab characterize report living.csv
wattgate-lab characterize report living.csv --json >living.json
wattgate-simulator corpus --board xavier-agx --workload mobilenetv3 --workers 0,4 --modes mode:$mode \
    -o expected.csv
python3 - <<'PYTHON'
import csv
import json

report = json.load(open("living.json"))
expected = {row["workers"]: row for row in csv.DictReader(open("expected.csv"))}
[answer] = [answer for answer in report["answers"] if answer["question"].startswith("Loader workers")]
for step in answer["steps"]:
    row = expected[str(step["value"]).split()[0]]
    for share, part in [("fetch_pct", "fetch_ms"), ("compute_pct", "compute_ms")]:
        truth = 100 * float(row[part]) / float(row["time_ms"])
        print(f"{row['workers']} workers, {share}: {step[share]:.1f} profiled, {truth:.1f} in the simulator's corpus")
        assert abs(step[share] - truth) < 5
PYTHON
[ -z "$quick" ] || exit 0

wattgate-simulator corpus --board xavier-agx --workload mobilenetv3 --modes characterizing \
    --minibatch 8,16,32 --workers 0,1,2,4 --storage ssd,hdd,sd --epoch first,later -o fed.csv
wattgate-lab characterize report fed.csv --idle 7.8W --html page.html
echo "wrote $folder/page.html"

for workload in mobilenetv3 resnet18 lenet; do
    wattgate-simulator corpus --board xavier-agx --workload "$workload" --modes random:20 --seed 3 \
        --minibatch 8,16,32 --workers 1,2,4 -o advised.csv
    wattgate-lab advise --corpus advised.csv --limit 15W --json >advice.json
    wattgate-lab advise --corpus advised.csv --limit 15W
    # The truth: now and the best, each profiled anew by its feeding.
    python3 - "$workload" <<'PYTHON'
import csv
import json
import subprocess
import sys

advice = json.load(open("advice.json"))


def truth(choice):
    """Time of a sample in ms and power in W, profiled in the mode and feeding of a choice."""
    if choice is None:
        return None
    feeding = ["--minibatch", str(choice["minibatch"]), "--workers", str(choice["workers"])]
    command = ["wattgate-simulator", "corpus", "--board", "xavier-agx", "--workload", sys.argv[1]]
    mode = ",".join(map(str, choice["knobs"]))
    command += [*feeding, "--modes", f"mode:{mode}", "-o", "truth.csv"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    row = next(csv.DictReader(open("truth.csv")))
    return float(row["time_ms"]) / choice["minibatch"], float(row["power_mw"]) / 1e3


now, best = truth(advice["now"]), truth(advice["best"])
if best:
    print(f"In the simulator: {now[0] / best[0]:.2f} times as fast, {best[1]:.2f} W.\n")
PYTHON
done
