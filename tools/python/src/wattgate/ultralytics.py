"""Counts the batches of an Ultralytics training."""

from typing import Any, Optional

from ._steps import Steps


def add_callbacks(model: Any, name: Optional[str] = None, items: Optional[int] = None) -> Steps:
    """Counts each training batch of ``model``, an ``ultralytics.YOLO`` or another of its models.

    Without ``items``, a step has the samples of the trainer's batch.
    """
    steps = Steps(name, items)

    def on_train_start(trainer: Any) -> None:
        if items is None:
            steps.describe(name, trainer.batch_size)

    def on_train_batch_end(trainer: Any) -> None:
        steps.step()

    def on_train_end(trainer: Any) -> None:
        steps.flush()

    for callback in (on_train_start, on_train_batch_end, on_train_end):
        model.add_callback(callback.__name__, callback)
    return steps
