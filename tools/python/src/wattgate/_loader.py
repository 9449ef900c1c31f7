"""Counts the steps of a loop over a loader, and tells where their time goes."""

import sys
from time import monotonic
from typing import Any, Generic, Iterable, Iterator, Optional, TypeVar

from ._closing import Closing
from ._steps import Steps

Batch = TypeVar("Batch")


class Loader(Closing, Generic[Batch]):
    """A loader, such as PyTorch's ``DataLoader``, whose batches are counted as steps.

    The wait for each batch counts as fetching, and the time until the loop asks for the next one
    as computing. Before it asks, the GPU is synchronised, since its work would else go on while the
    next batch is awaited. Everything else is that of the loader.
    """

    def __init__(self, loader: Iterable[Batch], steps: Steps) -> None:
        """Counts the batches of ``loader`` on ``steps``."""
        self._loader = loader
        self._steps = steps

    def __iter__(self) -> Iterator[Batch]:
        """One epoch. A batch counts when the loop asks for the next one."""
        asked = monotonic()
        for batch in self._loader:
            got = monotonic()
            yield batch
            _synchronise()
            done = monotonic()
            self._steps.spend(got - asked, done - got)
            self._steps.step()
            asked = monotonic()

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        """What the loader has: ``dataset``, ``batch_size``, …"""
        # Without the instance's own names, which a copy does not have yet.
        if name in ("_loader", "_steps"):
            raise AttributeError(name)
        return getattr(self._loader, name)

    @property
    def count(self) -> int:
        """Number of steps so far."""
        return self._steps.count

    def close(self) -> None:
        """Sends the last count."""
        self._steps.close()


def loader(
    loader: Iterable[Batch], items: Optional[int] = None, name: Optional[str] = None
) -> "Loader[Batch]":
    """Counts the batches of a loader as steps: ``for batch in wattgate.torch.loader(batches): …``.

    ``items`` is the number of samples of one step, by default the loader's ``batch_size``;
    ``name`` the workload's name.
    """
    if items is None:
        items = getattr(loader, "batch_size", None)
    return Loader(loader, Steps(name, items))


def _synchronise() -> None:
    """Waits for the GPU, if this process has used it."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        cuda.synchronize()
