"""Compares the planner of two builds of the trainer: trainer-deb.py PERCENT PROGRAM -- PROGRAM…

Each is told the measured modes of the TX1 on a coarse grid, asked for the next mode, and trains a
model, which is then inspected. Errors if a predicted time or power of a mode that is on the Pareto
front of both differs by more than PERCENT.
"""

import base64
import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import time

AXES = {
    "cores": [1, 4],
    "cpu_khz": [102000, 612000, 1224000, 1734000],
    "gpu_khz": [460800, 537600, 691200, 768000, 921600, 998400],
    "emc_khz": [665600, 1600000],
}


def requests():
    """The lines of a session with all modes of the grid that the corpus has."""
    with open("trainer/corpora/tx1-image5000.csv", newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if all(int(row[axis]) in values for axis, values in AXES.items())
        ]
    yield {"version": 1, "axes": AXES, "modes": len(rows) + 1, "device": "tx1", "workload": "small"}
    for row in rows:
        mode = {axis: int(row[axis]) for axis in AXES}
        time_us, power_mw = 1e3 * float(row["time_ms"]), float(row["power_mw"])
        yield {"tell": {"mode": mode, "time_us": time_us, "power_mw": power_mw}}
    yield {"ask": {}}
    yield {"fit": {}}


def session(program, path):
    """Trains a model, and returns its front: time and power of each mode."""
    lines = [json.dumps(request) for request in requests()]
    began = time.monotonic()
    output = subprocess.run(
        [*program, "plan", "--ask-tell"],
        input="\n".join(lines) + "\n",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    seconds = time.monotonic() - began
    answers = [json.loads(line) for line in output.splitlines()]
    kinds = ["ready", *["told"] * (len(lines) - 3), "measure", "fitted"]
    assert [next(iter(answer)) for answer in answers] == kinds, output
    fitted = answers[-1]["fitted"]
    path.write_bytes(base64.b64decode(fitted["model"]))
    inspected = subprocess.run(
        [*program, "inspect", "--json", path], stdout=subprocess.PIPE, check=True
    ).stdout
    front = json.loads(inspected)["front"]
    print(f"{fitted['modes']} modes, {len(front)} on the front, {seconds:.1f} s: {program[0]}")
    return {tuple(it["mode"].values()): (it["time_ms"], it["power_mw"]) for it in front}


def main():
    percent, arguments = float(sys.argv[1]), sys.argv[2:]
    at = arguments.index("--")
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder, name) for name in ("one.wgt", "other.wgt")]
        one = session(arguments[:at], paths[0])
        other = session(arguments[at + 1 :], paths[1])
        same = paths[0].read_bytes() == paths[1].read_bytes()
    both = one.keys() & other.keys()
    assert 2 * len(both) >= max(len(one), len(other)), "other modes are on the front"
    differences = [100 * abs(b / a - 1) for mode in both for a, b in zip(one[mode], other[mode])]
    print(
        f"{'the same bytes' if same else 'other bytes'}; {len(both)} modes on both fronts, whose "
        f"predictions differ by at most {max(differences):.2f} %"
    )
    assert max(differences) <= percent, f"more than {percent} %"


main()
