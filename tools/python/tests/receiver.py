"""A receiver of steps and a clock that a test sets."""

import os
import socket
import tempfile
import unittest
from typing import Any, List
from unittest import mock


class Receiver:
    """The other end of ``WATTGATE_SOCKET``."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)
        self._socket.setblocking(False)

    def lines(self) -> List[str]:
        """The datagrams since the last call."""
        lines = []
        while True:
            try:
                lines.append(self._socket.recv(513).decode())
            except BlockingIOError:
                return lines

    def close(self) -> None:
        """Ends as a program that was killed: the socket's file stays."""
        self._socket.close()

    def remove(self) -> None:
        """Ends and removes the socket's file."""
        self.close()
        os.unlink(self._path)


class Clock:
    """Time in seconds that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class SenderCase(unittest.TestCase):
    """A test with a receiver in a folder of its own, and with a clock."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "steps")
        self.receiver = Receiver(self.path)
        self.addCleanup(lambda: self.receiver.close())
        self.clock = Clock()
        self.use(mock.patch("wattgate._steps.monotonic", self.clock))
        self.use(mock.patch.dict(os.environ, {"WATTGATE_SOCKET": self.path}))

    def use(self, patch: Any) -> None:
        """Applies a patch until the end of the test."""
        patch.start()
        self.addCleanup(patch.stop)
