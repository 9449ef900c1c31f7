"""Counts the optimizer steps of PyTorch without a change of the training loop.

:func:`loader` counts the batches of a loader instead, with the time that they wait.

PyTorch 2.0 and later have hooks for the steps of all optimizers. PyTorch 1.10 to 1.13 wrap the
method ``step`` of each optimizer's class for the profiler; there the wrapped function is replaced,
which also reaches the learning-rate schedulers that hold the wrapper.
"""

import functools
from types import CellType
from typing import Any, Callable, Iterator, List, Optional, Set, Tuple

from ._closing import Closing
from ._loader import Loader, loader
from ._needs import needs
from ._steps import Steps

__all__ = ["Loader", "Watch", "loader", "watch"]

_optimizer = needs("torch.optim.optimizer", "torch")


class Watch(Closing):
    """Counts optimizer steps until :meth:`close`.

    An optimizer that calls another one's ``step`` inside its own counts once.
    """

    def __init__(self, steps: Steps) -> None:
        """Counts on ``steps``."""
        self._steps = steps
        # The outermost optimizer that steps now, and those that have stepped inside its step. By
        # identity, so that an optimizer whose step failed is not kept alive.
        self._outer: Optional[int] = None
        self._inner: Set[int] = set()
        self._remove: List[Callable[[], None]] = []
        if hasattr(_optimizer, "register_optimizer_step_post_hook"):
            before = _optimizer.register_optimizer_step_pre_hook(self._before)
            after = _optimizer.register_optimizer_step_post_hook(self._after)
            self._remove = [before.remove, after.remove]
        else:
            _wrapping.add(self)
            self._remove = [lambda: _wrapping.remove(self)]

    @property
    def count(self) -> int:
        """Number of steps so far."""
        return self._steps.count

    def close(self) -> None:
        """Stops counting and sends the last count."""
        while self._remove:
            self._remove.pop()()
        self._steps.close()

    def _before(self, optimizer: object, args: object = None, kwargs: object = None) -> None:
        if self._outer is None:
            self._outer = id(optimizer)
        elif id(optimizer) in self._inner:
            # A second step inside the same step: the outer one failed without an end.
            self._inner.clear()
            self._outer = id(optimizer)
            self._steps.step()

    def _after(self, optimizer: object, args: object = None, kwargs: object = None) -> None:
        if id(optimizer) == self._outer:
            self._outer = None
            if self._inner:
                self._inner.clear()
            self._steps.step()
        elif self._outer is not None:
            self._inner.add(id(optimizer))


def watch(items: Optional[int] = None, name: Optional[str] = None) -> Watch:
    """Counts each optimizer step from now on, of optimizers made before or after.

    ``items`` is the number of samples of one step, ``name`` the workload's name.
    """
    return Watch(Steps(name, items))


class _Wrapping:
    """Hooks for PyTorch 1.10 to 1.13: replaces the functions that the profiler's wrappers call."""

    def __init__(self) -> None:
        self._watches: List[Watch] = []
        self._originals: List[Tuple[CellType, Callable[..., Any]]] = []
        self._hook_for_profile: Callable[[Any], None]

    def add(self, watch: Watch) -> None:
        if not self._watches:
            base = _optimizer.Optimizer
            self._hook_for_profile = original = base._hook_for_profile
            for known in _subclasses(base):
                self._wrap(known)

            # The constructor calls it.
            @functools.wraps(original)
            def hook_for_profile(optimizer: Any) -> None:
                original(optimizer)
                self._wrap(type(optimizer))

            base._hook_for_profile = hook_for_profile
        self._watches.append(watch)

    def remove(self, watch: Watch) -> None:
        self._watches.remove(watch)
        if not self._watches:
            _optimizer.Optimizer._hook_for_profile = self._hook_for_profile
            for cell, step in self._originals:
                cell.cell_contents = step
            self._originals.clear()

    def _wrap(self, kind: Any) -> None:
        # Without it, no optimizer of this class was made yet.
        cell = _wrapped(kind.step) if getattr(kind.step, "hooked", False) else None
        if cell is not None and not any(cell is known for known, _ in self._originals):
            self._originals.append((cell, cell.cell_contents))
            cell.cell_contents = self._counting(cell.cell_contents)

    def _counting(self, step: Callable[..., Any]) -> Callable[..., Any]:
        watches = self._watches

        @functools.wraps(step)
        def counting(optimizer: object, *args: Any, **kwargs: Any) -> Any:
            for watch in watches:
                watch._before(optimizer)
            result = step(optimizer, *args, **kwargs)
            for watch in watches:
                watch._after(optimizer)
            return result

        return counting


_wrapping = _Wrapping()


def _wrapped(step: Any) -> Optional[CellType]:
    """Where the profiler's wrapper holds the function; other wrappers may be around it."""
    while step is not None:
        names = step.__code__.co_freevars if hasattr(step, "__code__") else ()
        if "func" in names:
            cell: CellType = step.__closure__[names.index("func")]
            return cell
        step = getattr(step, "__wrapped__", None)
    return None


def _subclasses(base: Any) -> Iterator[Any]:
    for known in base.__subclasses__():
        yield known
        yield from _subclasses(known)
