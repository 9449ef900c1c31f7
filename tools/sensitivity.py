#!/usr/bin/env python3
"""What half and double of each assumed constant of the governor do to the adversary's table.

    tools/sensitivity.py        writes the last section of runtime/CONSTANTS.md; takes about half an hour

It builds a copy of the workspace in which these constants are read from the environment, and runs the test
`adversary::table` of the runtime with each of them. For a constant that the compiler must know, it builds anew.
"""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / "target/sensitivity/workspace"
HEAD = "\n## Sensitivity of what is assumed\n"
SEEDS = "3"

# Types that can be scaled, and how the result is made of a number `it`.
SCALED = {
    "f32": "it as f32",
    "u8": "it as u8",
    "u16": "it as u16",
    "u32": "it as u32",
    "u64": "it as u64",
    "usize": "it as usize",
    "Milliseconds": "Milliseconds(it as u64)",
}


def assumed():
    """File, name and value of each assumed constant."""
    text = (ROOT / "runtime/CONSTANTS.md").read_text().split(HEAD)[0]
    for section in text.split("\n## `")[1:]:
        path, rows = section.split("`", 1)
        for name, value, source in re.findall(r"^\| `(\w+)` \| `([^`]*)` \| .* \| (.*) \|$", rows, re.M):
            if source.startswith("assumed") and path.startswith("src/governor/"):
                yield path, name, value


def variable(path, name):
    return f"{Path(path).stem.upper()}_{name}"


def copy():
    """The workspace, without what is built."""
    shutil.rmtree(COPY, ignore_errors=True)
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for file in filter(None, tracked.stdout.split("\0")):
        place = COPY / file
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, place)


def constant_parts(sources, name):
    """What the compiler computes: values of other constants, and bodies of functions that are `const`."""
    for text in sources.values():
        yield from (it[1] for it in re.finditer(rf"\bconst (?!fn |{name}:)\w+: [^=]*= ([^;]*);", text))
        for begin in re.finditer(r"\bconst fn ", text):
            depth, end = 0, text.index("{", begin.start())
            while True:
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
                if depth == 0:
                    break
            yield text[begin.start() : end]


def patch(constants):
    """Makes the constants of the copy readable at run time. Returns those for which that was possible."""
    library = COPY / "runtime/src/lib.rs"
    library.write_text(library.read_text().replace("#![no_std]", "", 1))
    folder = COPY / "runtime/src/governor"
    sources = {file: file.read_text() for file in folder.glob("*.rs")}
    done = []
    for path, name, value in constants:
        file = COPY / "runtime" / path
        definition = re.search(rf"^((?:pub(?:\(\w+\))? )?)const {name}: (\w+) = ([^;]*);", sources[file], re.M)
        kind = definition and SCALED.get(definition[2])
        in_constant = any(re.search(rf"\b{name}\b", text) for text in constant_parts(sources, name))
        if not kind or in_constant:
            continue
        number = f"({definition[3]}).0 as f64" if definition[2] == "Milliseconds" else f"({definition[3]}) as f64"
        # Other files that use it import it by its name.
        users = [
            it for it, text in sources.items()
            if it == file or re.search(rf"use super::{file.stem}::[^;]*\b{name}\b", text)
        ]
        for user in users:
            sources[user] = re.sub(
                rf"(^use [^;]*;|^[ \t]*//.*$)|(?<!::)\b{name}\b(?!:)",
                lambda found: found[1] or f"(*{name})",
                sources[user],
                flags=re.M,
            )
        read = (
            f"{definition[1]}static {name}: std::sync::LazyLock<{definition[2]}> = std::sync::LazyLock::new(|| {{\n"
            f"    let factor = std::env::var(\"{variable(path, name)}\").map_or(1.0, |it| it.parse().expect(\"a factor\"));\n"
            f"    let _: f64 = factor;\n"
            f"    let it = {number} * factor;\n    {kind}\n}});"
        )
        sources[file] = re.sub(
            rf"^(?:pub(?:\(\w+\))? )?const {name}: \w+ = [^;]*;", lambda _: read, sources[file], count=1, flags=re.M
        )
        done.append((path, name, value))
    for file, text in sources.items():
        file.write_text(text)
    return done


def build():
    command = ["cargo", "test", "--release", "--locked", "-p", "wattgate-runtime", "--test", "it", "--no-run"]
    place = dict(os.environ, CARGO_TARGET_DIR=str(COPY.parent / "target"))
    built = subprocess.run(command, cwd=COPY, env=place, capture_output=True, text=True)
    found = re.search(r"Executable .*\((.*)\)", built.stderr)
    if built.returncode or not found:
        sys.exit(f"the copy cannot be built:\n{built.stderr[-4000:]}")
    return Path(found[1]) if Path(found[1]).is_absolute() else COPY / found[1]


def figures(program, setting):
    """Runs, those that break the limit, and the median and the worst speed in % of what the margins leave."""
    command = [program, "adversary::table", "--ignored", "--nocapture"]
    place = dict(os.environ, SEEDS=SEEDS, CARGO_MANIFEST_DIR=str(COPY / "runtime"), **setting)
    ran = subprocess.run(command, cwd=COPY / "runtime", env=place, capture_output=True, text=True)
    row = next((line for line in ran.stdout.splitlines() if line.startswith("| all |")), None)
    if row is None:
        return None
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    median, worst = cells[5].split(" / ")
    broken, runs = cells[7].split("/")
    return int(broken), int(median), int(worst), int(runs)


def rebuilt(path, name, value, factor):
    """The figures with a constant that the compiler must know."""
    file = COPY / "runtime" / path
    before = file.read_text()
    scaled = f"Milliseconds((({value}).0 as f64 * {factor}f64) as u64)" if value.startswith("Milliseconds") else None
    kind = re.search(rf"\bconst {name}: (\w+) =", before)[1]
    scaled = scaled or f"(({value}) as f64 * {factor}f64) as {kind}"
    file.write_text(re.sub(rf"(\bconst {name}: \w+ = )[^;]*;", lambda it: f"{it[1]}{scaled};", before, count=1))
    result = figures(build(), {})
    file.write_text(before)
    return result


def shown(result):
    return "the governor panics" if result is None else "{} break, speed {} / {} %".format(*result[:3])


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        sys.exit(0 if sys.argv[1] in ("-h", "--help") else 2)
    constants = list(assumed())
    copy()
    done = patch(constants)
    program = build()
    settings = [{}] + [{variable(path, name): factor} for path, name, _ in done for factor in ("0.5", "2")]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda setting: figures(program, setting), settings))
    rows = list(zip(done, results[1::2], results[2::2]))
    others = [it for it in constants if it not in done]
    rows += [(it, rebuilt(*it, 0.5), rebuilt(*it, 2.0)) for it in others]
    lines = [
        f"| `{Path(path).stem}::{name}` | `{value}` | {shown(half)} | {shown(double)} |"
        for (path, name, value), half, double in rows
    ]
    text = (ROOT / "runtime/CONSTANTS.md").read_text().split(HEAD)[0]
    text += f"""{HEAD}
`tools/sensitivity.py` runs the test `adversary::table` with half and with double of each assumed constant of the
governor. Each cell says how many of the {results[0][3]} runs break the limit, and the median and the worst speed in
percent of what the margins leave. With the constants as they are: {shown(results[0])}. Where half and double change
nothing, no load of the table depends on the constant.

| constant | value | half | double |
|---|---|---|---|
""" + "\n".join(lines) + "\n"
    (ROOT / "runtime/CONSTANTS.md").write_text(text)


main()
