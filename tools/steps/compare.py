"""Compares the steps that `--steps-from` counts with the true ones: compare.py COUNT_RECORDED FOLDER [TOOL…]

Runs each workload of workloads.py in a pipe and in terminals, records what it writes and when, and lets the program
COUNT_RECORDED count the record. Records stay in FOLDER.
"""

import fcntl
import importlib.metadata
import os
import pathlib
import select
import struct
import subprocess
import sys
import termios
import time
import tty

HERE = pathlib.Path(__file__).parent
# Largest error of the pace over all, and of a window as a session measures it, in which the counts of two draws may differ
# by a step.
BOUND, WINDOW_BOUND = 0.03, 0.1
WINDOW_STEPS, WINDOW_SECONDS = 20, 2.0

PACKAGES = {
    "tqdm": ["tqdm"],
    "keras": ["keras", "torch"],
    "hf": ["transformers", "tqdm", "torch"],
    "lightning": ["lightning", "rich", "tqdm"],
    "ultralytics": ["ultralytics", "torch"],
    "llama.cpp": ["xllamacpp"],
}
PLACES = ["pipe", "80 columns", "40 columns"]
# What the user must be told where nothing is counted.
TOLD = {
    ("tqdm_scaled", None): "rounded to thousands",
    # Bars of the training and of the validation are cut to the same.
    ("ultralytics_train", "40 columns"): "",
    # rich draws its bars in a terminal only, and elsewhere the last one once, at the end.
    ("lightning_rich", "pipe"): "",
}


def workloads(tool):
    lines = (HERE / "workloads.py").read_text().splitlines()
    names = [line[4 : line.index("(")] for line in lines if line.startswith("def ")]
    return [name for name in names if name.startswith(tool.replace(".", "_") + "_")]


def outputs(place):
    """Our ends and the workload's ends of its standard output and error."""
    if place == "pipe":
        return [os.pipe() for _ in range(2)]
    pairs = [os.openpty() for _ in range(2)]
    for _, theirs in pairs:
        tty.setraw(theirs)
        size = struct.pack("HHHH", 24, int(place.split()[0]), 0, 0)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    return pairs


def record(workload, place, path, truth):
    pairs = outputs(place)
    environment = dict(os.environ, TERM="xterm-256color", PYTHONUNBUFFERED="")
    for name in ("COLUMNS", "LINES"):
        environment.pop(name, None)
    command = [sys.executable, "-W", "ignore", str(HERE / "workloads.py"), workload, str(truth)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=pairs[0][1], stderr=pairs[1][1], env=environment, cwd=path.parent
    )
    for _, theirs in pairs:
        os.close(theirs)
    ours = [pair[0] for pair in pairs]
    with open(path, "wb") as file:
        while ours:
            for end in select.select(ours, [], [])[0]:
                try:
                    piece = os.read(end, 1 << 16)
                except OSError:  # the end of a pseudo-terminal
                    piece = b""
                if not piece:
                    os.close(end)
                    ours.remove(end)
                    continue
                output = 1 if end == pairs[0][0] else 2
                file.write(f"{time.monotonic():.6f} {output} {len(piece)}\n".encode())
                file.write(piece)
    return process.wait()


def windows(counts, true):
    """The counted and the true steps over the whole but its first part, and the largest error of a window."""

    def done(at):
        return sum(time <= at for time in true)

    points = [(at, steps, done(at)) for at, steps in counts]
    points = [point for point in points if point[2] >= len(true) / 6]
    if len(points) < 2:
        return 0, 0, 0.0
    whole = [points[-1][at] - points[0][at] for at in (1, 2)]
    worst = 0.0
    for first, start in enumerate(points):
        for end in points[first + 1 :]:
            steps = end[2] - start[2]
            if steps >= WINDOW_STEPS and end[0] - start[0] >= WINDOW_SECONDS:
                worst = max(worst, (end[1] - start[1]) / steps - 1, key=abs)
                break
    return *whole, worst


def check(counter, folder, tool, workload, place):
    """Returns what is wrong, or None, and a line that says what was found."""
    path = folder / f"{workload}-{place.split()[0]}.record"
    truth = path.with_suffix(".truth")
    truth.unlink(missing_ok=True)
    code = record(workload, place, path, truth)
    if code != 0 or not truth.exists():
        return f"the workload ended with {code}; {path} has its output", ""
    true = [float(line) for line in truth.read_text().split()]
    said = subprocess.run([counter, tool, path], capture_output=True, text=True, check=True).stdout.splitlines()
    notes = sorted({line[6:] for line in said if line.startswith("note: ")})
    counts = [tuple(map(float, line.split())) for line in said if not line.startswith("note: ")]
    counted, steps, worst = windows(counts, true)
    pace = (len(true) - 1) / (true[-1] - true[0])
    line = f"{counted:5.0f} {steps:5} {pace:6.1f}"
    if steps:
        line += f" {counted / steps - 1:+7.1%} {worst:+7.1%}"
    line += "".join(f"\n      {note}" for note in notes)
    for key in ((workload, place), (workload, None)):
        if key in TOLD:
            told = TOLD[key]
            is_told = not steps and any(told in note for note in notes or [""])
            return None if is_told else "something is counted", line
    if not steps:
        return "nothing is counted", line
    if abs(counted / steps - 1) > BOUND:
        return f"the count is off by {counted / steps - 1:+.1%}", line
    if abs(worst) > WINDOW_BOUND:
        return f"a window is off by {worst:+.1%}", line
    return None, line


def main():
    counter, folder, *tools = sys.argv[1:]
    counter, folder = os.path.abspath(counter), pathlib.Path(folder)
    failures = []
    for tool in tools or PACKAGES:
        names = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES[tool]]
        version = ", ".join(names)
        print(f"== {tool}: {version}")
        print(f"{'workload':24} {'output to':12} {'count':>5} {'true':>5} {'per s':>6} {'error':>7} {'worst':>7}")
        for workload in workloads(tool):
            for place in PLACES:
                wrong, line = check(counter, folder, tool, workload, place)
                print(f"{workload:24} {place:12} {line}", flush=True)
                if wrong:
                    failures.append(f"{tool} ({version}), {workload}, {place}: {wrong}")
                    print(f"      WRONG: {wrong}", flush=True)
    for failure in failures:
        print(f"WRONG {failure}")
    sys.exit(bool(failures))


main()
