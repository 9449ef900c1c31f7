"""Batches as steps, with the time that they wait."""

import sys
import time
import unittest
from types import ModuleType, SimpleNamespace
from typing import Iterator, List
from unittest import mock

from receiver import SenderCase

from wattgate._loader import loader


class Batches:
    """A loader that takes a while for each batch."""

    batch_size = 4
    dataset = "numbers"

    def __init__(self, number: int, seconds: float) -> None:
        self._number = number
        self._seconds = seconds

    def __iter__(self) -> Iterator[int]:
        for number in range(self._number):
            time.sleep(self._seconds)
            yield number

    def __len__(self) -> int:
        return self._number


def parts(line: str) -> List[float]:
    """Steps and parts of a line."""
    fields = dict(field.split("=") for field in line.split())
    return [float(fields[key]) for key in ("steps", "fetch_ms", "compute_ms")]


class LoaderTest(SenderCase):
    def test_batches_are_steps_with_their_parts(self) -> None:
        with loader(Batches(3, 0.03), name="x") as batches:
            seen = []
            for batch in batches:
                time.sleep(0.01)
                seen.append(batch)
            self.assertEqual((seen, batches.count), ([0, 1, 2], 3))
        lines = self.receiver.lines()
        self.assertTrue(all(" items=4 name=x fetch_ms=" in line for line in lines), lines)
        steps, fetch, compute = parts(lines[-1])
        self.assertEqual(steps, 3)
        self.assertGreaterEqual(fetch, 90)
        self.assertGreaterEqual(compute, 30)
        first = parts(lines[0])
        self.assertLess(first[1], fetch)

    def test_it_is_the_loader_otherwise(self) -> None:
        batches = loader(Batches(5, 0.0), items=7)
        self.assertEqual((len(batches), batches.dataset), (5, "numbers"))
        with self.assertRaises(AttributeError):
            _ = batches.absent
        self.assertEqual(len(list(batches)) + len(list(batches)), 10)
        self.assertEqual(batches.count, 10)

    def test_a_broken_loop_counts_its_whole_batches(self) -> None:
        batches = loader(Batches(5, 0.0))
        for number in batches:
            if number == 2:
                break
        self.assertEqual(batches.count, 2)

    def test_the_gpu_is_synchronised(self) -> None:
        calls: List[None] = []
        torch = ModuleType("torch")
        torch.cuda = SimpleNamespace(  # type: ignore[attr-defined]
            is_initialized=lambda: True, synchronize=lambda: calls.append(None)
        )
        with mock.patch.dict(sys.modules, {"torch": torch}):
            list(loader(Batches(3, 0.0)))
        self.assertEqual(len(calls), 3)

    def test_parts_are_no_negative_times(self) -> None:
        from wattgate import steps

        for wrong in ((-1.0, 0.0), (0.0, -1.0), (float("nan"), 0.0)):
            with self.assertRaises(ValueError):
                steps().spend(*wrong)


if __name__ == "__main__":
    unittest.main()
