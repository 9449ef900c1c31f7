"""The steps protocol: what is sent, how often, and what a missing receiver costs."""

import gc
import os
import subprocess
import sys
import unittest
from typing import Any, List
from unittest import mock

from receiver import Receiver, SenderCase

import wattgate


class Lines(SenderCase):
    """What a datagram has."""

    def test_a_line_has_the_count_the_samples_and_the_name(self) -> None:
        for arguments, line in [
            ({}, "steps=1\n"),
            ({"items": 16}, "steps=1 items=16\n"),
            ({"name": "yolo"}, "steps=1 name=yolo\n"),
            ({"name": "a.B_9-", "items": 1}, "steps=1 items=1 name=a.B_9-\n"),
        ]:
            with wattgate.steps(**arguments) as steps:  # type: ignore[arg-type]
                steps.step()
            self.assertEqual(self.receiver.lines(), [line])

    def test_the_longest_line_fits_into_512_bytes(self) -> None:
        with wattgate.steps("n" * 64, 2**32 - 1) as steps:
            steps.step(2**64 - 1)
        (line,) = self.receiver.lines()
        self.assertEqual(line, f"steps={2**64 - 1} items={2**32 - 1} name={'n' * 64}\n")
        self.assertLessEqual(len(line), 512)

    def test_describe_changes_the_lines_that_follow(self) -> None:
        steps = wattgate.steps("a")
        steps.step()
        steps.describe("b", 4)
        steps.step()
        steps.close()
        self.assertEqual(self.receiver.lines(), ["steps=1 name=a\n", "steps=2 items=4 name=b\n"])

    def test_arguments_out_of_range_are_refused(self) -> None:
        for name in ["", "n" * 65, "a b", "a\n", "é"]:
            with self.assertRaisesRegex(ValueError, "expected 1 to 64 of"):
                wattgate.steps(name)
        refused: List[Any] = [0, -1, 2**32, 16.5, True, "16"]
        for items in refused:
            with self.assertRaisesRegex(
                ValueError, f"items is {items!r}, expected 1 to 4294967295"
            ):
                wattgate.steps(items=items)
        steps = wattgate.steps()
        with self.assertRaisesRegex(ValueError, "n is -1, expected 0 or more"):
            steps.step(-1)
        self.assertEqual(steps.count, 0)
        self.assertEqual(self.receiver.lines(), [])


class Rate(SenderCase):
    """When a datagram is sent."""

    def test_one_datagram_in_20_ms_and_the_pending_count_at_the_end(self) -> None:
        steps = wattgate.steps()
        # 1,000 steps of 0.98 ms each, in numbers that floats hold exactly: 20 ms have passed with
        # every 21st.
        lines = []
        for _ in range(1000):
            steps.step()
            self.clock.now += 1 / 1024
            lines += self.receiver.lines()
        self.assertEqual(lines, [f"steps={count}\n" for count in range(1, 1000, 21)])
        steps.close()
        self.assertEqual(self.receiver.lines(), ["steps=1000\n"])

    def test_nothing_is_sent_twice(self) -> None:
        steps = wattgate.steps()
        steps.flush()
        self.assertEqual(self.receiver.lines(), [])
        steps.step(3)
        steps.flush()
        steps.close()
        steps.close()
        self.assertEqual(self.receiver.lines(), ["steps=3\n"])

    def test_after_close_steps_are_counted_but_not_sent(self) -> None:
        steps = wattgate.steps()
        steps.close()
        steps.step()
        steps.flush()
        self.assertEqual((steps.count, self.receiver.lines()), (1, []))

    def test_an_exception_in_the_workload_sends_the_last_count(self) -> None:
        with self.assertRaises(KeyError), wattgate.steps() as steps:
            steps.step()
            steps.step()
            raise KeyError
        self.assertEqual(self.receiver.lines(), ["steps=1\n", "steps=2\n"])


class Faults(SenderCase):
    """A receiver that is absent, busy or replaced."""

    def test_with_an_empty_variable_no_socket_is_opened(self) -> None:
        with mock.patch.dict(os.environ, {"WATTGATE_SOCKET": ""}), mock.patch(
            "socket.socket"
        ) as opened, wattgate.steps() as steps:
            for _ in range(10):
                self.clock.now += 10
                steps.step()
        self.assertEqual(steps.count, 10)
        opened.assert_not_called()

    def test_without_the_variable_the_daemon_gets_the_steps(self) -> None:
        with mock.patch.dict(os.environ), mock.patch("wattgate._steps.DAEMON", self.path):
            del os.environ["WATTGATE_SOCKET"]
            with wattgate.steps() as steps:
                steps.step()
        self.assertEqual(self.receiver.lines(), ["steps=1\n"])

    def test_a_receiver_that_comes_later_is_found_within_a_second(self) -> None:
        self.receiver.remove()
        with mock.patch("wattgate._steps._connect", wraps=wattgate._steps._connect) as connect:
            steps = wattgate.steps()
            for _ in range(100):
                steps.step()
                self.clock.now += 0.009
            self.assertEqual(connect.call_count, 1)
            self.receiver = Receiver(self.path)
            steps.step()
            self.assertEqual(self.receiver.lines(), [])
            self.clock.now = 1001
            steps.step()
            self.assertEqual(connect.call_count, 2)
        self.assertEqual(self.receiver.lines(), ["steps=102\n"])
        steps.close()

    def test_a_new_receiver_at_the_same_path_is_found(self) -> None:
        for end in (Receiver.remove, Receiver.close):
            steps = wattgate.steps()
            steps.step()
            self.assertEqual(self.receiver.lines(), ["steps=1\n"])
            end(self.receiver)
            self.clock.now += 5
            steps.step()  # Notices the end.
            if os.path.exists(self.path):
                os.unlink(self.path)
            self.receiver = Receiver(self.path)
            self.clock.now += 0.020
            steps.step()
            self.assertEqual(self.receiver.lines(), ["steps=3\n"])
            steps.close()

    def test_after_a_loss_it_connects_once_a_second(self) -> None:
        steps = wattgate.steps()
        steps.step()
        self.receiver.remove()
        with mock.patch("wattgate._steps._connect", wraps=wattgate._steps._connect) as connect:
            for at_ms in range(0, 10_000, 5):
                self.clock.now = 1000 + at_ms / 1000
                steps.step()
            self.assertEqual(connect.call_count, 9)
        self.receiver = Receiver(self.path)
        steps.close()

    def test_a_receiver_that_does_not_read_blocks_nothing(self) -> None:
        with wattgate.steps() as steps:
            for _ in range(2000):  # More than the kernel keeps.
                self.clock.now += 0.020
                steps.step()
            kept = self.receiver.lines()
            self.assertEqual(kept, [f"steps={count}\n" for count in range(1, len(kept) + 1)])
            self.assertLess(len(kept), 2000)
            self.clock.now += 0.020
            steps.step()
            self.assertEqual(self.receiver.lines(), ["steps=2001\n"])

    def test_paths_that_are_no_receiver_are_ignored(self) -> None:
        for path in ["/", "/no/such/path", "/dev/null", "p" * 200, "\udcff"]:
            with mock.patch.dict(os.environ, {"WATTGATE_SOCKET": path}), wattgate.steps() as steps:
                steps.step()
            self.assertEqual(steps.count, 1)


class Processes(SenderCase):
    """Fork and the end of the process."""

    def test_a_child_does_not_report_for_its_parent(self) -> None:
        steps = wattgate.steps()
        steps.step()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                self.clock.now += 10
                steps.step(100)
                steps.close()
                with wattgate.steps("child") as own:
                    own.step(7)
                code = 0
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.clock.now += 10
        steps.step()
        steps.close()
        expected = ["steps=1\n", "steps=7 name=child\n", "steps=2\n"]
        self.assertEqual(self.receiver.lines(), expected)

    def test_the_end_of_the_process_sends_the_last_count(self) -> None:
        # A daemon thread's variables are never deleted.
        program = """
import threading, wattgate

def run():
    steps = wattgate.steps()
    for _ in range(1000):
        steps.step()
    stepped.set()
    threading.Event().wait()

stepped = threading.Event()
threading.Thread(target=run, daemon=True).start()
stepped.wait()
"""
        subprocess.run([sys.executable, "-c", program], check=True)
        self.assertEqual(self.receiver.lines()[-1], "steps=1000\n")

    def test_a_sender_that_is_dropped_sends_the_last_count(self) -> None:
        before = len(os.listdir("/proc/self/fd"))
        steps = wattgate.steps()
        steps.step()
        steps.step()
        del steps
        gc.collect()
        self.assertEqual(self.receiver.lines(), ["steps=1\n", "steps=2\n"])
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)


if __name__ == "__main__":
    unittest.main()
