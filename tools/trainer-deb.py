"""Compares the planner of two builds of the trainer: trainer-deb.py PERCENT PROGRAM -- PROGRAM…

Each is told the measured modes of the TX1 on a coarse grid, asked for the next mode, and trains a
model. Errors if the mean error of a model on the modes that it was told is above PERCENT, of time or
of power. The two models differ elsewhere: sums of floating-point numbers differ between processors,
and the samplers of the hyperparameters amplify that.
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
    yield {"version": 2, "axes": AXES, "modes": len(rows) + 1, "device": "tx1", "workload": "small"}
    for row in rows:
        mode = {axis: int(row[axis]) for axis in AXES}
        time_us, power_mw = 1e3 * float(row["time_ms"]), float(row["power_mw"])
        yield {"tell": {"mode": mode, "time_us": time_us, "power_mw": power_mw}}
    yield {"ask": {}}
    yield {"fit": {}}


def session(program, path):
    """Trains a model, and writes it to a file."""
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
    print(f"{fitted['modes']} modes, {seconds:.1f} s: {program[0]}")


def errors(program, path):
    """The mean errors of time and power in percent on the modes that were told."""
    output = subprocess.run(
        [*program, "predict", "--json", "--confidence", "0.5", path],
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    predicted = {tuple(mode[axis] for axis in AXES): mode for mode in json.loads(output)["modes"]}
    told = [request["tell"] for request in requests() if "tell" in request]
    of = [(predicted[tuple(one["mode"][axis] for axis in AXES)], one) for one in told]
    time_of = [abs(1e3 * mode["time_ms"] / one["time_us"] - 1) for mode, one in of]
    power_of = [abs(mode["power_mw"] / one["power_mw"] - 1) for mode, one in of]
    return [100 * sum(errors) / len(errors) for errors in (time_of, power_of)]


def main():
    percent, arguments = float(sys.argv[1]), sys.argv[2:]
    at = arguments.index("--")
    with tempfile.TemporaryDirectory() as folder:
        for name, program in (("one", arguments[:at]), ("other", arguments[at + 1 :])):
            path = pathlib.Path(folder, f"{name}.wgt")
            session(program, path)
            of_time, of_power = errors(program, path)
            print(f"{program[0]}: errors of time {of_time:.2f} %, power {of_power:.2f} %")
            assert max(of_time, of_power) <= percent, f"more than {percent} %"


main()
