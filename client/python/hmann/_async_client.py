"""The asyncio client of a server."""

from __future__ import annotations

import asyncio
import time
from typing import (
    Any,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Dict,
    Iterable,
    List,
    Optional,
    Tuple,
    Union,
)

import grpc
import grpc.aio
from numpy.typing import ArrayLike, NDArray

from hmann import _get, _wire, _write, errors
from hmann._answer import Answer
from hmann._client import Attempts, ClientFace, RemoteIndexFace
from hmann._collection import Attributes
from hmann.v1 import search_pb2 as pb

_CALLS_AT_ONCE = 4  # requests of one split search


class AsyncClient(ClientFace):
    """``hmann.Client`` for asyncio, with awaitable methods. For use in one event loop."""

    _kind = grpc.aio

    async def _call(self, method: str, request: Any, timeout: Optional[float]) -> Any:
        attempts = Attempts(self._connection, method, timeout)
        while True:
            call = self._connection.method(method)
            left = attempts.left()
            try:
                return self._connection.succeeded(await call(request, timeout=left))
            except grpc.RpcError as failed:
                pause = attempts.pause(failed)
            await asyncio.sleep(pause)

    async def open(self, name: str, *, timeout: Optional[float] = None) -> "AsyncIndex":
        """Opens the index of that name. Errors: as for ``Client.open``."""
        request = _wire.to_describe(name)
        return AsyncIndex(self, await self._call("Describe", request, timeout))

    async def indexes(self, *, timeout: Optional[float] = None) -> List[Dict[str, Any]]:
        """Lists the indexes, like ``Client.indexes``."""
        return _wire.to_summaries(await self._call("List", pb.ListRequest(), timeout))

    async def close(self) -> None:
        """Closes the connection; running calls end with an error."""
        channel = self._connection.take_channel()
        if channel is not None:
            await channel.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


class AsyncIndex(RemoteIndexFace):
    """An index of a server; ``AsyncClient.open`` creates it."""

    def __init__(self, client: AsyncClient, described: Any) -> None:
        super().__init__(described)
        self._client = client

    async def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        *,
        details: bool = False,
        timeout: Optional[float] = None,
        **params: Any,
    ) -> Answer:
        """Like ``RemoteIndex.search``; up to four requests of a search run concurrently."""
        return await self._make(
            lambda: _wire.SearchCalls(self._described, queries, k, details, params), timeout
        )

    async def get(self, labels: ArrayLike, *, timeout: Optional[float] = None) -> NDArray[Any]:
        """Like ``RemoteIndex.get``; up to four requests run concurrently."""
        return await self._make(lambda: _get.GetCalls(self._described, labels), timeout)

    async def put(
        self,
        labels: ArrayLike,
        vectors: ArrayLike,
        attributes: Optional[Attributes] = None,
        *,
        timeout: Optional[float] = None,
    ) -> int:
        """Like ``RemoteIndex.put``."""
        return await self._write_all(
            _write.WriteCalls(self._described, "Put", labels, vectors, attributes), timeout
        )

    async def put_stream(
        self,
        batches: Union[Iterable[Tuple[Any, ...]], AsyncIterable[Tuple[Any, ...]]],
        *,
        timeout: float = 3600.0,
    ) -> int:
        """Like ``RemoteIndex.put_stream``; ``batches`` may also be an asynchronous iterable."""
        puts = _write.StreamedPuts(self._described)
        connection, end = self._client._connection, time.monotonic() + timeout
        source = _each(batches)
        coming: List[asyncio.Future[Any]] = []

        async def send(call: Any) -> None:
            try:
                for message in puts.again():
                    await call.write(message)
                while True:
                    if not coming:
                        coming.append(asyncio.ensure_future(source.__anext__()))
                    batch = await asyncio.shield(coming[0])  # a lost call does not lose it
                    coming.clear()
                    for message in puts.add(batch):
                        await call.write(message)
            except StopAsyncIteration:
                pass
            finally:
                if not call.done():
                    await call.done_writing()

        while True:
            call = connection.method("WriteStream")(timeout=end - time.monotonic())
            sending = asyncio.ensure_future(send(call))
            try:
                async for response in call:
                    puts.take(response)
                await sending
                return puts.rows
            except (grpc.RpcError, errors.UnavailableError) as failed:
                pause = puts.pause(connection, failed)
            finally:
                sending.cancel()
                call.cancel()
                await asyncio.gather(sending, return_exceptions=True)
            await asyncio.sleep(pause)

    async def update(
        self, labels: ArrayLike, attributes: Attributes, *, timeout: Optional[float] = None
    ) -> int:
        """Like ``RemoteIndex.update``."""
        return await self._write_all(
            _write.WriteCalls(self._described, "Update", labels, None, attributes), timeout
        )

    async def delete(
        self,
        labels: Optional[ArrayLike] = None,
        *,
        filter: Optional[str] = None,
        filter_arguments: Optional[Dict[str, Any]] = None,
        all: bool = False,
        timeout: Optional[float] = None,
    ) -> int:
        """Like ``RemoteIndex.delete``."""
        if labels is None:
            request = _write.to_delete(self._described, filter, filter_arguments, all)
            return (await self._client._call("Delete", request, timeout)).rows
        if filter is not None or all:
            raise errors.InvalidArgumentError("delete: expected labels, a filter or all, not both")
        return await self._write_all(_write.WriteCalls(self._described, "Delete", labels), timeout)

    async def compact(self, *, timeout: float = 3600.0) -> None:
        """Like ``RemoteIndex.compact``."""
        await self._client._call("Compact", _write.to_compact(self._described), timeout)

    async def _write_all(self, calls: _write.WriteCalls, timeout: Optional[float]) -> int:
        seconds = self._client._connection.timeout if timeout is None else timeout
        end = time.monotonic() + seconds
        for request in calls.requests():
            left = end - time.monotonic()
            calls.take(await self._client._call(calls.method, request, left))
        return calls.rows

    async def _make(self, new_calls: Callable[[], Any], timeout: Optional[float]) -> Any:
        seconds = self._client._connection.timeout if timeout is None else timeout
        end = time.monotonic() + seconds
        while True:
            calls = new_calls()
            await self._take(calls, end)
            if len(calls.generations) <= 1:
                return calls.answer()

    async def _take(self, calls: Any, end: float) -> None:
        requests = calls.requests()

        async def take_turns() -> None:
            for begin, request in requests:
                left = end - time.monotonic()
                calls.take(begin, await self._client._call(calls.method, request, left))

        tasks = [asyncio.ensure_future(take_turns()) for _ in range(_CALLS_AT_ONCE)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def search_stream(
        self,
        queries: Union[Iterable[ArrayLike], AsyncIterable[ArrayLike]],
        k: int = 10,
        *,
        in_flight: int = 32,
        return_exceptions: bool = False,
        details: bool = False,
        timeout: Optional[float] = None,
        **params: Any,
    ) -> AsyncIterator[Tuple[int, Any]]:
        """Like ``RemoteIndex.search_stream``, for ``async for``; ``queries`` may also be an
        asynchronous iterable."""
        calls = _wire.StreamCalls(self._described, k, details, in_flight, params)
        room = asyncio.Semaphore(in_flight)
        call = self._client._connection.method("SearchStream")(timeout=timeout)

        async def send() -> None:
            number = 0
            try:
                async for query in _each(queries):
                    request = calls.request(number, query)
                    await room.acquire()
                    await call.write(request)
                    number += 1
            finally:
                if not call.done():
                    await call.done_writing()

        sending = asyncio.ensure_future(send())
        try:
            async for response in call:
                room.release()
                result = calls.result(response)
                if isinstance(result, errors.Error) and not return_exceptions:
                    raise result
                yield response.id, result
            await sending
        except grpc.RpcError as failed:
            raise self._client._connection.error(failed) from None
        finally:
            sending.cancel()
            call.cancel()
            await asyncio.gather(sending, return_exceptions=True)


async def _each(
    queries: Union[Iterable[ArrayLike], AsyncIterable[ArrayLike]],
) -> AsyncIterator[ArrayLike]:
    if isinstance(queries, AsyncIterable):
        async for query in queries:
            yield query
    else:
        for query in queries:
            yield query
