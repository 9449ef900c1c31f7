"""Counts the steps of a Hugging Face Trainer."""

from typing import TYPE_CHECKING, Any, Optional

from ._needs import needs
from ._steps import Steps

if TYPE_CHECKING:
    TrainerCallback = object
else:
    TrainerCallback = needs("transformers", "huggingface").TrainerCallback


class StepsCallback(TrainerCallback):
    """Counts optimizer steps: ``Trainer(…, callbacks=[StepsCallback("bert")])``.

    Without ``items``, a step has the samples of the Trainer's batch and gradient accumulation.
    """

    def __init__(self, name: Optional[str] = None, items: Optional[int] = None) -> None:
        """See :func:`wattgate.steps`."""
        self._name = name
        self._items = items
        self._steps = Steps(name, items)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Takes the samples of a step from the Trainer's arguments."""
        if self._items is None:
            items = args.train_batch_size * args.gradient_accumulation_steps
            self._steps.describe(self._name, items)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Counts a step."""
        self._steps.step()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Sends the last count; a second training continues it."""
        self._steps.flush()
