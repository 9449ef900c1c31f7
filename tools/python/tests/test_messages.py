"""Golden file of messages: calls as a user types them, each with the exception that it raises.

With ``WATTGATE_UPDATE_GOLDEN`` set, the file is written anew.
"""

import os
import socket
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any, Dict, List
from unittest import mock

from test_client import OK, FakeDaemon

import wattgate
from wattgate._needs import needs

GOLDEN = Path(__file__).parent / "golden/messages.txt"

CALL = ">>> "


class Messages(unittest.TestCase):
    """Paths of the test are printed as ``DIR``."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.daemons = 0

    def played(self, serve: Any, timeout: float = 60.0) -> wattgate.Client:
        """A client of a daemon that the test plays."""
        self.daemons += 1
        path = os.path.join(self.folder, f"socket-{self.daemons}")
        self.addCleanup(FakeDaemon(path, serve).close)
        return wattgate.Client(path, timeout=timeout)

    def answered(self, text: str) -> wattgate.Client:
        """A client of a daemon that answers with a text, or ends without one."""

        def serve(client: socket.socket) -> None:
            client.makefile().readline()
            client.sendall(f"{text}\n".encode() if text else b"")

        return self.played(serve)

    def names(self) -> Dict[str, Any]:
        """What the calls of the golden file use."""
        ended = threading.Event()
        silent = self.played(lambda _: ended.wait(), timeout=0.01)
        self.addCleanup(ended.set)
        with self.answered(OK).lease(20_000) as closed_lease:
            pass
        left = os.path.join(self.folder, "left")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(left)
        forbidden = mock.Mock(spec=wattgate.Client)
        forbidden.status.side_effect = self.forbidden
        return {
            "wattgate": wattgate,
            "answered": self.answered,
            "client": wattgate.Client(os.path.join(self.folder, "none")),
            "refused_connection": wattgate.Client(left),
            "without_permission": forbidden,
            "silent": silent,
            "closed_lease": closed_lease,
            "needs": needs,
        }

    def forbidden(self) -> None:
        """What a user meets who is not in the daemon's group; root may run the test."""
        error = PermissionError(13, "Permission denied")
        with mock.patch("socket.socket.connect", side_effect=error):
            wattgate.Client().status()

    def test_the_messages_are_the_golden_ones(self) -> None:
        lines: List[str] = []
        names = self.names()
        for line in GOLDEN.read_text().splitlines():
            if line.startswith(("#", CALL)) or not line:
                lines.append(line)
            if not line.startswith(CALL):
                continue
            with self.assertRaises(Exception, msg=line) as caught:
                eval(line[len(CALL) :], names)
            error = caught.exception
            kind = type(error)
            name = f"{kind.__module__.split('.')[0]}.{kind.__name__}"
            text = str(error).replace(self.folder, "DIR")
            lines.append(f"{name.replace('builtins.', '')}: {text}")
        found = "".join(f"{line}\n" for line in lines)
        if "WATTGATE_UPDATE_GOLDEN" in os.environ:
            GOLDEN.write_text(found)
        self.assertEqual(found, GOLDEN.read_text())


if __name__ == "__main__":
    unittest.main()
