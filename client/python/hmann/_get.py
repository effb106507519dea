"""Converts retrieval by label to messages of proto/hmann/v1; no connection here."""

from __future__ import annotations

from typing import Any, Iterator, List, Set, Tuple, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hmann import _arrays, _wire, errors
from hmann.v1 import search_pb2 as pb


class GetCalls:
    """Splits the retrieval of vectors into calls within the server's limits."""

    method = "Get"

    def __init__(self, described: Any, labels: ArrayLike) -> None:
        info, limits = described.info, described.limits
        self._index = described.index
        self.generations: Set[int] = set()  # the files that answered
        convert = to_labels_or_names if described.HasField("collection") else to_labels
        self._labels, self._single = convert(labels)
        self._vectors = np.empty((len(self._labels), info.dim), _wire.dtype_of(described))
        row_bytes = max(1, self._vectors.itemsize * info.dim)
        self._step = max(1, min(limits.max_batch, limits.max_reply_bytes // row_bytes))

    def requests(self) -> Iterator[Tuple[int, Any]]:
        """Yields (number of the first label, message) for each call."""
        for begin in range(0, len(self._labels), self._step):
            labels = self._labels[begin : begin + self._step]
            request = pb.GetRequest(index=self._index)
            add_labels(request, labels)
            yield begin, request

    def take(self, begin: int, response: Any) -> None:
        """Stores the response to the request that starts at label ``begin``."""
        self.generations.add(response.generation)
        rows = np.frombuffer(response.vectors.raw, self._vectors.dtype)
        rows = rows.reshape(-1, self._vectors.shape[1])
        self._vectors[begin : begin + len(rows)] = rows

    def answer(self) -> NDArray[Any]:
        """The vectors of all responses."""
        return self._vectors[0] if self._single else self._vectors


def add_labels(request: Any, labels: Union[NDArray[np.int64], List[str]]) -> None:
    """Names the rows of a message."""
    if isinstance(labels, list):
        request.names.extend(labels)
    else:
        request.labels.extend(labels.tolist())


def to_labels_or_names(labels: ArrayLike) -> Tuple[Union[NDArray[np.int64], List[str]], bool]:
    """Labels of shape (n,), or a list of strings, and whether one was given."""
    given = _arrays.labels(labels)
    if isinstance(given, str):
        return [given], True
    return (given, False) if isinstance(given, list) else to_labels(given)


def to_labels(labels: ArrayLike) -> Tuple[NDArray[np.int64], bool]:
    """Labels of shape (n,), and whether one was given."""
    given = _arrays.array("labels", labels)
    if given.dtype.kind not in "iu" and given.size > 0:
        raise errors.InvalidTypeError(f"labels: expected whole numbers, found {str(given.dtype)!r}")
    if given.ndim > 1:
        raise errors.InvalidArgumentError(
            f"labels: expected one, or shape (n,), found {given.shape}"
        )
    whole = np.atleast_1d(given).astype(np.int64)
    if (whole < 0).any():
        place = int(np.argmax(whole < 0))
        raise errors.InvalidArgumentError(
            f"labels: expected 0 to 2^63 - 1, found {given.flat[place]} at {place}"
        )
    return whole, given.ndim == 0
