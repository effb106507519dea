"""Converts Python values to messages of proto/hmann/v1 and back; no connection here."""

from __future__ import annotations

import datetime
import re
from typing import Any, Dict, Iterable, Iterator, List, Optional, Set, Tuple, Union

import numpy as np
from numpy.typing import ArrayLike

from hmann import _arrays, _status, errors
from hmann._answer import Answer
from hmann.v1 import search_pb2 as pb

#: For streams; the clients themselves repeat other calls. RESOURCE_EXHAUSTED is
#: deliberately absent: a full queue states when to retry.
RETRY_POLICY = (
    '{"methodConfig":[{"name":[{"service":"hmann.v1.Search","method":"SearchStream"}],'
    '"retryPolicy":{'
    '"maxAttempts":4,"initialBackoff":"0.02s","maxBackoff":"0.5s","backoffMultiplier":2,'
    '"retryableStatusCodes":["UNAVAILABLE"]}}],'
    '"retryThrottling":{"maxTokens":10,"tokenRatio":0.1}}'
)
_ID_BYTES = 12  # per neighbor on the wire
SPARE_BYTES = 1 << 16  # of a request, in addition to its vectors
_DTYPES = {
    pb.DTYPE_F32: "float32",
    pb.DTYPE_U8: "uint8",
    pb.DTYPE_I8: "int8",
    pb.DTYPE_F16: "float16",
}
_METRICS = {pb.METRIC_L2: "l2", pb.METRIC_INNER_PRODUCT: "ip", pb.METRIC_COSINE: "cosine"}
_NOT_SAID = {"k", "counters"}  # fields that no keyword sets
# A bool is an int, too.
_ARGUMENTS = {
    bool: lambda values: values.flags,
    str: lambda values: values.texts,
    int: lambda values: values.integers,
    float: lambda values: values.numbers,
}
_TIMES = {"latency": "latency_us", "budget": "budget_us"}

Time = Union[float, str, datetime.timedelta]


def channel_options(retry: bool) -> List[Tuple[str, Any]]:
    """The options of a channel to a server."""
    options: List[Tuple[str, Any]] = [
        ("grpc.max_receive_message_length", -1),  # the request bounds its reply
        ("grpc.enable_http_proxy", 0),
    ]
    if retry:
        options.append(("grpc.service_config", RETRY_POLICY))
    return options


def check_address(address: str) -> str:
    """Accepts HOST:PORT or unix:PATH; anything else is an InvalidArgumentError."""
    host, colon, port = str(address).rpartition(":")
    if not (colon and host and port) or host.startswith(("http://", "https://")):
        raise errors.InvalidArgumentError(
            f"server: expected HOST:PORT or unix:PATH, found '{address}'"
        )
    try:
        str(address).encode()
    except UnicodeEncodeError:
        raise errors.InvalidArgumentError(f"server: expected UTF-8, found {address!r}") from None
    return str(address)


# ---- Requests.


def to_describe(name: str) -> Any:
    """Creates the message that asks for an index."""
    try:
        return pb.DescribeRequest(index=name)
    except (TypeError, ValueError):
        raise errors.InvalidTypeError(f"index: expected UTF-8, found {name!r:.60}") from None


def _microseconds(name: str, value: Any) -> int:
    if isinstance(value, datetime.timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        parsed = re.fullmatch(r"([0-9]+)(ns|us|ms|s)", value)
        if parsed is None:
            raise errors.InvalidArgumentError(
                f"{name}: expected a duration as 800us, found {value!r}"
            )
        unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[parsed.group(2)]
        seconds = int(parsed.group(1)) * unit
    else:
        seconds = value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float, np.number)):
        raise errors.InvalidTypeError(f"{name}: expected seconds, found {value!r}")
    if not 0 < seconds < 1e6:
        raise errors.InvalidArgumentError(f"{name}: expected seconds above 0, found {value!r}")
    return max(1, round(float(seconds) * 1e6))


def _set(message: Any, field: Any, name: str, value: Any) -> None:
    if field.enum_type is not None:
        words = {
            number.name[len(name) + 1 :].lower().replace("_", "-"): number.number
            for number in field.enum_type.values
            if number.number > 0
        }
        if value not in words:
            raise errors.InvalidArgumentError(
                f"{name}: expected one of {', '.join(words)}, found {value!r}"
            )
        value = words[value]
    elif field.cpp_type not in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE) and isinstance(
        value, (float, np.floating)
    ):
        if value != int(value):
            raise errors.InvalidArgumentError(f"{name}: expected a whole number, found {value!r}")
        value = int(value)
    try:
        setattr(message, field.name, value.item() if isinstance(value, np.generic) else value)
    except TypeError:
        raise errors.InvalidTypeError(f"{name}: expected a number, found {value!r}") from None
    except ValueError as error:
        raise errors.InvalidArgumentError(f"{name}: {error}") from None


def set_arguments(message: Any, name: str, value: Any) -> None:
    """Sets the values that a filter names."""
    for argument, given in _arrays.filter_arguments(name, value).items():
        values = message.filter_arguments[argument]
        for one in given:
            field = next(field for kind, field in _ARGUMENTS.items() if isinstance(one, kind))
            try:
                field(values).append(one)
            except ValueError as error:
                raise errors.InvalidArgumentError(f"{name}: {argument}: {error}") from None


def to_options(k: Any, details: bool, params: Dict[str, Any]) -> Any:
    """Creates the SearchParams message; the server validates the values."""
    message = pb.SearchParams(counters=details)
    fields = pb.SearchParams.DESCRIPTOR.fields_by_name
    _set(message, fields["k"], "k", k)
    for name, value in params.items():
        if value is None:
            continue
        if name in _TIMES:
            value = _microseconds(name, value)
        field = fields.get(_TIMES.get(name, name))
        if field is None or name in _NOT_SAID or name in _TIMES.values():
            known = [n for n in fields if n not in _NOT_SAID and n not in _TIMES.values()]
            raise errors.no_such_option(name, [*known, *_TIMES])
        if name == "filter_arguments":
            set_arguments(message, name, value)
        else:
            _set(message, field, name, value)
    return message


class _Gathered:
    """An answer assembled from several responses."""

    def __init__(self, queries: int, k: int, details: bool, metric: str) -> None:
        self._metric = metric
        self._labels = np.full((queries, k), -1, np.int64)
        self._distances = np.full((queries, k), np.inf, np.float32)
        self._with_details = details
        self._details: Dict[str, Any] = {"counters": {}, "cut_short": 0, "predicted": None}
        self.generations: Set[int] = set()  # the files that answered
        self._named: Dict[int, str] = {}

    def take(self, begin: int, counts: Iterable[int], response: Any) -> None:
        """Stores the response from query ``begin`` on, with ``counts`` neighbors each."""
        self.generations.add(response.generation)
        ids = np.fromiter(response.ids, np.uint64, len(response.ids)).view(np.int64)
        self._named.update(
            (label, name) for label, name in zip(ids.tolist(), response.names) if name
        )
        if not response.names and (ids < 0).any():
            label = max(response.ids)
            raise errors.OutOfRangeError(f"label {label} found, at most 2^63 - 1 expected")
        distances = np.fromiter(response.distances, np.float32, len(response.distances))
        place = 0
        for i, count in enumerate(counts, begin):
            self._labels[i, :count] = ids[place : place + count]
            self._distances[i, :count] = distances[place : place + count]
            place += count
        if self._with_details:
            self._tell(response)

    def _tell(self, response: Any) -> None:
        details = self._details
        details["params"] = _params(response.params)
        details["generation"] = response.generation
        if response.sequence:
            details["sequence"] = response.sequence
        details["cut_short"] += int(response.cut_short)
        if response.HasField("matches"):
            details["matches"] = response.matches
        if response.HasField("predicted"):
            predicted = response.predicted
            mean_us = predicted.mean_us if predicted.HasField("mean_us") else None
            details["predicted"] = {
                "recall": predicted.recall,
                "mean_us": mean_us,
                "predicted_for": predicted.predicted_for,
            }
        for field in pb.Counters.DESCRIPTOR.fields:
            count = getattr(response.counters, field.name)
            details["counters"][field.name] = details["counters"].get(field.name, 0) + count

    def answer(self, single: bool) -> Answer:
        answer = Answer(
            self._labels[0] if single else self._labels,
            self._distances[0] if single else self._distances,
        )
        answer.metric = self._metric
        if self._named:
            named = [self._named.get(label, label) for label in answer.labels.ravel().tolist()]
            answer.names = np.array([*named, None], object)[:-1].reshape(answer.labels.shape)
        if self._with_details:
            answer.details = self._details
        return answer


class SearchCalls:
    """Splits one search into calls within the server's limits and assembles its answer."""

    def __init__(
        self,
        described: Any,
        queries: ArrayLike,
        k: int,
        details: bool,
        params: Dict[str, Any],
    ) -> None:
        self._index = described.index
        self._options = to_options(k, details, params)
        self._rows, self.single = to_rows("queries", queries, described.info)
        self.method = "Search" if self.single else "SearchBatch"
        wanted = self._options.k
        most = most_found(described, wanted)
        self._gathered = _Gathered(len(self._rows), most, details, metric_of(described))
        limits = described.limits
        row_bytes = max(1, self._rows.itemsize * self._rows.shape[1])
        self._step = max(
            1,
            min(
                limits.max_batch,
                max(0, limits.max_request_bytes - SPARE_BYTES) // row_bytes,
                limits.max_reply_bytes // max(1, _ID_BYTES * wanted),
            ),
        )

    def requests(self) -> Iterator[Tuple[int, Any]]:
        """Yields (number of the first query, message) for each call."""
        if self.single:
            query = pb.Vectors(raw=self._rows.tobytes())
            yield 0, pb.SearchRequest(index=self._index, query=query, options=self._options)
            return
        for begin in range(0, len(self._rows), self._step):
            rows = self._rows[begin : begin + self._step]
            queries = pb.Vectors(raw=rows.tobytes(), count=len(rows))
            yield begin, pb.SearchBatchRequest(
                index=self._index, queries=queries, options=self._options
            )

    def take(self, begin: int, response: Any) -> None:
        """Stores the response to the request that starts at query ``begin``."""
        counts = [len(response.ids)] if self.single else response.counts
        self._gathered.take(begin, counts, response)

    @property
    def generations(self) -> Set[int]:
        """The files that answered so far."""
        return self._gathered.generations

    def answer(self) -> Answer:
        """The answer of all responses."""
        return self._gathered.answer(self.single)


class StreamCalls:
    """The messages of one SearchStream."""

    def __init__(
        self, described: Any, k: int, details: bool, in_flight: int, params: Dict[str, Any]
    ) -> None:
        if in_flight < 1:
            raise errors.InvalidArgumentError(f"in_flight: expected 1 or more, found {in_flight}")
        self._index = described.index
        self._options = to_options(k, details, params)
        self._info = described.info
        self._metric = metric_of(described)
        self._most = most_found(described, self._options.k)
        self._details = details

    def request(self, number: int, query: ArrayLike) -> Any:
        """The message for a query; the first one carries index and options for all."""
        row, single = to_rows("queries", query, self._info)
        if not single:
            raise errors.InvalidArgumentError(
                f"query {number}: expected shape (dim,), found {np.shape(query)}"
            )
        search = pb.SearchRequest(query=pb.Vectors(raw=row.tobytes()))
        if number == 0:
            search.index = self._index
            search.options.CopyFrom(self._options)
        return pb.SearchStreamRequest(id=number, search=search)

    def result(self, response: Any) -> Union[Answer, errors.Error]:
        """The answer or error for the query ``response.id``."""
        if response.WhichOneof("result") != "answer":
            return _status.from_failure(response.failure)
        gathered = _Gathered(1, self._most, self._details, self._metric)
        gathered.take(0, [len(response.answer.ids)], response.answer)
        return gathered.answer(single=True)


def most_found(described: Any, k: int) -> int:
    """Neighbors that an answer may have: a collection grows, of an index the server rejects
    more than there are.
    """
    return k if described.HasField("collection") else min(k, described.info.n)


def to_rows(name: str, queries: ArrayLike, info: Any) -> Tuple[Any, bool]:
    """Vectors of shape (n, dim) as the wire has them, and whether one was given."""
    dtype = _DTYPES[info.dtype]
    rows = _arrays.vectors(name, queries, "float32" if dtype == "float16" else dtype)
    if rows.ndim not in (1, 2):
        raise errors.InvalidArgumentError(
            f"{name}: expected shape (dim,) or (n, dim), found {rows.shape}"
        )
    if rows.shape[-1] != info.dim:
        raise errors.InvalidArgumentError(
            f"{name}: expected vectors of {info.dim} x {dtype} as in the index, "
            f"found {rows.shape[-1]} x {rows.dtype}"
        )
    return np.atleast_2d(rows), rows.ndim == 1


# ---- Replies.


def _word(field: Any, value: int) -> str:
    name = field.enum_type.values_by_number[value].name
    return name[len(field.name) + 1 :].lower().replace("_", "-")


def _params(message: Any) -> Dict[str, Any]:
    return {
        field.name: _word(field, value) if field.enum_type is not None else value
        for field, value in message.ListFields()
        if field.name != "counters"
    }


def to_info(described: Any) -> Dict[str, Any]:
    """The metadata, in the form of ``hmann.info``."""
    info = described.info
    details: Dict[str, Any] = {f.name: getattr(info, f.name) for f in info.DESCRIPTOR.fields}
    details["dtype"] = _word(info.DESCRIPTOR.fields_by_name["dtype"], info.dtype)
    details["metric"] = _METRICS[info.metric]
    details["alpha"] = round(info.alpha, 6)
    details["layers"] = [
        {"nodes": x.nodes, "max_degree": x.max_degree, "mean_degree": x.mean_degree}
        for x in info.layers
    ]
    details["bytes"] = {
        x.name: {"tier": x.tier, "bytes": x.bytes, "formula": x.formula or None}
        for x in info.bytes
    }
    details["content_hash"] = f"{info.content_hash:016x}"
    return details


def to_placements(described: Any) -> List[Dict[str, Any]]:
    """The placements, in the form of ``Index.placements``."""
    return [
        {"structure": x.structure, "tier": x.tier, "bytes": x.bytes, "where": x.where}
        for x in described.placements
    ]


def to_summaries(response: Any) -> List[Dict[str, Any]]:
    """name, state, reason, n, dim, dtype and metric of each index."""
    return [
        {
            "name": x.name,
            "state": pb.IndexState.Name(x.state)[len("INDEX_STATE_") :].lower(),
            "reason": x.reason,
            "n": x.n,
            "dim": x.dim,
            "dtype": _DTYPES.get(x.dtype),
            "metric": _METRICS.get(x.metric),
        }
        for x in response.indexes
    ]


def dtype_of(described: Any) -> "np.dtype[Any]":
    """The dtype of the vectors of the index."""
    return np.dtype(_DTYPES[described.info.dtype])


def metric_of(described: Any) -> str:
    """The metric of the index."""
    return _METRICS[described.info.metric]
