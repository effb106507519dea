"""The exceptions of hmann: one per code of the engine, with its message unchanged.

Each is an :class:`Error` and, if one fits, also a built-in exception, so that
``except FileNotFoundError`` works as well as ``except hmann.NotFoundError``.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Type

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
    "InputWarning",
    "OpenWarning",
]


class Error(Exception):
    """The base class of all errors of hmann.

    Attributes:
        code: the code of the engine, such as ``"INVALID_ARGUMENT"``.
        reason: for an error from a server, its reason, such as ``"QUEUE_FULL"``;
            ``"TLS_REFUSED"`` if client and server do not agree on TLS; otherwise None.
        retry_after: for an error from a server, the seconds after which a retry is
            worthwhile; otherwise None.
    """

    code: str = "UNKNOWN"
    reason: Optional[str] = None
    retry_after: Optional[float] = None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class InvalidArgumentError(Error, ValueError):
    """An invalid value: a shape, a dtype, a range, NaN."""

    code = "INVALID_ARGUMENT"


class InvalidTypeError(Error, TypeError):
    """An argument of an unexpected type, or an unknown option."""

    code = "INVALID_ARGUMENT"


class NotFoundError(Error, FileNotFoundError):
    """A file, an index of a server, or a tuned table does not exist."""

    code = "NOT_FOUND"


class AlreadyExistsError(Error, FileExistsError):
    """A file exists already."""

    code = "ALREADY_EXISTS"


class PermissionDeniedError(Error, PermissionError):
    """No permission to read or write a file."""

    code = "PERMISSION_DENIED"


class ResourceExhaustedError(Error, MemoryError):
    """Not enough memory or disk, or an overloaded server."""

    code = "RESOURCE_EXHAUSTED"


class FailedPreconditionError(Error, RuntimeError):
    """The wrong state: a closed index, one from before a fork, a stale table."""

    code = "FAILED_PRECONDITION"


class OutOfRangeError(Error, ValueError):
    """A target that no setting of the tuned table meets."""

    code = "OUT_OF_RANGE"


class UnimplementedError(Error, NotImplementedError):
    """An operation that hmann does not support."""

    code = "UNIMPLEMENTED"


class InternalError(Error, RuntimeError):
    """A bug in hmann or in a library that it uses."""

    code = "INTERNAL"


class UnavailableError(Error, ConnectionError):
    """No server, a server shutting down, an index loading, or a stalled device."""

    code = "UNAVAILABLE"


class DataLossError(Error, OSError):
    """A damaged file, or a failed read."""

    code = "DATA_LOSS"


class DeadlineExceededError(Error, TimeoutError):
    """The time limit passed."""

    code = "DEADLINE_EXCEEDED"


class CancelledError(Error):
    """The work was cancelled."""

    code = "CANCELLED"


class UnauthenticatedError(Error, PermissionError):
    """The server could not authenticate the client."""

    code = "UNAUTHENTICATED"


class OpenWarning(UserWarning):
    """A resource was unavailable when an index was opened; the index works without it."""


class InputWarning(UserWarning):
    """A build copied its vectors to another type, or assumed a metric."""


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
    """The exception for a code of the engine or of gRPC, which has the same names."""
    error = _BY_CODE.get(code, Error)(message)
    if type(error) is Error:
        error.code = code
    return error


#: Names in other libraries, in lower case and without underscores.
_ELSEWHERE = {"ef": "ef_l0", "efsearch": "ef_l0", "space": "metric", "distance": "metric"}


def no_such_option(name: str, known: List[str]) -> Error:
    """The exception for an unknown option: it names the nearest one, or all."""
    import difflib

    meant = _ELSEWHERE.get(name.lower().replace("_", ""))
    near = [meant] if meant in known else difflib.get_close_matches(name.lower(), known, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return InvalidTypeError(f"{name}: no such option; {hint}")
