"""Tells the steps of this process to wattgate.

One datagram is one line ``steps=1234 [items=16] [name=yolo] [fetch_ms=310.2 compute_ms=5120.5]``
with the cumulative count of steps, and cumulative parts of their time where they are known, sent to
the Unix datagram socket that the environment variable ``WATTGATE_SOCKET`` names, or else to the
daemon's. The workload never waits and never fails because of it: errors are ignored.
"""

import atexit
import os
import re
import socket
import weakref
from math import inf
from time import monotonic
from typing import Optional

from ._closing import Closing

#: Least time between two datagrams, in seconds. The next datagram contains the counts in between.
INTERVAL = 0.020

#: Least time between two attempts to connect, in seconds.
RECONNECT = 1.0

#: The socket without the environment variable: that of the daemon.
DAEMON = "/run/wattgate/steps"

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Steps(Closing):
    """Counts the steps of one workload and sends the count.

    One thread at a time may call it. After a fork, the child does not report for its parent.
    """

    __slots__ = (
        "__weakref__",
        "_compute",
        "_connect_at",
        "_count",
        "_due",
        "_fetch",
        "_path",
        "_sent",
        "_socket",
        "_tail",
    )

    def __init__(self, name: Optional[str] = None, items: Optional[int] = None) -> None:
        """See :func:`steps`."""
        self._path = os.environ.get("WATTGATE_SOCKET", DAEMON)
        self._socket: Optional[socket.socket] = None
        self._count = 0
        self._sent = 0
        # Parts of the time of these steps in seconds, once they are told.
        self._fetch: Optional[float] = None
        self._compute = 0.0
        # When the next datagram and the next attempt to connect may follow.
        self._due = -inf if self._path else inf
        self._connect_at = -inf
        self._tail = _tail(name, items)
        _senders.add(self)

    @property
    def count(self) -> int:
        """Number of steps so far."""
        return self._count

    def step(self, n: int = 1) -> None:
        """Counts ``n`` steps. Costs a fraction of a microsecond if no datagram is due."""
        if n < 0:
            raise ValueError(f"n is {n}, expected 0 or more steps")
        self._count += n
        now = monotonic()
        if now >= self._due:
            self._send(now)

    def spend(self, fetch: float, compute: float) -> None:
        """Adds the seconds for which the next step waited for its data, and those of computing.

        Call it before :meth:`step`, so that a datagram has the parts of the steps that it counts.
        """
        if not (fetch >= 0 and compute >= 0):
            raise ValueError(f"fetch is {fetch} and compute {compute}, expected 0 or more seconds")
        self._fetch = (self._fetch or 0.0) + fetch
        self._compute += compute

    def describe(self, name: Optional[str] = None, items: Optional[int] = None) -> None:
        """Sets name and samples per step of the datagrams that follow."""
        self._tail = _tail(name, items)

    def flush(self) -> None:
        """Sends the count now unless it was sent."""
        if self._count != self._sent and self._due != inf:
            self._send(monotonic())

    def close(self) -> None:
        """Sends the last count unless it was sent. Later steps are counted but not sent."""
        self.flush()
        self._mute()

    def __del__(self) -> None:
        self.close()

    def _send(self, now: float) -> None:
        if self._socket is None:
            if now < self._connect_at:
                return
            self._connect_at = self._due = now + RECONNECT
            self._socket = _connect(self._path)
            if self._socket is None:
                return
        self._due = now + INTERVAL
        try:
            line = b"steps=%d%b" % (self._count, self._tail)
            if self._fetch is not None:
                parts = (1e3 * self._fetch, 1e3 * self._compute)
                line += b" fetch_ms=%.3f compute_ms=%.3f" % parts
            self._socket.send(line + b"\n")
            self._sent = self._count
        except BlockingIOError:
            pass  # The receiver is busy; a later datagram contains this count.
        except OSError:
            self._socket.close()
            self._socket = None

    def _mute(self) -> None:
        self._due = inf
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def steps(name: Optional[str] = None, items: Optional[int] = None) -> Steps:
    """Starts to count steps: ``with wattgate.steps("yolo", items=16) as s: … s.step()``.

    ``name`` is the workload's, 1 to 64 of ``A-Z a-z 0-9 . _ -``; ``items`` the samples of one step.
    They go to the socket that the environment variable ``WATTGATE_SOCKET`` names, or else to the
    daemon's; if the variable is empty, they are counted but not sent.
    """
    return Steps(name, items)


def _tail(name: Optional[str], items: Optional[int]) -> bytes:
    # Of a bool, the text is no number.
    if items is not None and not (type(items) is int and 1 <= items < 2**32):
        raise ValueError(f"items is {items!r}, expected 1 to {2**32 - 1}")
    if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise ValueError(f"name is {name!r}, expected 1 to 64 of A-Z a-z 0-9 . _ -")
    tail = "" if items is None else f" items={items}"
    return (tail if name is None else f"{tail} name={name}").encode()


def _connect(path: str) -> Optional[socket.socket]:
    receiver = None
    try:
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.setblocking(False)
        # Linux chooses an address, which tells this counter from others of a container.
        receiver.bind("")
        receiver.connect(path)
        return receiver
    except OSError:
        if receiver is not None:
            receiver.close()
        return None


_senders: "weakref.WeakSet[Steps]" = weakref.WeakSet()


def _mute_all() -> None:
    for sender in list(_senders):
        sender._mute()


def _close_all() -> None:
    for sender in list(_senders):
        sender.close()


os.register_at_fork(after_in_child=_mute_all)
atexit.register(_close_all)
