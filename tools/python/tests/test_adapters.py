"""The adapters for Hugging Face and Ultralytics, with frameworks that are played by the test."""

import importlib
import subprocess
import sys
import unittest
from types import ModuleType, SimpleNamespace
from typing import Any, Callable, Dict, List
from unittest import mock

from receiver import SenderCase

import wattgate.ultralytics


class HuggingFace(SenderCase):
    """The callback of a Trainer."""

    def setUp(self) -> None:
        super().setUp()
        transformers = ModuleType("transformers")
        transformers.TrainerCallback = type("TrainerCallback", (), {})  # type: ignore[attr-defined]
        self.use(mock.patch.dict(sys.modules, {"transformers": transformers}))
        sys.modules.pop("wattgate.huggingface", None)
        module = importlib.import_module("wattgate.huggingface")
        self.addCleanup(sys.modules.pop, "wattgate.huggingface")
        self.kind: Any = module.StepsCallback
        self.base = transformers.TrainerCallback

    def train(self, callback: Any, steps: int) -> None:
        """Calls it as a Trainer does."""
        args = SimpleNamespace(train_batch_size=8, gradient_accumulation_steps=4)
        callback.on_train_begin(args, None, None, model=None)
        for _ in range(steps):
            callback.on_step_end(args, None, None, model=None)
        callback.on_train_end(args, None, None, model=None)

    def test_steps_are_counted_and_a_second_training_continues(self) -> None:
        callback = self.kind("bert")
        self.assertIsInstance(callback, self.base)
        self.train(callback, 100)
        tail = "items=32 name=bert\n"
        self.assertEqual(self.receiver.lines(), [f"steps=1 {tail}", f"steps=100 {tail}"])
        self.train(callback, 1)
        self.assertEqual(self.receiver.lines(), [f"steps=101 {tail}"])

    def test_the_samples_of_a_step_can_be_given(self) -> None:
        self.train(self.kind(items=5), 1)
        self.assertEqual(self.receiver.lines(), ["steps=1 items=5\n"])


class Model:
    """An Ultralytics model with its callbacks."""

    def __init__(self) -> None:
        self.callbacks: Dict[str, List[Callable[[Any], None]]] = {}

    def add_callback(self, event: str, callback: Callable[[Any], None]) -> None:
        """As ``ultralytics.engine.model.Model``."""
        self.callbacks.setdefault(event, []).append(callback)

    def train(self, batches: int) -> None:
        """As ``ultralytics.engine.trainer.BaseTrainer``."""
        events = ["on_train_start", *["on_train_batch_end"] * batches, "on_train_end"]
        for event in events:
            for callback in self.callbacks.get(event, []):
                callback(SimpleNamespace(batch_size=16))


class Ultralytics(SenderCase):
    """The callbacks of a model."""

    def test_batches_are_counted(self) -> None:
        model = Model()
        steps = wattgate.ultralytics.add_callbacks(model, "yolo")
        model.train(100)
        tail = "items=16 name=yolo\n"
        self.assertEqual(self.receiver.lines(), [f"steps=1 {tail}", f"steps=100 {tail}"])
        self.assertEqual(steps.count, 100)

    def test_the_samples_of_a_step_can_be_given(self) -> None:
        model = Model()
        wattgate.ultralytics.add_callbacks(model, items=3)
        model.train(1)
        self.assertEqual(self.receiver.lines(), ["steps=1 items=3\n"])


class Imports(unittest.TestCase):
    """What is imported, and what is said if it is absent."""

    def test_the_package_imports_no_framework(self) -> None:
        program = (
            "import sys, wattgate\n"
            "print([it for it in ('torch', 'transformers', 'ultralytics') if it in sys.modules])"
        )
        output = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE)
        self.assertEqual(output.stdout, b"[]\n")

    def test_an_absent_framework_is_named(self) -> None:
        for adapter, package in [("torch", "torch"), ("huggingface", "transformers")]:
            program = (
                f"import sys; sys.modules['{package}'] = None\n"
                f"try: import wattgate.{adapter}\n"
                "except ImportError as error: print(error)"
            )
            output = subprocess.run(
                [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE
            )
            message = f"wattgate.{adapter} needs {package}, which cannot be imported: "
            self.assertEqual(output.stdout.decode()[: len(message)], message)


if __name__ == "__main__":
    unittest.main()
