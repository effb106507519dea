"""Converts changes of a collection to messages of proto/hmann/v1; no connection here."""

from __future__ import annotations

import time
import uuid
from typing import Any, Dict, Iterator, List, Optional, Tuple

import grpc
from numpy.typing import ArrayLike

from hmann import _collection, _get, _status, _wire, errors
from hmann.v1 import write_pb2 as pb

_PATIENCE = 30.0  # seconds for a server to come back
_PAUSE = 0.2  # seconds between two streams
_NAME_BYTES = 4  # of a string's length on the wire, at most


class WriteCalls:
    """Splits a write into calls within the server's limits. Each is a write of its own, and
    can be sent again: it has a name.
    """

    def __init__(
        self,
        described: Any,
        method: str,
        labels: ArrayLike,
        vectors: Optional[ArrayLike] = None,
        attributes: Optional[_collection.Attributes] = None,
    ) -> None:
        self.method = method
        self.rows = 0  # that were written
        self._index = described.index
        self._limits = described.limits
        self._labels, _ = _get.to_labels_or_names(labels)
        count = len(self._labels)
        self._vectors: Any = None
        if vectors is not None:
            self._vectors, _ = _wire.to_rows("vectors", vectors, described.info)
            _check_count("vectors", len(self._vectors), count)
        self._texts: Optional[List[str]] = None
        if attributes is not None:
            keeps = _collection.has_value if method == "Put" else lambda value: True
            texts = _collection.texts(attributes, keeps)
            self._texts = [texts] * count if isinstance(texts, str) else texts
            _check_count("attributes", len(self._texts), count)

    def requests(self) -> Iterator[Any]:
        """Yields the messages, to be sent one after the other."""
        kind = {"Put": pb.PutRequest, "Update": pb.UpdateRequest, "Delete": pb.DeleteRequest}
        begin, total = 0, len(self._labels)
        while begin < total:
            end = self._end(begin)
            labels = self._labels[begin:end]
            request = kind[self.method](index=self._index, operation=uuid.uuid4().bytes)
            _get.add_labels(request, labels)
            if self._vectors is not None:
                request.vectors.raw = self._vectors[begin:end].tobytes()
                request.vectors.count = end - begin
            if self._texts is not None:
                request.attributes.extend(self._texts[begin:end])
            yield request
            begin = end

    def _end(self, begin: int) -> int:
        """The end of the rows from ``begin`` on that one request holds."""
        left = self._limits.max_request_bytes - _wire.SPARE_BYTES
        end = begin
        while end < min(len(self._labels), begin + self._limits.max_batch):
            label = self._labels[end]
            left -= len(label.encode()) + _NAME_BYTES if isinstance(label, str) else 8
            left -= 0 if self._vectors is None else self._vectors[end].nbytes
            left -= 0 if self._texts is None else len(self._texts[end].encode()) + _NAME_BYTES
            if left < 0 and end > begin:
                break
            end += 1
        return end

    def take(self, response: Any) -> None:
        """Counts what a call did."""
        self.rows += response.rows


class StreamedPuts:
    """The messages of a WriteStream that puts batches, until each is answered, so that the
    rest can be sent again over another stream.
    """

    def __init__(self, described: Any) -> None:
        self.rows = 0  # that were written
        self._described = described
        self._count = 0
        self._sent: Dict[int, Any] = {}
        self._lost_at: Optional[float] = None  # since when no stream has had an answer

    def add(self, batch: Tuple[Any, ...]) -> List[Any]:
        """The messages for (labels, vectors) or (labels, vectors, attributes)."""
        new = []
        for put in WriteCalls(self._described, "Put", *batch).requests():
            new.append(pb.WriteStreamRequest(id=self._count, put=put))
            self._sent[self._count] = new[-1]
            self._count += 1
        return new

    def again(self) -> List[Any]:
        """The messages that have no answer yet."""
        return list(self._sent.values())

    def take(self, response: Any) -> None:
        """Counts what a write did. Raises its error."""
        if response.WhichOneof("result") != "written":
            raise _status.from_failure(response.failure)
        self.rows += response.written.rows
        self._sent.pop(response.id, None)
        self._lost_at = None

    def pause(self, connection: Any, failed: Any) -> float:
        """Seconds until the next stream. Raises the error of the last one if there is none.
        ``failed``: of a call, or of a message: the server is loading.
        """
        is_call = isinstance(failed, grpc.RpcError)
        error = connection.error(failed) if is_call else failed
        now = time.monotonic()
        self._lost_at = self._lost_at or now
        lost = isinstance(error, errors.UnavailableError)
        if not (lost and connection.retry) or now - self._lost_at > _PATIENCE:
            raise error from None
        return _PAUSE


def to_delete(
    described: Any, filter: Optional[str], arguments: Optional[Dict[str, Any]], all: bool
) -> Any:
    """The message that deletes what a filter holds for, or all."""
    request = pb.DeleteRequest(index=described.index, all=all)
    if filter is not None:
        if not isinstance(filter, str):
            raise errors.InvalidTypeError(f"filter: expected a text, found {filter!r:.60}")
        request.filter = filter
    _wire.set_arguments(request, "filter_arguments", arguments or {})
    return request


def to_compact(described: Any) -> Any:
    """The message that merges all."""
    return pb.CompactRequest(index=described.index)


def _check_count(name: str, found: int, expected: int) -> None:
    if found != expected:
        raise errors.InvalidArgumentError(
            f"{name}: expected {expected}, as there are labels, found {found}"
        )
