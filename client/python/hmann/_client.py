"""The client of a server, for programs that wait for each call."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import grpc
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hmann import _get, _status, _wire, errors
from hmann._answer import Answer
from hmann.v1 import search_pb2 as pb
from hmann.v1 import search_pb2_grpc

DEFAULT_TIMEOUT = 10.0


class Connection:
    """What both clients have: an address, a channel, and when it may be used."""

    def __init__(self, address: str, timeout: float, make: Callable[[str], Any]) -> None:
        self.address = _wire.check_address(address)
        self.timeout = timeout
        self._pid = os.getpid()
        self._channel = make(self.address)
        self._stub: Optional[Any] = search_pb2_grpc.SearchStub(self._channel)

    def stub(self) -> Any:
        """Raises FailedPreconditionError for a closed client, and after a fork."""
        if self._stub is None:
            raise errors.FailedPreconditionError("the client is closed")
        if self._pid != os.getpid():
            raise errors.FailedPreconditionError(
                "the client was made before this process was forked: make one in the child"
            )
        return self._stub

    def take_channel(self) -> Any:
        """The channel, to be closed; None where that was done."""
        channel, self._stub, self._channel = self._channel, None, None
        return channel if self._pid == os.getpid() else None


class Client:
    """A connection to a server: ``hmann serve``.

    All threads of a process may use it at once. A call that finds no server, or one that
    says when to come back, is made again within its timeout: searches change nothing.

    Args:
        address: HOST:PORT, or unix:PATH.
        timeout: seconds that a call may take, unless it says otherwise.
        retry: False: no call is made again, but by gRPC what no server has seen.

    Raises:
        InvalidArgumentError: an address of another form. That no server is there, the
            first call says.
    """

    def __init__(
        self, address: str, *, timeout: float = DEFAULT_TIMEOUT, retry: bool = True
    ) -> None:
        self._retry = retry
        self._connection = Connection(
            address,
            timeout,
            lambda to: grpc.insecure_channel(to, options=_wire.channel_options(retry)),
        )

    def _call(self, method: str, request: Any, timeout: Optional[float], **how: Any) -> Any:
        end = time.monotonic() + (self._connection.timeout if timeout is None else timeout)
        attempt = 1
        while True:
            left = end - time.monotonic()
            call = getattr(self._connection.stub(), method)
            if left <= 0:
                raise errors.DeadlineExceededError(f"{method}: the time given is over")
            try:
                return call(request, timeout=left, **how)
            except grpc.RpcError as failed:
                error = _status.to_error(failed)
            except ValueError as failed:
                # What a channel that another thread has closed says.
                raise errors.FailedPreconditionError(f"the client is closed: {failed}") from None
            pause = _status.pause_before_retry(error, attempt, end - time.monotonic())
            if pause is None or not self._retry:
                raise error from None
            time.sleep(pause)
            attempt += 1

    def open(self, name: str, *, timeout: Optional[float] = None) -> "RemoteIndex":
        """The index of that name.

        Raises:
            NotFoundError: the server has none of that name.
            UnavailableError: no server, or the index is loading (see ``wait_ready``).
            FailedPreconditionError: the index could not be loaded.
        """
        return RemoteIndex(self, self._call("Describe", pb.DescribeRequest(index=name), timeout))

    def indexes(self, *, timeout: Optional[float] = None) -> List[Dict[str, Any]]:
        """name, state ('serving', 'loading', 'failed'), reason, n, dim, dtype, metric of each."""
        return _wire.to_summaries(self._call("List", pb.ListRequest(), timeout))

    def wait_ready(self, name: str, timeout: float = 60.0) -> "RemoteIndex":
        """Waits until the index serves, for a server that is not there yet too; opens it."""
        end = time.monotonic() + timeout
        pause = 0.005
        while True:
            left = max(end - time.monotonic(), 1e-3)
            request = pb.DescribeRequest(index=name)
            try:
                return RemoteIndex(
                    self, self._call("Describe", request, left, wait_for_ready=True)
                )
            except errors.UnavailableError as error:
                if time.monotonic() + pause >= end:
                    raise errors.DeadlineExceededError(
                        f"index '{name}' is not ready: {error}"
                    ) from None
            time.sleep(pause)
            pause = min(2 * pause, 0.2)

    def close(self) -> None:
        """Ends the connection; calls that run end with an error."""
        channel = self._connection.take_channel()
        if channel is not None:
            channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<hmann.Client {self._connection.address}>"


class RemoteIndexFace:
    """What a server says of an index, when it was opened."""

    def __init__(self, described: Any) -> None:
        self._described = described

    def info(self) -> Dict[str, Any]:
        """What ``hmann.info`` says of its file, but for ``calibration``."""
        return _wire.to_info(self._described)

    def placements(self) -> List[Dict[str, Any]]:
        """In which tier each structure lay when the index was opened here.

        ``where`` is empty: files and devices of a server are for those who run it
        (``hmann info --live --server``).
        """
        return _wire.to_placements(self._described)

    @property
    def limits(self) -> Dict[str, int]:
        """What one request may ask for. A search of more queries is made in several."""
        limits = self._described.limits
        return {field.name: getattr(limits, field.name) for field in limits.DESCRIPTOR.fields}

    @property
    def name(self) -> str:
        """That the server has it under."""
        return self._described.index

    @property
    def dim(self) -> int:
        """Components of a vector."""
        return self._described.info.dim

    @property
    def dtype(self) -> "np.dtype[Any]":
        """Of the vectors, and of queries: float32, uint8, int8; or float16, with queries of
        float32 or float16."""
        return _wire.dtype_of(self._described)

    @property
    def metric(self) -> str:
        """'l2', 'ip' or 'cosine'."""
        return _wire.metric_of(self._described)

    def __len__(self) -> int:
        return self._described.info.n

    def __repr__(self) -> str:
        return (
            f"<hmann.{type(self).__name__} {self.name!r}: {len(self)} vectors of {self.dim} x "
            f"{self.dtype}, {self.metric}>"
        )


class RemoteIndex(RemoteIndexFace):
    """An index of a server; ``Client.open`` makes it. It searches as ``hmann.Index`` does."""

    def __init__(self, client: Client, described: Any) -> None:
        super().__init__(described)
        self._client = client

    def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        *,
        details: bool = False,
        timeout: Optional[float] = None,
        **dials: Any,
    ) -> Answer:
        """Finds the k nearest vectors of each query: ``hmann.Index.search``, with its dials.

        Args:
            queries: of shape (dim,) or (n, dim); more than a request may hold are sent in
                several, one after the other.
            k: neighbours.
            details: tell what ran (``Answer.details``).
            timeout: seconds for all of it; None: the client's.
            dials: ``recall``, ``latency``, ``budget``, ``walk``, ``ef_l1``, ... as there.

        Raises:
            InvalidArgumentError: as there; what the server refuses names the field.
            ResourceExhaustedError: the server has too much to do, or the request is too
                large; ``reason`` says which.
            UnavailableError: no server, or one that stops.
            DeadlineExceededError: the timeout.
        """
        calls = _wire.SearchCalls(self._described, queries, k, details, dials)
        method = "Search" if calls.single else "SearchBatch"
        seconds = self._client._connection.timeout if timeout is None else timeout
        end = time.monotonic() + seconds
        for begin, request in calls.requests():
            response = self._client._call(method, request, end - time.monotonic())
            calls.take(begin, response)
        return calls.answer()

    def get(self, labels: ArrayLike, *, timeout: Optional[float] = None) -> NDArray[Any]:
        """The vectors that have these labels: ``hmann.Index.get``.

        Args:
            labels: one, or several of shape (n,); more than a request may hold are asked
                for in several, one after the other.
            timeout: seconds for all of it; None: the client's.

        Raises:
            NotFoundError: a label that no vector has; the message names it.
            InvalidArgumentError, FailedPreconditionError: as there.
            ResourceExhaustedError, UnavailableError, DeadlineExceededError: as ``search``.
        """
        calls = _get.GetCalls(self._described, labels)
        seconds = self._client._connection.timeout if timeout is None else timeout
        end = time.monotonic() + seconds
        for begin, request in calls.requests():
            calls.take(begin, self._client._call("Get", request, end - time.monotonic()))
        return calls.answer()

    def search_stream(
        self,
        queries: Iterable[ArrayLike],
        k: int = 10,
        *,
        in_flight: int = 32,
        return_exceptions: bool = False,
        details: bool = False,
        timeout: Optional[float] = None,
        **dials: Any,
    ) -> Iterator[Tuple[int, Any]]:
        """Searches for each query as it comes, over one call; for loops that would make a
        call for each, and for queries that have no end.

        Args:
            queries: of shape (dim,) each: rows of an array, or whatever yields them. It is
                asked for them by another thread.
            k: neighbours.
            in_flight: queries that are sent and not yet answered, at most.
            return_exceptions: yield the exception of a query that fails, and go on; else
                the first is raised.
            details: tell what ran (``Answer.details``).
            timeout: seconds for the whole stream; None: as long as it takes.
            dials: as ``search``.

        Yields:
            (number of the query, Answer), as they are done, which is not in their order.

        Raises:
            Error: as ``search``, and whatever ``queries`` raises, when the queries before
                are answered.
        """
        calls = _wire.StreamCalls(self._described, k, details, in_flight, dials)
        stub = self._client._connection.stub()
        return self._stream(stub, calls, queries, in_flight, return_exceptions, timeout)

    @staticmethod
    def _stream(
        stub: Any,
        calls: _wire.StreamCalls,
        queries: Iterable[ArrayLike],
        in_flight: int,
        return_exceptions: bool,
        timeout: Optional[float],
    ) -> Iterator[Tuple[int, Any]]:
        room = threading.Semaphore(in_flight)
        over = threading.Event()
        raised: List[BaseException] = []

        def requests() -> Iterator[Any]:
            try:
                for number, query in enumerate(queries):
                    request = calls.request(number, query)
                    room.acquire()
                    if over.is_set():
                        return
                    yield request
            except Exception as error:
                raised.append(error)

        try:
            call = stub.SearchStream(requests(), timeout=timeout)
        except ValueError as failed:
            raise errors.FailedPreconditionError(f"the client is closed: {failed}") from None
        try:
            for response in call:
                room.release()
                result = calls.result(response)
                if isinstance(result, errors.Error) and not return_exceptions:
                    raise result
                yield response.id, result
        except grpc.RpcError as failed:
            raise _status.to_error(failed) from None
        finally:
            over.set()
            room.release()
            call.cancel()
        if raised:
            raise raised[0]
