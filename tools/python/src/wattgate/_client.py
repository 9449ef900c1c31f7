"""A client of the daemon's socket: one JSON object a line, version 1."""

import errno
import json
import os
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from typing import (
    Any,
    Dict,
    Iterator,
    Mapping,
    Optional,
    SupportsFloat,
    SupportsInt,
    Tuple,
    Union,
)

from ._closing import Closing

#: The daemon's socket on a board. The user must be root or in the group ``wattgate``.
PATH = "/run/wattgated/socket"

#: Interval in s at which a lease is renewed. The daemon ends one that is silent for 2 s.
_RENEWAL = 0.5

#: A power in mW or a time in ms, or a text with a unit, such as ``"15W"``.
Amount = Union[SupportsInt, str]

_VERSION = 1

#: What to do about a daemon of another release.
_OF_ITS_RELEASE = "install the wattgate package of its release"

#: Longest line that is read, in bytes.
_MAX_LINE = 65_536


class Error(Exception):
    """What a request to the daemon can fail with."""


class Disconnected(Error):
    """The daemon cannot be reached, closed the connection, or did not answer in time."""


class ProtocolError(Error):
    """The answer is not one of version 1 of the protocol."""


class Invalid(Error, ValueError):
    """An argument that no request can have."""


class Refused(Error):
    """The daemon refused the request.

    ``code`` is the error's stable name, such as ``out_of_range``; ``message`` is for people.
    """

    def __init__(self, code: str, message: str) -> None:
        """Creates the error of an answer."""
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


@dataclass(frozen=True)
class Violation:
    """The power exceeded ``allowed_mw``, and the daemon set another mode."""

    #: Time since the daemon answered.
    ago_ms: int
    #: Time during which the mean over 430 ms exceeded ``allowed_mw``; 0 if the answer came before.
    over_ms: int
    allowed_mw: int
    #: The mode that was set.
    cores: int
    cpu_khz: int
    gpu_khz: int
    emc_khz: int
    #: The highest mean over 430 ms, if it exceeded ``allowed_mw``.
    highest_mw: Optional[int] = None


@dataclass(frozen=True)
class Knob:
    """A knob that does not obey, with values in the unit of its file."""

    #: The path of its file.
    knob: str
    #: What was requested.
    wanted: int
    #: What the board shows; ``None`` if it cannot be read.
    is_: Optional[int] = None


@dataclass(frozen=True)
class Setter:
    """The client that set a limit."""

    #: The user; ``None`` for root over the socket that is root's alone.
    uid: Optional[int]
    pid: int
    #: The client's name for itself.
    program: Optional[str] = None

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> "Setter":
        """Reads who set a limit."""
        owner = values["owner"]
        uid = owner["uid"] if isinstance(owner, dict) else None
        return cls(uid, values["pid"], values.get("program"))


@dataclass(frozen=True)
class Claim:
    """A limit that a client claims: a lowering, whose source is ``socket``, or a ``lease``."""

    source: str
    by: Setter
    limit_mw: int
    #: The limit of its average, which holds beside all others.
    average_mw: Optional[int] = None
    average_window_ms: Optional[int] = None
    #: The time after which it ends; ``None`` if it does not by itself.
    for_ms: Optional[int] = None


@dataclass(frozen=True)
class Workload:
    """A workload that tells its steps. Anybody may tell any number."""

    #: Its steps so far, and when they last became more, in ms since the board's boot.
    steps: int
    at_ms: int
    #: Whether it has done no step for two seconds, and for the time of three.
    idle: bool
    name: Optional[str] = None
    #: The user of the sender, and its process.
    uid: Optional[int] = None
    pid: Optional[int] = None
    #: Time in us and energy in uJ of a step, as means of the last ten seconds. The energy is the
    #: module's, so it is ``None`` while several workloads tell steps.
    step_us: Optional[int] = None
    step_uj: Optional[int] = None
    #: What it tells beside its steps: the time since its start in which they waited for data, that
    #: in which the GPU computed, and the samples of a step.
    fetch_us: Optional[int] = None
    compute_us: Optional[int] = None
    items: Optional[int] = None


def _known(kind: type, values: Mapping[str, Any]) -> Dict[str, Any]:
    """The values that a class has fields for."""
    names = {field.name for field in fields(kind)}
    return {key: value for key, value in values.items() if key in names}


@dataclass(frozen=True)
class Report:
    """The daemon's status. ``None`` is an unknown value or one that is not set."""

    #: ``booting``, ``settling``, ``tracking``, ``stepping_down``, ``probing_up``,
    #: ``safe_no_sensor``, ``safe_cannot_hold``, ``safe_nothing_applies``, ``over_limit`` while
    #: the power is over the limit and nothing lower can be set, ``yielded`` while another
    #: client has the board and nothing else holds the limit, or ``observing`` for a daemon that
    #: writes nothing to the board, so that no limit holds.
    state: str
    #: The mode: online cores and clocks.
    cores: int
    cpu_khz: int
    gpu_khz: int
    emc_khz: int
    #: The model's prediction for the mode.
    predicted_mw: int
    #: The limit after deductions for the sensor's errors, heat, over-current and an average.
    allowed_mw: int
    #: Ratio of measured to predicted power in ppm.
    ratio_ppm: int
    limit_mw: int
    #: ``config``, ``schedule``, ``max_limit``, ``socket`` (a lowering) or ``lease``.
    limit_from: str
    #: Predicted power of the safe mode; a lower limit cannot be held.
    least_mw: int
    #: File name of the model; ``None``: the limit is held by measurement alone.
    model: Optional[str]
    # Counters since the start of the daemon.
    #: How often the power exceeded ``allowed_mw``.
    violations: int
    #: Mode changes.
    changes: int
    #: Time during which the mean over 430 ms exceeded ``allowed_mw``.
    over_limit_ms: int
    #: Energy drawn by the module.
    energy_mj: int
    #: How often the power sensor became unreadable.
    sensor_errors: int
    #: How often a mode could not be set.
    failed_changes: int
    #: Measured power in the present mode, as the mean over 430 ms.
    measured_mw: Optional[int] = None
    #: Whether the daemon sets modes for its limit.
    holding: bool = True
    average_mw: Optional[int] = None
    average_window_ms: Optional[int] = None
    #: Where all limits hold: ``module``, or ``supply`` if the config has a supply. ``measured_mw``,
    #: ``predicted_mw``, ``allowed_mw``, ``least_mw``, ``energy_mj`` and ``last_violations`` are the
    #: module's in any case.
    limit_at: str = "module"
    #: What of the supply's limit is left for the module.
    module_limit_mw: Optional[int] = None
    #: Power of the supply: the higher of what follows from the module's and what the meter shows.
    supply_mw: Optional[int] = None
    #: What the meter showed above what follows from the module's power.
    supply_added_mw: Optional[int] = None
    #: What the meter shows; ``None`` while it counts as absent.
    meter_mw: Optional[int] = None
    #: Why the meter counts as absent.
    meter_fault: Optional[str] = None
    #: The client that set the limit in force.
    limit_by: Optional["Setter"] = None
    #: The remaining time of a limit with ``for_ms``.
    limit_for_ms: Optional[int] = None
    #: The highest limit that holds whatever clients ask for.
    max_limit_mw: int = 0
    #: For how long the power has been over the limit, though nothing lower can be set.
    over_for_ms: Optional[int] = None
    #: Whether a reboot would lose a change of the lowerings.
    unsaved: bool = False
    #: The most that the next faster mode would draw; ``None`` in the fastest one.
    faster_mw: Optional[int] = None
    #: The part of the GPU that is gated off until a reboot, and what gives it back.
    gated: Optional[str] = None
    #: Whether the model was made of this unit of the board, and what it costs if not.
    unit: str = ""
    #: At most eight of the workloads that tell their steps.
    workloads: Tuple["Workload", ...] = ()
    #: The user whose steps come faster than they are read.
    flooded_by: Optional[int] = None
    #: All lowerings and leases.
    claims: Tuple["Claim", ...] = ()
    #: What makes the board slower than the mode: ``cooling``, ``firmware``, or both with a comma.
    throttled: Optional[str] = None
    #: Temperature of the hottest thermal zone in thousandths of a degree Celsius.
    temperature_mc: Optional[int] = None
    #: Voltage and current at the module's input.
    input_mv: Optional[int] = None
    input_ma: Optional[int] = None
    #: The clocks that run.
    delivered_cpu_khz: Optional[int] = None
    delivered_gpu_khz: Optional[int] = None
    delivered_emc_khz: Optional[int] = None
    #: Events of the over-current protection since the boot: under-voltage, average power, and
    #: instantaneous power.
    oc1_events: Optional[int] = None
    oc2_events: Optional[int] = None
    oc3_events: Optional[int] = None
    #: Those of the last minute.
    oc1_per_min: Optional[int] = None
    oc2_per_min: Optional[int] = None
    oc3_per_min: Optional[int] = None
    #: How often the daemon looked at the board 50 ms late or more: something kept it from running.
    late_looks: int = 0
    #: Time without a reading of the power, in which the limit may have been exceeded.
    unknown_ms: int = 0
    #: The knobs that do not obey.
    disobedient: Tuple["Knob", ...] = ()
    #: The last violations, the newest first; at most eight.
    last_violations: Tuple["Violation", ...] = ()

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> "Report":
        """Reads an answer's ``ok`` and ignores the keys of later releases."""
        for field in fields(cls):
            if field.default is MISSING and field.name not in values:
                raise ProtocolError(f"the daemon's status has no {field.name}; {_OF_ITS_RELEASE}")
        known = _known(cls, values)
        known["last_violations"] = tuple(
            Violation(**_known(Violation, violation))
            for violation in values.get("last_violations", ())
        )
        if "limit_by" in known:
            known["limit_by"] = Setter.parse(known["limit_by"])
        known["claims"] = tuple(
            Claim(**{**_known(Claim, it), "by": Setter.parse(it["by"])})
            for it in values.get("claims", ())
        )
        known["workloads"] = tuple(
            Workload(**_known(Workload, it)) for it in values.get("workloads", ())
        )
        known["disobedient"] = tuple(
            Knob(it["knob"], it["wanted"], it.get("is")) for it in values.get("disobedient", ())
        )
        return cls(**known)


class Client:
    """Asks the daemon; each request has a connection of its own.

    Powers are whole mW, times whole ms. In a limit they may also be texts with a unit, such as
    ``"15W"`` and ``"10min"``, which the daemon reads as it reads its config. Each method raises
    :class:`Invalid`, :class:`Refused`, :class:`Disconnected` or :class:`ProtocolError`.
    """

    def __init__(
        self, path: Union[str, "os.PathLike[str]"] = PATH, timeout: SupportsFloat = 5.0
    ) -> None:
        """Creates a client of the socket at ``path`` that waits ``timeout`` seconds at most."""
        self._path = _text("path", path)
        self._timeout = _seconds("timeout", timeout)

    def status(self) -> Report:
        """Returns the status."""
        return self._ask("status")

    def set_limit(
        self,
        power_mw: Optional[Amount],
        average_mw: Optional[Amount] = None,
        window_ms: Optional[Amount] = None,
        for_ms: Optional[Amount] = None,
    ) -> Report:
        """Lowers the limit: it holds beside all others, and never raises what holds.

        The powers are in mW: 12 W are 12000, or ``"12W"``. A number below 1000, which no board
        draws, is refused.
        ``None`` lifts what this user has set. ``average_mw`` and ``window_ms`` set a limit of the
        average power besides. The limit survives restarts, and holds until this user sets another
        one or lifts it, and at most for the time ``for_ms``.
        """
        if power_mw is None and average_mw is None and window_ms is None and for_ms is None:
            return self._ask({"set_limit": None})
        return self._ask({"set_limit": _limit(power_mw, average_mw, window_ms, for_ms)})

    def set_model(self, name: Union[str, "os.PathLike[str]"]) -> Report:
        """Loads another model from the folder of the daemon's models, by its name or path."""
        return self._ask({"set_model": _text("name", name)})

    def lease(
        self,
        power_mw: Amount,
        average_mw: Optional[Amount] = None,
        window_ms: Optional[Amount] = None,
        model: Union[str, "os.PathLike[str]", None] = None,
        for_ms: Optional[Amount] = None,
    ) -> "Lease":
        """Returns a lease: the limit holds in place of the config's, up to ``max_limit``.

        It holds until it is closed, for the time ``for_ms``, or until this process ends or is
        stopped for 2 s; a thread renews it. What users have set by :meth:`set_limit` stays lower.
        ``model`` is loaded as by :meth:`set_model`, for the same time. Of several leases the lowest
        limits hold.
        """
        wanted = _limit(power_mw, average_mw, window_ms, for_ms)
        if model is not None:
            wanted["model"] = _text("model", model)
        connection = _Connection(self._path, self._timeout)
        connection.send({"lease": wanted})
        return Lease(connection)

    def subscribe(self, every_ms: SupportsInt = 1000) -> "Subscription":
        """Returns an iterator over statuses, the present one first.

        The others follow when state, mode, limit or model change, and every ``every_ms`` at least.
        """
        every = _whole("every_ms", every_ms)
        connection = _Connection(self._path, self._timeout + every / 1000)
        connection.send({"subscribe": {"every_ms": every}})
        return Subscription(connection)

    def _ask(self, request: Union[str, Dict[str, Any]]) -> Report:
        with _Connection(self._path, self._timeout) as connection:
            connection.send(request)
            return connection.receive()


class _Connection(Closing):
    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(timeout)
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise Disconnected(f"cannot connect to {path}: {error}; {_advice(error)}") from error
        self._lines = self._socket.makefile("rb")

    def send(self, request: Union[str, Dict[str, Any]]) -> None:
        line = json.dumps({"version": _VERSION, "request": request}, separators=(",", ":"))
        # The daemon refuses a client too many before it reads; its answer says more than the error.
        with suppress(OSError):
            self._socket.sendall(line.encode() + b"\n")

    def receive(self) -> Report:
        try:
            line = self._lines.readline(_MAX_LINE)
        except OSError as error:
            advice = "`systemctl status wattgated` shows what the daemon does"
            raise Disconnected(f"no answer from {self._path}: {error}; {advice}") from error
        if not line.endswith(b"\n") and len(line) < _MAX_LINE:
            advice = "`systemctl status wattgated` shows whether it runs"
            raise Disconnected(f"the daemon at {self._path} closed the connection; {advice}")
        return _parse(line)

    def shut(self) -> None:
        """Ends the connection; what waits for it goes on."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


class Lease(Closing):
    """A limit, and perhaps a model, until :meth:`close` or the end of a ``with`` block."""

    def __init__(self, connection: _Connection) -> None:
        """Made by :meth:`Client.lease`, which waits for the answer."""
        self._connection = connection
        try:
            #: The status when the lease began.
            self.report = connection.receive()
        except Error:
            connection.close()
            raise
        # One request at a time.
        self._lock = threading.Lock()
        self._closed = threading.Event()
        # A forked child has no such thread: the lease stays with this process.
        self._thread = threading.Thread(target=self._renew, name="wattgate lease", daemon=True)
        self._thread.start()

    def _renew(self) -> None:
        while not self._closed.wait(_RENEWAL):
            try:
                self.status()
            except Error:
                return

    @property
    def held(self) -> bool:
        """Whether the lease has not ended, as far as is known."""
        return self._thread.is_alive() and not self._closed.is_set()

    def status(self) -> Report:
        """Returns the status; :class:`Disconnected` means that the lease has ended."""
        with self._lock:
            try:
                self._connection.send("status")
                return self._connection.receive()
            except ValueError as error:  # The file is closed.
                raise Disconnected("the lease was closed; `lease` begins another one") from error

    def close(self) -> None:
        """Ends the lease."""
        self._closed.set()
        # Wakes a thread that waits for an answer.
        self._connection.shut()
        with self._lock:
            self._connection.close()


class Subscription(Closing, Iterator[Report]):
    """Statuses as the daemon sends them; ends with :class:`Disconnected` or :meth:`close`."""

    def __init__(self, connection: _Connection) -> None:
        """Made by :meth:`Client.subscribe`, which waits for the first status."""
        self._connection: Optional[_Connection] = connection
        self._next: Optional[Report] = None
        self._next = self.__next__()

    def __next__(self) -> Report:
        """Waits for the next status."""
        if self._next is not None:
            report, self._next = self._next, None
            return report
        connection = self._connection
        if connection is None:
            raise StopIteration
        try:
            return connection.receive()
        except (Error, ValueError) as error:  # ValueError: the file is closed.
            if self._connection is None:
                raise StopIteration from error
            self.close()
            raise

    def close(self) -> None:
        """Ends the subscription, also while another thread waits for the next status."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # Wakes that thread.
            connection.shut()
            connection.close()


def _limit(
    power_mw: Optional[Amount],
    average_mw: Optional[Amount],
    window_ms: Optional[Amount],
    for_ms: Optional[Amount],
) -> Dict[str, Any]:
    """A limit as a request has it."""
    if power_mw is None:
        raise Invalid("power_mw is None, expected mW; None lifts a limit if nothing else is given")
    if (average_mw is None) != (window_ms is None):
        raise Invalid("average_mw and window_ms need each other; give both")
    limit: Dict[str, Any] = {"power_mw": _power("power_mw", power_mw)}
    if average_mw is not None and window_ms is not None:
        average = {"power_mw": _power("average_mw", average_mw)}
        limit["average"] = {**average, "window_ms": _amount("window_ms", window_ms)}
    if for_ms is not None:
        limit["for_ms"] = _amount("for_ms", for_ms)
    program = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
    limit["program"] = program
    return limit


def _advice(error: OSError) -> str:
    """What to do about a daemon that cannot be reached."""
    if error.errno in (errno.ENOENT, errno.ECONNREFUSED):
        return "the daemon does not run: start it with `systemctl start wattgated`"
    if error.errno in (errno.EACCES, errno.EPERM):
        group = "`sudo usermod -aG wattgate $USER`"
        return f"join the group of the daemon's config ({group}) and log in again"
    return f"name the daemon's socket, which is {PATH} on a board"


def _power(name: str, value: Amount) -> Union[int, str]:
    """A power. No board draws less than 1 W, so a small number is one of watts."""
    power = _amount(name, value)
    if isinstance(power, int) and 0 < power < 1000:
        raise Invalid(
            f"{name} is {power}, expected mW, 1000 or more; {power} W are {1000 * power}, or "
            f'"{power}W"'
        )
    return power


def _amount(name: str, value: Amount) -> Union[int, str]:
    """A whole number, or a text with a unit, which the daemon alone parses."""
    return value if isinstance(value, str) else _whole(name, value)


def _seconds(name: str, value: SupportsFloat) -> float:
    """A time above zero: with a timeout of zero a socket does not wait at all."""
    with suppress(TypeError, ValueError, OverflowError):
        seconds = float(value)
        if 0 < seconds < float("inf") and not isinstance(value, (bool, str)):
            return seconds
    raise Invalid(f"{name} is {value!r}, expected a number of seconds above 0")


def _whole(name: str, value: SupportsInt) -> int:
    """A whole number, such as ``15000``, ``Decimal(15000)`` or one of NumPy's.

    The end of its name is its unit.
    """
    try:
        whole = int(value)
        if whole == value and not isinstance(value, (bool, str)):
            return whole
    except (TypeError, ValueError, OverflowError):
        pass
    unit = "mW" if name.endswith("_mw") else "ms"
    raise Invalid(f"{name} is {value!r}, expected a whole number of {unit}, such as 15000")


def _text(name: str, value: Union[str, "os.PathLike[str]"]) -> str:
    """A name or a path as a text."""
    text: Union[str, bytes] = b""
    with suppress(TypeError):
        text = os.fspath(value)
    if isinstance(text, str):
        return text
    raise Invalid(f"{name} is {value!r}, expected a text or a Path")


def _parse(line: bytes) -> Report:
    try:
        answer = json.loads(line)
        if answer["version"] != _VERSION:
            found = f"the daemon's version is {answer['version']}, expected {_VERSION}"
            raise ProtocolError(f"{found}; {_OF_ITS_RELEASE}")
        if "error" in answer:
            raise Refused(answer["error"]["name"], answer["error"]["message"])
        return Report.parse(answer["ok"])
    except (ValueError, KeyError, TypeError) as error:
        found = f"not an answer of the daemon: {line[:80]!r}"
        raise ProtocolError(f"{found}; name the daemon's socket") from error
