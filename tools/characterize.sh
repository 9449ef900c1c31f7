#!/usr/bin/env bash
# Where time and energy of a training go, on a simulated AGX Xavier: Characterizing's four modes and linear
# models beside our own, the report and its page, and advice for three workloads with the truth of the
# simulator: tools/characterize.sh [FOLDER]. Two minutes after the build.
#
# `cargo run --release -p wattgate-trainer --example advice` judges the advice for 100 random workloads.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-target/characterize}
mkdir -p "$folder"
cargo build --release --locked -p wattgate-simulator -p wattgate-trainer
PATH=$PWD/target/release:$PATH
cd "$folder"

for workload in lenet resnet18-cifar10 mobilenetv3 vgg11; do
    wattgate-simulator corpus --board xavier-agx --workload "$workload" --modes characterizing \
        -o "$workload.csv"
done
wattgate-trainer characterize modes lenet.csv resnet18-cifar10.csv mobilenetv3.csv \
    --samples 60000,50000,23080 -o four.json
wattgate-trainer characterize modes vgg11.csv --samples 50000 --modes four.json

wattgate-simulator corpus --board xavier-agx --workload mobilenetv3 --modes characterizing \
    --minibatch 8,16,32 --workers 0,1,2,4 --storage ssd,hdd,sd --epoch first,later -o fed.csv
wattgate-trainer characterize report fed.csv --idle 7.8W --html page.html
echo "wrote $folder/page.html"

for workload in mobilenetv3 resnet18 lenet; do
    wattgate-simulator corpus --board xavier-agx --workload "$workload" --modes random:20 --seed 3 \
        --minibatch 8,16,32 --workers 1,2,4 -o advised.csv
    wattgate-trainer advise --corpus advised.csv --limit 15W --json >advice.json
    wattgate-trainer advise --corpus advised.csv --limit 15W
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
