"""Prints what counting costs: a step by hand, and an optimizer step of a small training loop.

python cost.py [PAIRS]: trains in pairs of blocks, one with and one without ``watch()``.
"""

import importlib
import importlib.util
import os
import socket
import statistics
import sys
import tempfile
import time
from typing import Any, Callable, List

import wattgate

#: What counting may cost an optimizer step, in microseconds.
BOUND_US = 5.0

#: Steps of a block: long enough for the clock, short enough that two blocks see the same machine.
BLOCK = 500


def per_call_ns(call: Callable[[], None], calls: int = 200_000) -> float:
    """The least of seven means of many calls, in ns."""

    def mean() -> float:
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        return (time.perf_counter_ns() - begin) / calls

    return min(mean() for _ in range(7))


def drain(receiver: socket.socket) -> bytes:
    """Reads all datagrams; returns the last."""
    last = b""
    while True:
        try:
            last = receiver.recv(512)
        except BlockingIOError:
            return last


def check(receiver: socket.socket, end: Callable[[], None], expected: bytes) -> None:
    """Ends the counting and checks the last datagram."""
    before = drain(receiver)  # Else the kernel might have no place for the last.
    end()
    last = drain(receiver) or before
    assert last == expected, (last, expected)


def by_hand(receiver: socket.socket) -> None:
    """Prints what ``step()`` costs with and without a receiver."""
    empty = per_call_ns(lambda: None)
    steps = wattgate.steps()
    told = per_call_ns(steps.step) - empty
    check(receiver, steps.close, b"steps=%d\n" % steps.count)
    path = os.environ["WATTGATE_SOCKET"]
    os.environ["WATTGATE_SOCKET"] = ""
    with wattgate.steps() as steps:
        untold = per_call_ns(steps.step) - empty
    os.environ["WATTGATE_SOCKET"] = path
    print(f"step(): {told:.0f} ns with a socket, {untold:.0f} ns without one")


def training(receiver: socket.socket, pairs: int) -> None:
    """Prints what ``watch()`` costs an optimizer step."""
    torch: Any = importlib.import_module("torch")

    import wattgate.torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    inputs, targets = torch.randn(16, 8), torch.randn(16, 1)

    def block() -> float:
        # Time of the processor: what else runs on the machine does not count.
        begin = time.process_time()
        for _ in range(BLOCK):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
        return (time.process_time() - begin) / BLOCK * 1e6

    def watched() -> float:
        watch: Any = wattgate.torch.watch(items=16, name="cost")
        used = block()
        check(receiver, watch.close, b"steps=%d items=16 name=cost\n" % BLOCK)
        return used

    block()
    plain: List[float] = []
    with_watch: List[float] = []
    for pair in range(pairs):
        # The order changes, so that a drift of the clock favours neither.
        for is_watched in (pair % 2 == 0, pair % 2 == 1):
            (with_watch if is_watched else plain).append(watched() if is_watched else block())
    cost = statistics.median(b - a for a, b in zip(plain, with_watch))
    print(
        f"PyTorch {torch.__version__}, median of {pairs} pairs of {BLOCK} steps: "
        f"{statistics.median(plain):.2f} us a step, {statistics.median(with_watch):.2f} us "
        f"watched, so watch() costs {cost:.2f} us (bound {BOUND_US:.0f} us)"
    )


def main() -> None:
    """Measures what is installed."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "steps")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            receiver.bind(path)
            receiver.setblocking(False)
            os.environ["WATTGATE_SOCKET"] = path
            by_hand(receiver)
            if importlib.util.find_spec("torch"):
                training(receiver, int(sys.argv[1]) if len(sys.argv) > 1 else 60)


if __name__ == "__main__":
    main()
