"""Converts a failed call to an exception: google.rpc.Status and its details."""

from __future__ import annotations

import random
import re
from typing import Any, Dict, Iterator, Optional, Tuple

import grpc

from hmann import errors

MOST_ATTEMPTS = 4
TIME_IS_OVER = "the time given is over"
TLS_REFUSED = "TLS_REFUSED"  # the reason of an error for which no retry helps
_TLS_FAULTS = {
    "certificate verify failed": "the server's certificate has expired, or is of no authority "
    "that this client trusts (ca=)",
    "is not in peer certificate": "the server's certificate is for other names than this address",
    "wrong version number": "the server does not use TLS, which this client expects (ca=, cert= "
    "or tls=True)",
}
_FAULTS = {
    **_TLS_FAULTS,
    "dns resolution failed": "the name cannot be resolved",
    "failed parsing http/2": "what listens there is no gRPC server",
    "connection refused": "no server listens there",
    "no such file or directory": "no server listens there",
}
_CODES = {code.value[0]: code.name for code in grpc.StatusCode}


def _fields(message: bytes) -> Iterator[Tuple[int, Any]]:
    """Yields (number, value) of each field: a number, or bytes of a string or message."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            size = varint()
            yield key >> 3, message[at : at + size]
            at += size
        else:
            at += 8 if key & 7 == 1 else 4


def _text(fields: Dict[int, Any], number: int) -> str:
    return bytes(fields.get(number, b"")).decode(errors="replace")


def _describe(kind: str, detail: bytes, error: errors.Error) -> str:
    """The human-readable information that a google.rpc detail adds to the message."""
    fields = dict(_fields(detail))
    if kind == "google.rpc.ErrorInfo":
        error.reason = _text(fields, 1)
        return error.reason
    if kind == "google.rpc.RetryInfo":
        delay = dict(_fields(fields.get(1, b"")))
        error.retry_after = delay.get(1, 0) + delay.get(2, 0) / 1e9
        return f"retry after {int(error.retry_after * 1000)} ms"
    if kind == "google.rpc.ResourceInfo":
        return f"{_text(fields, 1)} {_text(fields, 2)}"
    if kind == "google.rpc.BadRequest":
        violations = [dict(_fields(value)) for number, value in _fields(detail) if number == 1]
        return ", ".join(f"field {_text(violation, 1)}" for violation in violations)
    return ""


def _error(code: str, message: str, status: bytes) -> errors.Error:
    """``status``: google.rpc.Status, or nothing."""
    error = errors.from_status(code, "")
    extras = []
    try:
        for number, detail in _fields(status):
            if number != 3:
                continue
            parts = dict(_fields(detail))
            kind = _text(parts, 1).rpartition("/")[2]
            extras.append(_describe(kind, parts.get(2, b""), error))
    except (IndexError, AttributeError, TypeError):
        pass  # not a google.rpc.Status: only the message remains
    extras = sorted(extra for extra in extras if extra)
    error.args = ((message or code) + (f" [{'; '.join(extras)}]" if extras else ""),)
    return error


def _fault(report: str, address: str, why_closed: str) -> errors.Error:
    """The exception for a connection that failed, from what gRPC reports of it."""
    text = report.lower().replace("_", " ")
    mark = next((mark for mark in _FAULTS if mark in text), "")
    meaning = _FAULTS.get(mark, "")
    if "socket closed" in text or "connection reset" in text:
        meaning = f"the server closed it; {why_closed}, or have too many connections"
    cause = re.split(": |::", report)[-1]
    error = errors.UnavailableError(
        f"no connection to {address}: " + (f"{meaning} ({cause})" if meaning else cause)
    )
    if mark in _TLS_FAULTS:
        error.reason = TLS_REFUSED
    return error


def to_error(failed: grpc.RpcError, address: str, why_closed: str) -> errors.Error:
    """The exception for a failed call, with the server's code and message.

    The details follow in brackets: "the queue is full [QUEUE_FULL; retry after 12 ms]".
    ``why_closed``: why the server may close a connection at once.
    """
    message = failed.details() or ""
    if message.startswith(("failed to connect to all addresses", "DNS resolution failed")):
        return _fault(message, address, why_closed)
    if message == "Deadline Exceeded":  # gRPC's own; a server says more
        message = TIME_IS_OVER
    found = [v for key, v in failed.trailing_metadata() or () if key == "grpc-status-details-bin"]
    return _error(failed.code().name, message, found[0] if found else b"")


def from_failure(failure: Any) -> errors.Error:
    """The exception for one query of a stream."""
    return _error(_CODES.get(failure.code, "UNKNOWN"), failure.message, failure.details)


def pause_before_retry(error: errors.Error, attempt: int, left: float) -> Optional[float]:
    """Seconds to wait before a retry; None: no retry.

    Searches change nothing, so a retry is safe. It happens if the server is unavailable or
    states when.
    """
    pause = None
    if isinstance(error, errors.UnavailableError) and error.reason != TLS_REFUSED:
        pause = random.uniform(0, 0.02 * 2 ** (attempt - 1))
    elif isinstance(error, errors.ResourceExhaustedError):
        pause = error.retry_after
    return None if attempt >= MOST_ATTEMPTS or pause is None or pause >= left else pause
