"""The client of the daemon's socket, with a daemon played by the test and with the real one."""

import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any, Callable, Dict, List

import wattgate

ROOT = Path(__file__).resolve().parents[3]
PROTOCOL = ROOT / "tools/watchdog/src/serve/protocol.rs"
PROGRAMS = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"


def examples(of: str) -> List[str]:
    """The example lines of the protocol's documentation that have the key ``of``."""
    lines = [line[4:] for line in PROTOCOL.read_text().splitlines() if line.startswith("//! {")]
    return [line for line in lines if f'"{of}":' in line]


def unnamed(line: str) -> Any:
    """A request without the client's name for itself."""
    request = json.loads(line)
    if isinstance(request["request"], dict):
        for values in request["request"].values():
            if isinstance(values, dict):
                values.pop("program", None)
    return request


OK = examples("ok")[0]
ERROR = examples("error")[0]


class FakeDaemon:
    """Listens at ``path`` and lets ``serve`` have each connection."""

    def __init__(self, path: str, serve: Callable[[socket.socket], object]) -> None:
        self.requests: List[str] = []
        self._serve = serve
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(path)
        self._socket.listen()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                self._serve(client)

    def close(self) -> None:
        """Ends the daemon."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


class WithFakeDaemon(unittest.TestCase):
    """Requests and answers are those of the protocol's documentation."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "socket")
        self.requests: List[str] = []

    def client(self, *answers: str) -> wattgate.Client:
        """A client of a daemon that answers a request with the lines ``answers``."""

        def serve(client: socket.socket) -> None:
            self.requests.append(client.makefile().readline().rstrip("\n"))
            client.sendall("".join(answers).encode())

        self.addCleanup(FakeDaemon(self.path, serve).close)
        return wattgate.Client(self.path, timeout=60)

    def test_the_requests_are_those_of_the_documentation(self) -> None:
        client = self.client(OK + "\n")
        client.status()
        client.set_limit(15_000)
        client.set_limit(15_000, average_mw=12_000, window_ms=60_000)
        client.set_limit(15_000, for_ms=600_000)
        client.set_limit(None)
        client.set_model("night.wgt")
        client.lease(20_000).close()
        client.lease(
            20_000, average_mw=15_000, window_ms=60_000, model="night.wgt", for_ms=600_000
        ).close()
        client.subscribe(1000).close()
        # This client takes no board, is not root's, and sets no aim.
        others = ("yield", "lift", "aim", '"steps":')
        expected = [
            line for line in examples("request") if not any(other in line for other in others)
        ]
        self.assertEqual(list(map(unnamed, self.requests)), list(map(unnamed, expected)))

    def test_the_report_is_that_of_the_documentation(self) -> None:
        report = self.client(OK + "\n").status()
        expected: Dict[str, Any] = json.loads(OK)["ok"]
        self.assertEqual(expected.pop("last_violations"), [])
        self.assertEqual(expected.pop("disobedient"), [])
        self.assertEqual(expected.pop("claims"), [])
        self.assertEqual(report.claims, ())
        self.assertEqual(report.disobedient, ())
        self.assertEqual(report.last_violations, ())
        for key, value in expected.items():
            self.assertEqual(getattr(report, key), value)
        self.assertIsNone(report.average_mw)

    def test_violations_are_read(self) -> None:
        violation = examples("ago_ms")[0]
        line = OK.replace('"last_violations":[]', f'"last_violations":[{violation}]')
        report = self.client(line + "\n").status()
        self.assertEqual([asdict(it) for it in report.last_violations], [json.loads(violation)])

    def test_knobs_that_do_not_obey_are_read(self) -> None:
        knobs = '[{"knob":"/sys/a","wanted":0,"is":1},{"knob":"/sys/b","wanted":2}]'
        line = OK.replace('"disobedient":[]', f'"disobedient":{knobs}')
        report = self.client(line + "\n").status()
        found = [(it.knob, it.wanted, it.is_) for it in report.disobedient]
        self.assertEqual(found, [("/sys/a", 0, 1), ("/sys/b", 2, None)])

    def test_who_set_a_limit_is_read(self) -> None:
        lease = examples("source")[0]
        by = '"limit_by":{"owner":"root","pid":3,"program":"x"}'
        line = OK.replace('"claims":[]', f'"claims":[{lease}],{by}')
        report = self.client(line + "\n").status()
        self.assertEqual(report.limit_by, wattgate._client.Setter(None, 3, "x"))
        (claim,) = report.claims
        self.assertEqual((claim.source, claim.limit_mw, claim.for_ms), ("lease", 25_000, 600_000))
        self.assertEqual((claim.by.uid, claim.by.program), (1000, "train.py"))

    def test_numbers_and_paths_of_other_types(self) -> None:
        client = self.client(OK + "\n")
        client.set_limit(Decimal("15000"), for_ms=600_000.0)
        client.set_model(Path("/etc/night.wgt"))
        limit = unnamed(self.requests[0])["request"]["set_limit"]
        self.assertEqual(limit, {"power_mw": 15_000, "for_ms": 600_000})
        self.assertEqual(json.loads(self.requests[1])["request"]["set_model"], "/etc/night.wgt")
        for power in [15.5, None, True, float("nan"), object()]:
            with self.assertRaises(wattgate.Invalid):
                client.lease(power)  # type: ignore[arg-type]
        with self.assertRaisesRegex(
            wattgate.Invalid, 'power_mw is 12, expected mW.*12 W are 12000, or "12W"'
        ):
            client.set_limit(12)
        for timeout in [0, -1, None, "5", float("nan"), float("inf")]:
            with self.assertRaisesRegex(wattgate.Invalid, "expected a number of seconds above 0"):
                wattgate.Client(self.path, timeout)  # type: ignore[arg-type]
        for every_ms in ["1", None, 0.5]:
            with self.assertRaisesRegex(wattgate.Invalid, "every_ms is"):
                client.subscribe(every_ms)  # type: ignore[arg-type]
        with self.assertRaises(wattgate.Invalid):
            wattgate.Client(b"/run")  # type: ignore[arg-type]
        self.assertEqual(wattgate.Client(Path(self.path), Decimal("60")).status().cores, 8)
        self.requests.pop()
        for name in [b"x", 3, None]:
            with self.assertRaises(wattgate.Invalid):
                client.set_model(name)  # type: ignore[arg-type]
        self.assertEqual(len(self.requests), 2)

    def test_texts_with_units_are_left_to_the_daemon(self) -> None:
        client = self.client(OK + "\n")
        client.set_limit("15W", average_mw="12.5 W", window_ms="1min", for_ms="10min")
        client.lease("a lot").close()
        limits = [next(iter(unnamed(line)["request"].values())) for line in self.requests]
        average = {"power_mw": "12.5 W", "window_ms": "1min"}
        expected = {"power_mw": "15W", "average": average, "for_ms": "10min"}
        self.assertEqual(limits, [expected, {"power_mw": "a lot"}])

    def test_keys_of_later_releases_are_ignored(self) -> None:
        line = OK.replace('"ok":{', '"later":1,"ok":{"newer":[],')
        self.assertEqual(self.client(line + "\n").status().limit_mw, 15_000)

    def test_a_refusal_has_code_and_message(self) -> None:
        with self.assertRaises(wattgate.Refused) as caught:
            self.client(ERROR + "\n").set_limit(0)
        self.assertEqual(caught.exception.code, "out_of_range")
        self.assertEqual(caught.exception.message, "power_mw is 0, expected 1 to 1000000")
        expected = "power_mw is 0, expected 1 to 1000000 (out_of_range)"
        self.assertEqual(str(caught.exception), expected)

    def test_a_refusal_before_the_request_is_read(self) -> None:
        def serve(client: socket.socket) -> None:
            client.sendall(ERROR.encode() + b"\n")

        self.addCleanup(FakeDaemon(self.path, serve).close)
        for _ in range(20):  # Whether the request still gets through depends on the moment.
            with self.assertRaises((wattgate.Refused, wattgate.Disconnected)):
                wattgate.Client(self.path).status()

    def test_answers_of_another_protocol(self) -> None:
        cases = [
            (OK.replace('"version":1', '"version":2'), "the daemon's version is 2, expected 1"),
            (OK.replace('"emc_khz":3199000,', ""), "the daemon's status has no emc_khz"),
            ("HTTP/1.1 400 Bad Request", "not an answer of the daemon: b'HTTP"),
            ("[]", "not an answer"),
            ("1", "not an answer"),
            ('{"version":1}', "not an answer"),
            ('{"version":1,"ok":3}', "not an answer"),
            ('{"version":1,"error":"no"}', "not an answer"),
            ("x" * 70_000, "not an answer"),
        ]
        for line, message in cases:
            client = self.client(line + "\n")
            with self.assertRaisesRegex(wattgate.ProtocolError, message):
                client.status()
            self.doCleanups()
            self.setUp()

    def test_no_daemon_and_an_end_in_the_middle(self) -> None:
        client = wattgate.Client(self.path)
        with self.assertRaisesRegex(wattgate.Disconnected, f"cannot connect to {self.path}: .*No"):
            client.status()
        for answer in ["", OK[:50]]:
            client = self.client(answer)
            with self.assertRaisesRegex(wattgate.Disconnected, "closed the connection"):
                client.status()
            self.doCleanups()
            self.setUp()

    def test_a_daemon_that_does_not_answer(self) -> None:
        ended = threading.Event()
        daemon = FakeDaemon(self.path, lambda _: [ended.wait()])
        self.addCleanup(daemon.close)
        self.addCleanup(ended.set)
        with self.assertRaisesRegex(wattgate.Disconnected, "no answer from .*timed out"):
            wattgate.Client(self.path, timeout=0.01).status()

    def test_arguments_that_do_not_fit(self) -> None:
        client = wattgate.Client(self.path)
        for arguments in [(1, 2), (1, None, 2)]:
            with self.assertRaisesRegex(ValueError, "need each other"):
                client.set_limit(*arguments)
        for arguments in [(None, 1, 2), (None, None, None, 1)]:
            with self.assertRaisesRegex(ValueError, "power_mw is None"):
                client.set_limit(*arguments)

    def test_a_lease_that_is_refused_or_ends(self) -> None:
        with self.assertRaises(wattgate.Refused):
            self.client(ERROR + "\n").lease(0)
        self.doCleanups()
        self.setUp()
        with self.client(OK + "\n").lease(15_000) as lease:
            self.assertEqual(lease.report.limit_mw, 15_000)
            with self.assertRaises(wattgate.Disconnected):
                lease.status()
        with self.assertRaises(wattgate.Disconnected):
            lease.status()
        with self.assertRaisesRegex(ValueError, "need each other"):
            wattgate.Client(self.path).lease(1, average_mw=2)

    def test_a_subscription_yields_each_line_until_the_daemon_ends(self) -> None:
        second = OK.replace('"limit_mw":15000', '"limit_mw":12000')
        limits = []
        with self.client(OK + "\n", second + "\n").subscribe() as reports:
            with self.assertRaises(wattgate.Disconnected):
                for report in reports:
                    limits.append(report.limit_mw)
            self.assertEqual(list(reports), [])
        self.assertEqual(limits, [15_000, 12_000])

    def test_a_subscription_is_closed_while_another_thread_waits(self) -> None:
        ended = threading.Event()

        def serve(client: socket.socket) -> None:
            client.sendall(OK.encode() + b"\n")
            ended.wait()

        self.addCleanup(FakeDaemon(self.path, serve).close)
        self.addCleanup(ended.set)
        reports = wattgate.Client(self.path, timeout=60).subscribe(60_000)
        next(reports)
        found: List[wattgate.Report] = []
        waiting = threading.Thread(target=lambda: found.extend(reports))
        waiting.start()
        time.sleep(0.1)
        start = time.monotonic()
        reports.close()
        waiting.join(10)
        self.assertFalse(waiting.is_alive())
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual(found, [])

    def test_a_refused_subscription_is_refused_at_once(self) -> None:
        with self.assertRaises(wattgate.Refused):
            self.client(ERROR + "\n").subscribe(1)


@unittest.skipUnless(
    (PROGRAMS / "wattgated").exists() and (PROGRAMS / "wattgate-simulator").exists(),
    f"no wattgated and wattgate-simulator in {PROGRAMS}",
)
class WithRealDaemon(unittest.TestCase):
    """The daemon on a simulated board."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = Path(folder.name) / "board"
        config = Path(folder.name) / "wattgated.toml"
        model = ROOT / "weights/orin-agx-64-resnet18.wgt"
        config.write_text(f'version = 1\nmodel = "{model}"\nlimit = "30W"\n')
        simulator, daemon = PROGRAMS / "wattgate-simulator", PROGRAMS / "wattgated"
        # In MAXN, with all TPCs, as the model has them.
        board = ["--board", "orin-agx-64", "--mode", "0", "--workload", "resnet18"]
        board += ["--root", str(root)]
        self.start(str(simulator), "board", *board)
        # The simulator answers a command when it has written all files.
        control, log = root / "control", root / "control.log"
        self.until(control.exists)
        with control.open("a") as commands:
            commands.write("ambient 25\n")
        self.until(lambda: log.exists() and "ambient 25: ok" in log.read_text())
        self.start(str(daemon), "run", "--config", str(config), "--root", str(root))
        path = root / "run/wattgated/socket"
        self.until(path.exists)
        self.client = wattgate.Client(str(path), timeout=60)

    def start(self, *command: str) -> None:
        """Starts a program that is ended after the test."""
        self.program = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT
        )
        self.addCleanup(self.program.communicate)
        self.addCleanup(self.program.send_signal, signal.SIGTERM)

    def until(self, is_true: Callable[[], bool]) -> None:
        """Waits for the program that was started last."""
        while not is_true():
            if self.program.poll() is not None:
                self.fail(f"{self.program.args!r} ended: {self.program.communicate()[1]!r}")
            time.sleep(0.01)

    def test_limits_are_set_reported_and_refused(self) -> None:
        report = self.client.status()
        self.assertEqual((report.limit_mw, report.limit_from), (30_000, "config"))
        self.assertEqual(report.model, "orin-agx-64-resnet18.wgt")
        report = self.client.set_limit(20_000, average_mw=18_000, window_ms=60_000)
        self.assertEqual((report.limit_mw, report.limit_from), (20_000, "socket"))
        self.assertEqual((report.average_mw, report.average_window_ms), (18_000, 60_000))
        self.assertEqual(report.limit_by.uid if report.limit_by else None, os.getuid())
        self.assertEqual(self.client.set_limit("19.5 W", for_ms="10min").limit_mw, 19_500)
        expected = "power_mw is `15`, expected a power of 1mW to 1000W with its unit"
        with self.assertRaisesRegex(wattgate.Refused, expected):
            self.client.set_limit("15")
        self.assertEqual(self.client.set_limit(None).limit_mw, 30_000)
        with self.assertRaises(wattgate.Refused) as caught:
            self.client.set_limit(0)
        self.assertEqual(caught.exception.code, "out_of_range")
        with self.assertRaises(wattgate.Refused) as caught:
            self.client.set_model("absent.wgt")
        self.assertEqual(caught.exception.code, "model_unreadable")
        with self.assertRaises(wattgate.Refused) as caught:
            self.client.subscribe(99)
        self.assertEqual(caught.exception.code, "out_of_range")

    def test_a_lease_ends_with_its_block(self) -> None:
        with self.client.lease(28_000) as lease:
            self.assertEqual((lease.report.limit_mw, lease.report.limit_from), (28_000, "lease"))
            with self.client.lease(20_000, average_mw=18_000, window_ms=60_000):
                self.assertEqual(lease.status().limit_mw, 20_000)
            self.until(lambda: lease.status().limit_mw == 28_000)
            # What a user has lowered stays lowered.
            self.assertEqual(self.client.set_limit(25_000).limit_mw, 25_000)
            # Longer than a lease that is not renewed; nothing else asks meanwhile.
            time.sleep(3)
            self.assertTrue(lease.held)
            self.assertEqual(len(lease.status().claims), 2)
            self.client.set_limit(None)
        self.assertFalse(lease.held)
        self.until(lambda: self.client.status().limit_from == "config")
        with self.assertRaises(wattgate.Refused) as caught:
            self.client.lease(20_000, model="absent.wgt")
        self.assertEqual(caught.exception.code, "model_unreadable")

    def test_a_subscription_shows_a_new_limit(self) -> None:
        with self.client.subscribe(60_000) as reports:
            self.assertEqual(next(reports).limit_mw, 30_000)
            self.client.set_limit(25_000)
            self.assertTrue(any(report.limit_mw == 25_000 for report in reports))

    def test_more_clients_than_the_daemon_serves(self) -> None:
        subscriptions = [self.client.subscribe() for _ in range(4)]
        leases = [self.client.lease(20_000) for _ in range(4)]
        with self.assertRaises((wattgate.Refused, wattgate.Disconnected)):
            self.client.status()
        for lease in leases:
            lease.close()
        for subscription in subscriptions:
            subscription.close()


if __name__ == "__main__":
    unittest.main()
