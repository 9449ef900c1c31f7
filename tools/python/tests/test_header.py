"""The C header, compiled and used with a clock of the test."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import List

from receiver import Receiver, SenderCase

INCLUDE = Path(__file__).resolve().parents[1] / "include"

#: Steps of 1 ms each: PROGRAM STEPS [NAME]. Before the step LATE, if set, it writes a line and
#: waits for one. With SPEND set, a step waits for 0.25 ms and computes for 3 s.
SOURCE = """
#include <time.h>

static long now_ms = 5000;

static int test_clock(clockid_t clock, struct timespec *time)
{
    (void)clock;
    time->tv_sec = now_ms / 1000;
    time->tv_nsec = now_ms % 1000 * 1000000;
    return 0;
}

#define clock_gettime test_clock
#include "wattgate.h"

int main(int argc, char **argv)
{
    const long steps = argc > 1 ? atol(argv[1]) : 0;
    const char *name = argc > 2 ? argv[2] : NULL;
    const char *late = getenv("LATE");
    const long pause = late ? atol(late) : 0;
    for (long count = 1; count <= steps; count++, now_ms++) {
        if (count == pause && (puts("") < 0 || fflush(stdout) != 0 || getchar() < 0))
            return 1;
        if (getenv("SPEND"))
            wattgate_spend(250, 3000000);
        wattgate_steps((uint64_t)count, name ? 16 : 0, name);
    }
    wattgate_last((uint64_t)steps, name ? 16 : 0, name);
    return 0;
}
"""

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"]
C = ["gcc", "-std=c99", "-D_POSIX_C_SOURCE=200809L"]
CPP = ["g++", "-std=c++11"]


class Header(SenderCase):
    """Each language that includes it."""

    def compiled(self, compiler: List[str], suffix: str) -> str:
        """Compiles the program."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        source, program = Path(folder.name) / f"steps{suffix}", Path(folder.name) / "steps"
        source.write_text(SOURCE)
        options = [*WARNINGS, f"-I{INCLUDE}", "-o", str(program), str(source)]
        subprocess.run([*compiler, *options], check=True)
        return str(program)

    def check(self, program: str) -> None:
        """What the program tells, and that it ends well without a receiver."""
        subprocess.run([program, "100"], check=True)
        counts = [1, 21, 41, 61, 81, 100]
        self.assertEqual(self.receiver.lines(), [f"steps={count}\n" for count in counts])
        name = "n" * 64
        subprocess.run([program, "2", name], check=True)
        tail = f"items=16 name={name}\n"
        self.assertEqual(self.receiver.lines(), [f"steps=1 {tail}", f"steps=2 {tail}"])
        environment = {**os.environ, "SPEND": "yes"}
        subprocess.run([program, "20", name], check=True, env=environment)
        parts = ["fetch_ms=0.250 compute_ms=3000.000", "fetch_ms=5.000 compute_ms=60000.000"]
        expected = [f"steps={at} {tail[:-1]} {told}\n" for at, told in zip([1, 20], parts)]
        self.assertEqual(self.receiver.lines(), expected)
        # The second attempt to connect follows the first by a second: of a receiver that ends, and
        # of one that comes late.
        self.replace_receiver(program, "50")
        self.assertEqual(self.receiver.lines(), ["steps=1001\n", "steps=1010\n"])
        self.receiver.remove()
        self.replace_receiver(program, "500")
        self.assertEqual(self.receiver.lines(), ["steps=1001\n", "steps=1010\n"])
        self.receiver.remove()
        subprocess.run([program, "3000"], check=True)
        for path in ["", "/", "/no/such/path", "p" * 200]:
            subprocess.run([program, "3000"], check=True, env={"WATTGATE_SOCKET": path})
        subprocess.run([program, "3000"], check=True, env={})

    def replace_receiver(self, program: str, before: str) -> None:
        """Runs 1010 steps; a new receiver replaces the present one, if any, before a step."""
        environment = {**os.environ, "LATE": before}
        with subprocess.Popen(
            [program, "1010"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout
            process.stdout.readline()
            if os.path.exists(self.path):
                self.assertEqual(self.receiver.lines(), ["steps=1\n", "steps=21\n", "steps=41\n"])
                self.receiver.remove()
            self.receiver = Receiver(self.path)
            process.communicate(b"\n")
        self.assertEqual(process.returncode, 0)

    @unittest.skipUnless(shutil.which("gcc"), "no gcc")
    def test_c(self) -> None:
        self.check(self.compiled(C, ".c"))

    @unittest.skipUnless(shutil.which("g++"), "no g++")
    def test_cpp(self) -> None:
        self.check(self.compiled(CPP, ".cpp"))


if __name__ == "__main__":
    unittest.main()
