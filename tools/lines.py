"""Counts lines of Rust code, without blanks, comments and tests, by crate: python3 tools/lines.py [--files]

Tests are the folders `tests`, files `tests.rs` and modules below #[cfg(test)].
"""

import subprocess
import sys
from collections import Counter

PRODUCT = ("runtime", "trainer", "tools/board", "tools/board/tables", "tools/cli", "tools/watchdog",
           "tools/wattgate", "tools/wattgate/probe")


def code(text):
    """The lines of code of a file, and those of its tests."""
    lines, tests, in_tests, in_comment = 0, 0, False, False
    for line in text.splitlines():
        line = line.strip()
        if line == "#[cfg(test)]":
            in_tests = True
        if in_comment:
            in_comment = "*/" not in line
            continue
        if line.startswith("/*"):
            in_comment = "*/" not in line
            continue
        if not line or line.startswith("//"):
            continue
        if in_tests:
            tests += 1
        else:
            lines += 1
    return lines, tests


def main():
    files = subprocess.run(["git", "ls-files", "*.rs"], capture_output=True, text=True, check=True).stdout.split()
    crates = subprocess.run(["git", "ls-files", "Cargo.toml", "*/Cargo.toml"], capture_output=True, text=True,
                            check=True).stdout.split()
    crates = [path.removesuffix("/Cargo.toml") for path in crates]
    of_crate, of_tests, longest = Counter(), Counter(), []
    for path in files:
        crate = max((crate for crate in crates if path.startswith(crate + "/")), key=len)
        lines, tests = code(open(path, encoding="utf-8").read())
        if "/tests/" in path or path.endswith("/tests.rs"):
            lines, tests = 0, lines + tests
        of_crate[crate] += lines
        of_tests[crate] += tests
        longest.append((lines, path))
    product = sum(of_crate[crate] for crate in PRODUCT)
    for crate, lines in of_crate.most_common():
        print(f"{lines:7} {of_tests[crate]:7}  {crate}")
    print(f"{product:7} {sum(of_tests[crate] for crate in PRODUCT):7}  the product: {', '.join(PRODUCT)}")
    print(f"{sum(of_crate.values()):7} {sum(of_tests.values()):7}  all")
    if "--files" in sys.argv:
        for lines, path in sorted(longest, reverse=True)[:20]:
            print(f"{lines:7}          {path}")


main()
