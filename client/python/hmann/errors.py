"""The exceptions of hmann: one for each code of the engine, and its message unchanged.

Each of them is an :class:`Error` and, where one fits, a built-in exception too, so that
``except FileNotFoundError`` works as well as ``except hmann.NotFoundError``.
"""

from __future__ import annotations

from typing import Dict, Optional, Type

__all__ = [
    "Error",
    "InvalidArgumentError",
    "InvalidTypeError",
    "NotFoundError",
    "AlreadyExistsError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "FailedPreconditionError",
    "OutOfRangeError",
    "UnimplementedError",
    "InternalError",
    "UnavailableError",
    "DataLossError",
    "DeadlineExceededError",
    "CancelledError",
    "UnauthenticatedError",
    "OpenWarning",
]


class Error(Exception):
    """Whatever hmann cannot do.

    Attributes:
        code: the engine's code, as ``"INVALID_ARGUMENT"``.
        reason: of a server's answer, its reason, as ``"QUEUE_FULL"``; else None.
        retry_after: of a server's answer, the seconds after which a retry is worth it;
            else None.
    """

    code: str = "UNKNOWN"
    reason: Optional[str] = None
    retry_after: Optional[float] = None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class InvalidArgumentError(Error, ValueError):
    """A value that cannot be: a shape, a dtype, a range, NaN."""

    code = "INVALID_ARGUMENT"


class InvalidTypeError(Error, TypeError):
    """An argument of no kind that is expected, or an option that there is not."""

    code = "INVALID_ARGUMENT"


class NotFoundError(Error, FileNotFoundError):
    """A file, an index of a server, or a tuned table that is not there."""

    code = "NOT_FOUND"


class AlreadyExistsError(Error, FileExistsError):
    """A file that is there already."""

    code = "ALREADY_EXISTS"


class PermissionDeniedError(Error, PermissionError):
    """A file that may not be read or written."""

    code = "PERMISSION_DENIED"


class ResourceExhaustedError(Error, MemoryError):
    """Not enough memory or disk; or a server that has too much to do."""

    code = "RESOURCE_EXHAUSTED"


class FailedPreconditionError(Error, RuntimeError):
    """Not in this state: a closed index, one from before a fork, a stale table."""

    code = "FAILED_PRECONDITION"


class OutOfRangeError(Error, ValueError):
    """A target that no setting of the tuned table meets."""

    code = "OUT_OF_RANGE"


class UnimplementedError(Error, NotImplementedError):
    """What hmann does not do."""

    code = "UNIMPLEMENTED"


class InternalError(Error, RuntimeError):
    """A mistake of hmann's own, or of a library below it."""

    code = "INTERNAL"


class UnavailableError(Error, ConnectionError):
    """A server that is not there or stops, an index that loads, a device that stalls."""

    code = "UNAVAILABLE"


class DataLossError(Error, OSError):
    """A file that is damaged, or a read that failed."""

    code = "DATA_LOSS"


class DeadlineExceededError(Error, TimeoutError):
    """The time that was given is over."""

    code = "DEADLINE_EXCEEDED"


class CancelledError(Error):
    """The work was cancelled."""

    code = "CANCELLED"


class UnauthenticatedError(Error, PermissionError):
    """A server that does not know who asks."""

    code = "UNAUTHENTICATED"


class OpenWarning(UserWarning):
    """What could not be had when an index was opened, and was done without."""


_BY_CODE: Dict[str, Type[Error]] = {
    kind.code: kind
    for kind in (
        InvalidArgumentError,
        NotFoundError,
        AlreadyExistsError,
        PermissionDeniedError,
        ResourceExhaustedError,
        FailedPreconditionError,
        OutOfRangeError,
        UnimplementedError,
        InternalError,
        UnavailableError,
        DataLossError,
        DeadlineExceededError,
        CancelledError,
        UnauthenticatedError,
    )
}


def from_status(code: str, message: str) -> Error:
    """The exception of a code of the engine or of gRPC, which has the same names."""
    error = _BY_CODE.get(code, Error)(message)
    if type(error) is Error:
        error.code = code
    return error
