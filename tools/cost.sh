#!/usr/bin/env bash
# What a fit costs over the number of modes: seconds and peak memory, from scratch and with a reference of as many
# modes. The corpora are of a simulated board, 4,368 modes each; a fit trains on at most 2,000 of them. Takes some six
# minutes on two cores; leave the machine alone meanwhile.
#
#     tools/cost.sh
set -euo pipefail
cd "$(dirname "$0")/.."

tools/packages.sh gcc libc6-dev python3
[ -n "${WATTGATE_BUILT-}" ] ||
    cargo build --release --locked -p wattgate-trainer -p wattgate-judge --bins

folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
for workload in resnet18 mobilenetv3; do
    target/release/wattgate-simulator corpus --board orin-agx-64 --workload "$workload" --seed 1 \
        -o "$folder/$workload.csv" >/dev/null
done
python3 - "$folder" <<'PYTHON'
import os
import random
import subprocess
import sys

folder = sys.argv[1]
trainer = "target/release/wattgate-trainer"
# All models have the same grid, whichever clocks their modes have.
BOARD = ("--board", f"{folder}/resnet18.csv")
rows = {}
for workload in ("resnet18", "mobilenetv3"):
    with open(f"{folder}/{workload}.csv") as file:
        header, *rest = file.read().splitlines()
    random.Random(1).shuffle(rest)
    rows[workload] = header, rest


def corpus(workload, modes):
    header, rest = rows[workload]
    path = f"{folder}/{workload}-{modes}.csv"
    with open(path, "w") as file:
        file.write("\n".join([header, *rest[:modes]]) + "\n")
    return path


def cost(*arguments):
    """Seconds and MiB of one run."""
    command = [trainer, *arguments, "-o", f"{folder}/model.wgt"]
    start = os.times().elapsed
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"cost.sh: `{' '.join(command)}` failed")
    return f"{os.times().elapsed - start:.1f} s, {usage.ru_maxrss / 1024:.0f} MiB"


print("| modes | from scratch | with a reference of as many modes |")
print("|---|---|---|", flush=True)
for modes in (10, 15, 30, 50, 75, 99, 100, 150, 200, 300, 500, 1000, 2000, 4368):
    target, reference = corpus("mobilenetv3", modes), corpus("resnet18", modes)
    alone = cost("fit", target, *BOARD)
    transferred = cost("fit", target, *BOARD, "--reference", reference)
    print(f"| {modes} | {alone} | {transferred} |", flush=True)
PYTHON
