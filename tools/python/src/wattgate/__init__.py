"""Tells wattgate the steps of a workload, and talks to its daemon.

The adapters ``wattgate.torch``, ``wattgate.huggingface`` and ``wattgate.ultralytics`` are modules
of their own, so that ``import wattgate`` imports none of those packages.
"""

from ._client import (
    Client,
    Disconnected,
    Error,
    Invalid,
    Lease,
    ProtocolError,
    Refused,
    Report,
    Subscription,
)
from ._steps import Steps, steps

__all__ = [
    "Client",
    "Disconnected",
    "Error",
    "Invalid",
    "Lease",
    "ProtocolError",
    "Refused",
    "Report",
    "Steps",
    "Subscription",
    "steps",
]
