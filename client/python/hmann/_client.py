"""The blocking client of a server."""

from __future__ import annotations

import functools
import os
import threading
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import grpc
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hmann import _get, _status, _wire, _write, errors
from hmann._answer import Answer
from hmann._collection import Attributes
from hmann._credentials import Credentials, Path
from hmann.v1 import search_pb2 as pb
from hmann.v1 import search_pb2_grpc, write_pb2_grpc

DEFAULT_TIMEOUT = 10.0
_MOST_TOKENS = 10.0


class Connection:
    """The shared state of both clients: an address, a channel, and when it is usable.

    ``kind`` makes the channel: grpc or grpc.aio.
    """

    def __init__(
        self, kind: Any, address: str, timeout: float, retry: bool, credentials: Tuple[Any, ...]
    ) -> None:
        self.address = _wire.check_address(address)
        self.timeout = timeout
        self.retry = retry
        self.answered = False  # whether a call has succeeded
        self._tokens = _MOST_TOKENS
        self._pid = os.getpid()
        self._credentials = Credentials(self.address, *credentials)
        channel, options = self._credentials.channel, _wire.channel_options(retry)
        self._channel = (
            kind.insecure_channel(self.address, options=options)
            if channel is None
            else kind.secure_channel(self.address, channel, options=options)
        )
        self._stubs: Optional[Tuple[Any, ...]] = (
            search_pb2_grpc.SearchStub(self._channel),
            write_pb2_grpc.WriteStub(self._channel),
        )

    def method(self, name: str) -> Any:
        """A method of the server, called with this client's token.

        Raises FailedPreconditionError for a closed client and after a fork.
        """
        stubs = self._stubs  # another thread may close the client
        if stubs is None:
            raise errors.FailedPreconditionError("the client is closed")
        if self._pid != os.getpid():
            raise errors.FailedPreconditionError(
                "the client was made before this process was forked: make one in the child"
            )
        call = next(getattr(stub, name) for stub in stubs if hasattr(stub, name))
        return functools.partial(call, metadata=self._credentials.metadata)

    def succeeded(self, response: Any) -> Any:
        """Returns the response of a call."""
        self.answered = True
        self._tokens = min(_MOST_TOKENS, self._tokens + 0.1)
        return response

    def may_retry(self, error: errors.Error) -> bool:
        """False if recent calls found no server too often: the rule of RETRY_POLICY."""
        if not isinstance(error, errors.UnavailableError):
            return True
        self._tokens = max(0.0, self._tokens - 1)
        return self._tokens > _MOST_TOKENS / 2

    def error(self, failed: grpc.RpcError) -> errors.Error:
        """The exception for a failed call."""
        return _status.to_error(failed, self.address, self._credentials.why_closed)

    def take_channel(self) -> Any:
        """Returns the channel for closing; None if it is closed already."""
        channel, self._stubs, self._channel = self._channel, None, None
        return channel if self._pid == os.getpid() else None


class Attempts:
    """The attempts of one call of either client, within its time."""

    def __init__(
        self, connection: Connection, method: str, timeout: Optional[float], retry: bool = True
    ) -> None:
        self._connection = connection
        self._method = method
        self._retry = retry and connection.retry
        self._end = time.monotonic() + (connection.timeout if timeout is None else timeout)
        self._count = 0
        self._last: Optional[errors.Error] = None

    def left(self) -> float:
        """Seconds left. Raises DeadlineExceededError if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._late()
        return left

    def pause(self, failed: grpc.RpcError) -> float:
        """Seconds until the next attempt. Raises the error of the call if there is none."""
        error = self._connection.error(failed)
        if str(error) == _status.TIME_IS_OVER:
            raise self._late() from None
        self._count += 1
        pause = None
        if self._retry and self._connection.may_retry(error):
            left = self._end - time.monotonic()
            pause = _status.pause_before_retry(error, self._count, left)
        if pause is None:
            raise error from None
        self._last = error
        return pause

    def _late(self) -> errors.Error:
        text = f"{self._method}: {_status.TIME_IS_OVER}"
        if self._last is not None:
            text += f"; the last attempt: {self._last}"
        elif not self._connection.answered:
            address = self._connection.address
            text += f"; no call to {address} has succeeded so far (does a server answer there?)"
        return errors.DeadlineExceededError(text)


class ClientFace:
    """What both clients share; the arguments are those of ``Client``."""

    _kind: Any = grpc

    def __init__(
        self,
        address: str,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        retry: bool = True,
        tls: bool = False,
        ca: Optional[Path] = None,
        cert: Optional[Path] = None,
        key: Optional[Path] = None,
        token: Optional[str] = None,
    ) -> None:
        self._connection = Connection(
            self._kind, address, timeout, retry, (tls, ca, cert, key, token)
        )

    def __repr__(self) -> str:
        return f"<hmann.{type(self).__name__} {self._connection.address}>"


class Client(ClientFace):
    """A connection to a server: ``hmann serve``.

    All threads of a process may use it at once. A call is retried within its timeout if
    there is no server, or if the server states when to retry: searches change nothing, and
    a write that is sent again happens once.

    Args:
        address: HOST:PORT, or unix:PATH.
        timeout: seconds that a call may take, unless the call has its own timeout.
        retry: False: no retries, except those of gRPC for calls that no server has seen.
        tls: encrypt, and trust the authorities of this system, or those in the file that
            the environment variable GRPC_DEFAULT_SSL_ROOTS_FILE_PATH names.
        ca: encrypt, and trust the authorities in this file (PEM).
        cert: file with the certificate of this client (PEM); encrypts.
        key: file with the key of ``cert`` (PEM, without a password).
        token: sent with each call; unencrypted only within this machine.

    Raises:
        InvalidArgumentError: an address of another form, ``cert`` without ``key``, a file
            that is not PEM, a key of another certificate, an invalid token, or one that
            would leave this machine unencrypted.
        NotFoundError, PermissionDeniedError: a file cannot be read.

    A missing server shows only at the first call.
    """

    def _call(self, method: str, request: Any, timeout: Optional[float], retry: bool = True) -> Any:
        attempts = Attempts(self._connection, method, timeout, retry)
        while True:
            call = self._connection.method(method)
            left = attempts.left()
            try:
                return self._connection.succeeded(call(request, timeout=left))
            except grpc.RpcError as failed:
                pause = attempts.pause(failed)
            except ValueError as failed:
                # The channel was closed by another thread.
                raise errors.FailedPreconditionError(f"the client is closed: {failed}") from None
            time.sleep(pause)

    def open(self, name: str, *, timeout: Optional[float] = None) -> "RemoteIndex":
        """Opens the index of that name.

        Raises:
            NotFoundError: the server has no index of that name.
            UnavailableError: there is no server, or the index is loading (see
                ``wait_ready``).
            FailedPreconditionError: the index could not be loaded.
        """
        return RemoteIndex(self, self._call("Describe", _wire.to_describe(name), timeout))

    def indexes(self, *, timeout: Optional[float] = None) -> List[Dict[str, Any]]:
        """Lists the indexes of the server.

        Returns:
            name, state ('serving', 'loading', 'failed'), reason, n, dim, dtype and metric
            of each.
        """
        return _wire.to_summaries(self._call("List", pb.ListRequest(), timeout))

    def wait_ready(self, name: str, timeout: float = 60.0) -> "RemoteIndex":
        """Waits until the index serves, even for a server that is not up yet; opens it.

        Raises:
            DeadlineExceededError: with what the last attempt met.
            UnavailableError: the certificate of the server was refused, or it does not use
                TLS (at once).
            NotFoundError, FailedPreconditionError: as for ``open`` (at once).
        """
        end = time.monotonic() + timeout
        pause = 0.005
        while True:
            left = max(end - time.monotonic(), 1e-3)
            request = _wire.to_describe(name)
            try:
                return RemoteIndex(self, self._call("Describe", request, left, retry=False))
            except (errors.UnavailableError, errors.DeadlineExceededError) as error:
                if error.reason == _status.TLS_REFUSED:
                    raise
                if time.monotonic() + pause >= end:
                    raise errors.DeadlineExceededError(
                        f"index '{name}' is not ready: {error}"
                    ) from None
            time.sleep(pause)
            pause = min(2 * pause, 0.2)

    def close(self) -> None:
        """Closes the connection; running calls end with an error."""
        channel = self._connection.take_channel()
        if channel is not None:
            channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class RemoteIndexFace:
    """The description of an index by its server, as of its opening here."""

    def __init__(self, described: Any) -> None:
        self._described = described

    def info(self) -> Dict[str, Any]:
        """Metadata of the index, as ``hmann.info`` returns it, without ``calibration``."""
        return _wire.to_info(self._described)

    def placements(self) -> List[Dict[str, Any]]:
        """The tier of each structure, as of the opening of the index here.

        ``where`` is empty: files and devices of a server concern only its operators
        (``hmann info --live --server``).
        """
        return _wire.to_placements(self._described)

    @property
    def limits(self) -> Dict[str, int]:
        """Limits of one request. Larger searches are split into several requests."""
        limits = self._described.limits
        return {field.name: getattr(limits, field.name) for field in limits.DESCRIPTOR.fields}

    @property
    def name(self) -> str:
        """The name of the index on the server."""
        return self._described.index

    @property
    def dim(self) -> int:
        """Number of components of a vector."""
        return self._described.info.dim

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The type of vectors and queries: float32, uint8, int8 or float16.

        An index of float16 takes queries of float32 or float16.
        """
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
    """An index of a server; ``Client.open`` creates it. Searches like ``hmann.Index``."""

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
        **params: Any,
    ) -> Answer:
        """Finds the k nearest vectors of each query, like ``hmann.Index.search``.

        Args:
            queries: array of shape (dim,) or (n, dim). Queries beyond the limits of one
                request are sent in several requests, one after the other.
            k: number of neighbors.
            details: return what ran (``Answer.details``).
            timeout: seconds for the whole search; None: the timeout of the client.
            params: ``recall``, ``latency``, ``budget``, ``mode``, ``ef_l1``, ... as for
                ``hmann.Index.search``.

        Raises:
            InvalidArgumentError: as for ``hmann.Index.search``; errors of the server name
                the field.
            ResourceExhaustedError: the server is overloaded, or the request is too large;
                see ``reason``.
            UnavailableError: there is no server, or it is shutting down.
            DeadlineExceededError: the timeout passed.
        """
        return self._make(
            lambda: _wire.SearchCalls(self._described, queries, k, details, params), timeout
        )

    def _make(self, new_calls: Callable[[], Any], timeout: Optional[float]) -> Any:
        """Makes calls, anew if the server swaps the file of the index between two of them."""
        seconds = self._client._connection.timeout if timeout is None else timeout
        end = time.monotonic() + seconds
        while True:
            calls = new_calls()
            for begin, request in calls.requests():
                left = end - time.monotonic()
                calls.take(begin, self._client._call(calls.method, request, left))
            if len(calls.generations) <= 1:
                return calls.answer()

    def get(self, labels: ArrayLike, *, timeout: Optional[float] = None) -> NDArray[Any]:
        """Returns the vectors with these labels, like ``hmann.Index.get``.

        Args:
            labels: one label, or several of shape (n,). Labels beyond the limits of one
                request are sent in several requests, one after the other.
            timeout: seconds for the whole call; None: the timeout of the client.

        Raises:
            NotFoundError: a label that no vector has; the message names it.
            InvalidArgumentError, FailedPreconditionError: as for ``hmann.Index.get``.
            ResourceExhaustedError, UnavailableError, DeadlineExceededError: as for
                ``search``.
        """
        return self._make(lambda: _get.GetCalls(self._described, labels), timeout)

    def put(
        self,
        labels: ArrayLike,
        vectors: ArrayLike,
        attributes: Optional[Attributes] = None,
        *,
        timeout: Optional[float] = None,
    ) -> int:
        """Inserts vectors, like ``hmann.Collection.put``, where the name serves a collection.

        Rows beyond the limits of one request are sent in several requests, each of which is
        one write, one after the other.

        Returns:
            The number of different vectors put.

        Raises:
            PermissionDeniedError: the token has no role write for this name.
            FailedPreconditionError: the name serves an index, which does not change.
            ResourceExhaustedError: memory for new vectors, or the disk, is used up; the
                client has tried again until its timeout.
            As for ``hmann.Collection.put`` and ``search``.
        """
        return self._write_all(
            _write.WriteCalls(self._described, "Put", labels, vectors, attributes), timeout
        )

    def put_stream(
        self, batches: Iterable[Tuple[Any, ...]], *, timeout: float = 3600.0
    ) -> int:
        """Inserts vectors that come in batches, over a single call.

        The next batches are prepared and sent while the server writes. It holds this
        client back while it has no room for more. If the connection is lost, batches
        without an answer are sent again for up to 30 seconds; each is written once.

        Args:
            batches: (labels, vectors) or (labels, vectors, attributes) as for ``put``, each
                of which is one write, or several if it is too large. Another thread
                iterates over it.
            timeout: seconds for all.

        Returns:
            The number of vectors put, summed over the writes.

        Raises:
            As for ``put``; a few batches after the one that failed may be in. An exception
            raised by ``batches`` follows the writes before it.
        """
        puts = _write.StreamedPuts(self._described)
        connection, end = self._client._connection, time.monotonic() + timeout
        source, lock = iter(batches), threading.Lock()
        raised: List[BaseException] = []

        def messages(over: threading.Event) -> Iterator[Any]:
            with lock:  # another thread may still take from `source` for the last call
                sent = puts.again()
            yield from sent
            while True:
                with lock:
                    if over.is_set():
                        return
                    try:
                        sent = puts.add(next(source))
                    except StopIteration:
                        return
                    except Exception as error:
                        raised.append(error)
                        return
                yield from sent

        while True:
            over = threading.Event()
            left = end - time.monotonic()
            call = connection.method("WriteStream")(messages(over), timeout=left)
            try:
                for response in call:
                    puts.take(response)
                if raised:
                    raise raised[0]
                return puts.rows
            except (grpc.RpcError, errors.UnavailableError) as failed:
                pause = puts.pause(connection, failed)
            finally:
                over.set()
                call.cancel()
            time.sleep(pause)

    def update(
        self, labels: ArrayLike, attributes: Attributes, *, timeout: Optional[float] = None
    ) -> int:
        """Replaces attributes, like ``hmann.Collection.update``. Raises: as for ``put``."""
        return self._write_all(
            _write.WriteCalls(self._described, "Update", labels, None, attributes), timeout
        )

    def delete(
        self,
        labels: Optional[ArrayLike] = None,
        *,
        filter: Optional[str] = None,
        filter_arguments: Optional[Dict[str, Any]] = None,
        all: bool = False,
        timeout: Optional[float] = None,
    ) -> int:
        """Deletes vectors, like ``hmann.Collection.delete``. Raises: as for ``put``."""
        if labels is None:
            request = _write.to_delete(self._described, filter, filter_arguments, all)
            return self._client._call("Delete", request, timeout).rows
        if filter is not None or all:
            raise errors.InvalidArgumentError("delete: expected labels, a filter or all, not both")
        return self._write_all(_write.WriteCalls(self._described, "Delete", labels), timeout)

    def compact(self, *, timeout: float = 3600.0) -> None:
        """Merges all that was written into a new index, like ``hmann.Collection.compact``.

        If the timeout passes, the next merge continues. Raises: as for ``put``.
        """
        self._client._call("Compact", _write.to_compact(self._described), timeout)

    def _write_all(self, calls: _write.WriteCalls, timeout: Optional[float]) -> int:
        seconds = self._client._connection.timeout if timeout is None else timeout
        end = time.monotonic() + seconds
        for request in calls.requests():
            left = end - time.monotonic()
            calls.take(self._client._call(calls.method, request, left))
        return calls.rows

    def search_stream(
        self,
        queries: Iterable[ArrayLike],
        k: int = 10,
        *,
        in_flight: int = 32,
        return_exceptions: bool = False,
        details: bool = False,
        timeout: Optional[float] = None,
        **params: Any,
    ) -> Iterator[Tuple[int, Any]]:
        """Answers queries as they arrive, over a single call.

        Use it for loops that would otherwise make one call per query, and for unbounded
        streams of queries.

        Args:
            queries: queries of shape (dim,): rows of an array, or any iterable of them.
                Another thread iterates over it.
            k: number of neighbors.
            in_flight: maximum number of queries sent and not yet answered.
            return_exceptions: yield the exception of a failed query and continue;
                otherwise the first exception is raised.
            details: return what ran (``Answer.details``).
            timeout: seconds for the whole stream; None: no limit.
            params: as for ``search``.

        Yields:
            (number of the query, Answer) in order of completion, not of the queries.

        Raises:
            Error: as for ``search``. An exception raised by ``queries`` follows the answers
                to the queries before it.
        """
        calls = _wire.StreamCalls(self._described, k, details, in_flight, params)
        method = self._client._connection.method("SearchStream")
        return self._stream(method, calls, queries, in_flight, return_exceptions, timeout)

    def _stream(
        self,
        method: Any,
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
            call = method(requests(), timeout=timeout)
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
            raise self._client._connection.error(failed) from None
        finally:
            over.set()
            room.release()
            call.cancel()
        if raised:
            raise raised[0]
