"""What ends with a ``with`` block."""

from types import TracebackType
from typing import Optional, Type, TypeVar

_Self = TypeVar("_Self", bound="Closing")


class Closing:
    """Calls :meth:`close` at the end of a ``with`` block."""

    __slots__ = ()

    def close(self) -> None:
        """Ends it; a second call does nothing."""
        raise NotImplementedError

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()
