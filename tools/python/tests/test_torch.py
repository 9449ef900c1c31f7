"""Counting optimizer steps: with the installed PyTorch, and with both kinds of hooks played by the
test, since one PyTorch has one kind only."""

import functools
import importlib
import importlib.util
import sys
import unittest
from types import ModuleType
from typing import Any, Callable, Dict, List
from unittest import mock

from receiver import SenderCase


def torch_2() -> ModuleType:
    """The hooks of PyTorch 2."""
    before: Dict[object, Callable[..., None]] = {}
    after: Dict[object, Callable[..., None]] = {}

    class Handle:
        def __init__(self, hooks: Dict[object, Callable[..., None]], hook: Any) -> None:
            self._hooks = hooks
            hooks[self] = hook

        def remove(self) -> None:
            del self._hooks[self]

    def wrap(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            for hook in list(before.values()):
                hook(args[0], args, kwargs)
            result = func(*args, **kwargs)
            for hook in list(after.values()):
                hook(args[0], args, kwargs)
            return result

        return wrapper

    module = module_of(wrap)
    module.register_optimizer_step_pre_hook = (  # type: ignore[attr-defined]
        lambda hook: Handle(before, hook)
    )
    module.register_optimizer_step_post_hook = (  # type: ignore[attr-defined]
        lambda hook: Handle(after, hook)
    )
    return module


def torch_1() -> ModuleType:
    """The profiler's wrapper of PyTorch 1.10 to 1.13."""

    def wrap(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return func(*args, **kwargs)

        return wrapper

    return module_of(wrap)


def module_of(wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> ModuleType:
    """A module ``torch.optim.optimizer`` with the wrapper ``wrap`` around each ``step``."""

    class Optimizer:
        def __init__(self) -> None:
            self._hook_for_profile()

        def _hook_for_profile(self) -> None:
            kind: Any = type(self)
            if not getattr(kind.step, "hooked", None):
                step: Any = wrap(kind.step)
                step.hooked = True
                kind.step = step

        def step(self) -> None:
            raise NotImplementedError

    module = ModuleType("torch.optim.optimizer")
    module.Optimizer = Optimizer  # type: ignore[attr-defined]
    return module


class Cases(SenderCase):
    """What holds for each PyTorch."""

    def torch_optim(self) -> Any:
        """The module ``torch.optim.optimizer``."""
        raise NotImplementedError

    def setUp(self) -> None:
        super().setUp()
        self.optim: Any = self.torch_optim()
        parents = {"torch": ModuleType("torch"), "torch.optim": ModuleType("torch.optim")}
        real = sys.modules.get("torch.optim.optimizer")
        if self.optim is not real:
            modules = {**parents, "torch.optim.optimizer": self.optim}
            self.use(mock.patch.dict(sys.modules, modules))
        sys.modules.pop("wattgate.torch", None)
        self.torch = importlib.import_module("wattgate.torch")

        class Plain(self.optim.Optimizer):  # type: ignore[name-defined,misc]
            def __init__(it) -> None:  # noqa: N805
                self.prepare(it)

            def step(it) -> str:  # noqa: N805
                return "result"

        class Derived(Plain):
            def step(it) -> str:  # noqa: N805
                return str(super().step())

        class Around(self.optim.Optimizer):  # type: ignore[name-defined,misc]
            def __init__(it, *inner: Any) -> None:  # noqa: N805
                self.prepare(it)
                it.inner = inner

            def step(it) -> None:  # noqa: N805
                for inner in it.inner:
                    inner.step()

        class Failing(Plain):
            def step(it) -> str:  # noqa: N805
                raise MemoryError

        self.plain: Any = Plain
        self.derived, self.around, self.failing = Derived, Around, Failing

    def prepare(self, optimizer: Any) -> None:
        """Calls the constructor of the PyTorch."""
        self.optim.Optimizer.__init__(optimizer)

    def test_optimizers_made_before_and_after_are_counted(self) -> None:
        before = self.plain()
        bound = before.step  # As a learning-rate scheduler keeps it.
        with self.torch.watch(name="net", items=4) as watch:
            after = self.plain()
            first_of_its_class = self.around()
            for _ in range(100):
                first_of_its_class.step()
                self.assertEqual(before.step(), "result")
                self.assertEqual(after.step(), "result")
                bound()
        before.step()
        self.assertEqual(watch.count, 400)
        tail = "items=4 name=net\n"
        self.assertEqual(self.receiver.lines(), [f"steps=1 {tail}", f"steps=400 {tail}"])

    def test_a_step_inside_a_step_is_one_step(self) -> None:
        self.plain()
        derived, around = self.derived(), self.around(self.plain(), self.derived())
        with self.torch.watch() as watch:
            for _ in range(10):
                derived.step()
            self.assertEqual(watch.count, 10)
            for _ in range(10):
                around.step()
            self.assertEqual(watch.count, 20)

    def test_a_step_that_fails_is_not_counted_and_hides_no_others(self) -> None:
        failing, plain = self.failing(), self.plain()
        with self.torch.watch() as watch:
            with self.assertRaises(MemoryError):
                failing.step()
            for _ in range(10):
                plain.step()
            self.assertEqual(watch.count, 10)
            with self.assertRaises(MemoryError):
                failing.step()
            for _ in range(10):
                plain.step()
            self.assertEqual(watch.count, 20)

    def test_a_step_that_another_program_wraps_is_counted(self) -> None:
        self.plain()
        original = self.plain.step

        @functools.wraps(original)
        def wrapped(*args: Any) -> Any:
            return original(*args)

        self.plain.step = wrapped
        with self.torch.watch() as watch:
            self.plain().step()
        self.assertEqual(watch.count, 1)

    def test_two_watches_count_by_themselves(self) -> None:
        plain = self.plain()
        first = self.torch.watch()
        plain.step()
        second = self.torch.watch()
        plain.step()
        first.close()
        first.close()
        plain.step()
        second.close()
        plain.step()
        self.assertEqual((first.count, second.count), (2, 2))

    def test_stop_leaves_nothing_behind(self) -> None:
        self.plain()
        before = self.state()
        with self.torch.watch():
            self.derived()
            self.assertNotEqual(self.state(), before)
        self.assertEqual(self.state(), before)

    def state(self) -> List[object]:
        """What a watch changes."""
        step = self.plain.step
        cells = [cell.cell_contents for cell in step.__closure__]
        hooks = [it for it in cells if isinstance(it, dict)]
        return [self.optim.Optimizer._hook_for_profile, *cells, *map(dict, hooks)]


class WithHooks(Cases):
    """PyTorch 2."""

    def torch_optim(self) -> Any:
        return torch_2()


class WithWrapping(Cases):
    """PyTorch 1.10 to 1.13."""

    def torch_optim(self) -> Any:
        return torch_1()


# The test runner would run the cases without a PyTorch.
del Cases


@unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch")
class WithPyTorch(SenderCase):
    """The installed PyTorch in a real training."""

    def setUp(self) -> None:
        super().setUp()
        sys.modules.pop("wattgate.torch", None)
        self.watch = importlib.import_module("wattgate.torch").watch
        self.torch = importlib.import_module("torch")

    def train(self, optimizer: Any, model: Any, steps: int) -> None:
        """A training loop that knows nothing of wattgate."""
        inputs = self.torch.ones(2, 4)
        for _ in range(steps):
            optimizer.zero_grad()
            model(inputs).sum().backward()
            optimizer.step()

    def test_every_optimizer_counts_each_step_once(self) -> None:
        optim = self.torch.optim
        for kind in [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad]:
            model = self.torch.nn.Linear(4, 1)
            before = kind(model.parameters(), lr=0.001)
            with self.watch() as watch:
                self.train(before, model, 10)
                self.train(kind(model.parameters(), lr=0.001), model, 10)
            self.train(before, model, 10)
            self.assertEqual(watch.count, 20, kind)

    def test_a_scheduler_hides_no_step(self) -> None:
        model = self.torch.nn.Linear(4, 1)
        optimizer = self.torch.optim.SGD(model.parameters(), lr=0.001)
        scheduler = self.torch.optim.lr_scheduler.StepLR(optimizer, 1)
        with self.watch() as watch:
            self.train(optimizer, model, 10)
            scheduler.step()
            self.train(optimizer, model, 10)
        self.assertEqual(watch.count, 20)

    def test_the_closure_of_lbfgs_is_one_step(self) -> None:
        model = self.torch.nn.Linear(4, 1)
        optimizer = self.torch.optim.LBFGS(model.parameters(), max_iter=5)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = model(self.torch.ones(2, 4)).pow(2).sum()
            loss.backward()
            return loss

        with self.watch() as watch:
            for _ in range(3):
                optimizer.step(closure)
        self.assertEqual(watch.count, 3)

    def test_training_gives_the_same_weights(self) -> None:
        weights = []
        for is_watched in [False, True]:
            self.torch.manual_seed(1)
            model = self.torch.nn.Linear(4, 1)
            optimizer = self.torch.optim.Adam(model.parameters())
            if is_watched:
                with self.watch():
                    self.train(optimizer, model, 10)
            else:
                self.train(optimizer, model, 10)
            weights.append(model.weight.tolist())
        self.assertEqual(weights[0], weights[1])


if __name__ == "__main__":
    unittest.main()
