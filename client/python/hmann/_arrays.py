"""Converts what people have to arrays: the one conversion for all functions and clients.

The native module calls it for everything but plain arrays of the type that it needs.
"""

from __future__ import annotations

import datetime
import warnings
from typing import Any, Dict, List, Optional, Union

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hmann.errors import InputWarning, InvalidArgumentError, InvalidTypeError

_OWN = ("float32", "float16", "uint8", "int8")  # what the engine has


def array(name: str, value: Any) -> NDArray[Any]:
    """``np.asarray``, also of sets, of ``to_numpy`` and ``__dlpack__``, and of objects that
    are rows of equal length, such as a column of pandas with arrays in it.

    Raises InvalidArgumentError, prefixed with ``name``, for masked entries, for rows of
    different lengths, and for what is no array.
    """
    if np.ma.is_masked(value):
        raise InvalidArgumentError(
            f"{name}: expected an array without masked entries: fill them (.filled(...)) or "
            "leave their rows out"
        )
    try:
        if isinstance(value, (set, frozenset)):
            value = list(value)
        if isinstance(value, (list, tuple)):
            value = [_read_only(row) for row in value]
        value = _read_only(value)
        if not hasattr(value, "__array__") and hasattr(value, "to_numpy"):
            value = value.to_numpy()
        elif not hasattr(value, "__array__") and hasattr(value, "__dlpack__"):
            value = np.from_dlpack(value)
        found = np.asarray(value)
        if found.dtype == object:
            rows = found.tolist()
            found = np.asarray([_read_only(row) for row in rows] if found.ndim else rows)
        return found
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        text = f"cannot be read as an array: {str(error).partition(chr(10))[0]:.200}"
        lengths = [np.size(row) for row in value] if np.iterable(value) else []
        for row, length in enumerate(lengths):
            if length != lengths[0]:
                text = f"row {row} has {length} components, row 0 has {lengths[0]}"
                break
        raise InvalidArgumentError(f"{name}: {text}") from None


def _read_only(value: Any) -> Any:
    """A tensor without its gradient, in the memory of the CPU; other values as they are."""
    value = value.detach() if hasattr(value, "detach") else value
    return value.cpu() if hasattr(value, "cpu") else value


def labels(value: Any) -> Union[str, List[str], NDArray[Any]]:
    """Labels: one string, a list of strings, or what ``array`` makes of others.

    Raises InvalidArgumentError: as ``array``; for strings among others.
    """
    words = value
    if not isinstance(value, (str, list, tuple)):
        words = value.to_numpy() if hasattr(value, "to_numpy") else value
        words = list(words) if isinstance(words, (set, frozenset)) else words
        if getattr(getattr(words, "dtype", None), "kind", "O") not in "biufS":
            words = np.asarray(words).tolist() if hasattr(words, "__array__") else words
    if isinstance(words, str):
        return str(words)
    if not isinstance(words, (list, tuple)) or not any(isinstance(word, str) for word in words):
        return array("labels", value)
    for place, word in enumerate(words):
        if not isinstance(word, str):
            raise InvalidArgumentError(
                "labels: expected all of them whole numbers, or all strings; found "
                f"{word!r:.60} at {place}"
            )
    return [str(word) for word in words]


def vectors(name: str, value: Any, wanted: Optional[DTypeLike] = None) -> NDArray[Any]:
    """An array of the dtype ``wanted``; None: of its own dtype if the engine has it,
    otherwise float32. Nothing is copied that has this dtype.

    Warns if a base has to be copied, unless it is a list.

    Raises InvalidArgumentError, prefixed with ``name``: as ``array``; for anything but real
    numbers, and a value that ``wanted`` does not hold (floats are rounded).
    """
    found = array(name, value)
    if found.dtype.kind not in "fiu":
        raise InvalidArgumentError(f"{name}: expected real numbers, found {str(found.dtype)!r}")
    dtype = np.dtype(wanted or (found.dtype.name if found.dtype.name in _OWN else "float32"))
    try:
        with np.errstate(over="raise", invalid="ignore"):
            made = found.astype(dtype, copy=False)
    except FloatingPointError:
        raise InvalidArgumentError(f"{name}: a value is beyond the range of {dtype}") from None
    if dtype.kind in "iu" and made.dtype != found.dtype and (made != found).any():
        place = np.argwhere(made != found)[0]
        raise InvalidArgumentError(
            f"{name}: expected values that {dtype} holds, found {found[tuple(place)]} at "
            f"{place.tolist()}"
        )
    if name == "base" and made.dtype != found.dtype and not isinstance(value, (list, tuple)):
        warnings.warn(
            f"base: {found.dtype} was copied to {dtype} ({made.nbytes / 2**20:.3g} MiB); "
            f"pass {dtype} to save the copy",
            InputWarning,
            stacklevel=3,
        )
    return made


def time_text(value: Any) -> Any:
    """A datetime, date or numpy.datetime64 as filters have it: UTC unless it has a zone. Any
    other value is itself.
    """
    if isinstance(value, np.datetime64):
        value = value.astype("M8[us]").item()  # of others, numpy makes whole numbers
    if isinstance(value, datetime.datetime):
        utc = datetime.timezone.utc
        zoned = value if value.utcoffset() is not None else value.replace(tzinfo=utc)
        return zoned.astimezone(utc).isoformat()
    return f"{value.isoformat()}T00:00:00Z" if isinstance(value, datetime.date) else value


def filter_arguments(name: str, value: Any) -> Dict[str, List[Union[bool, int, float, str]]]:
    """The arguments of a filter: by name one value or several, of Python's own types.

    Raises InvalidTypeError, prefixed with ``name``.
    """
    if not isinstance(value, dict):
        raise InvalidTypeError(f"{name}: expected names and their values, found {value!r}")
    arguments = {}
    for argument, given in value.items():
        single = isinstance(given, (str, bytes)) or not np.iterable(given)
        values = [given] if single else given
        values = [time_text(one) for one in values]
        values = [one.item() if isinstance(one, np.generic) else one for one in values]
        for one in values:
            if not isinstance(one, (str, int, float)):
                raise InvalidTypeError(
                    f"{name}: {argument}: expected strings, numbers, bools or times, found {one!r}"
                )
        arguments[str(argument)] = values
    return arguments
