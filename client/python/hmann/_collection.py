"""Collections: vectors that come and go in a folder, while they are searched."""

from __future__ import annotations

import datetime
import json
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hmann import _arrays, _core
from hmann._answer import Answer
from hmann._index import Path, Progress
from hmann._signatures import with_options
from hmann.errors import InvalidArgumentError, InvalidTypeError

#: A row of attributes for each label, None for none; or one row for all of them.
Attributes = Union[Mapping[str, Any], Sequence[Optional[Mapping[str, Any]]]]


@with_options("create_collection")
def create_collection(
    folder: Path,
    *,
    dim: Optional[int] = None,
    dtype: Optional[str] = None,
    metric: Optional[str] = None,
    **options: Any,
) -> "Collection":
    """Makes a folder for a collection, completely or not at all, and opens it.

    Args:
        folder: a new folder.
        dim: number of components of a vector.
        dtype: type of the stored vectors: 'f32', 'f16', 'u8' or 'i8'; None: 'f32'.
        metric: 'l2' (squared), 'ip' (negated) or 'cosine' (1 - cosine); None: 'l2'.
        {options}
        The parameters of a build hold for each merge.

    Raises:
        AlreadyExistsError: the folder exists: ``open_collection`` opens it.
        InvalidArgumentError: invalid options; an index with a label twice.
        Those of ``open`` for the index ``from_``.
    """
    options = {"dim": dim, "dtype": dtype, "metric": metric, **options}
    given = {name for name, value in options.items() if value is not None}
    fixed = sorted(given - {"from_", "queries", "types"})
    if "from_" not in given and dim is None:
        raise InvalidArgumentError("dim: expected the number of components, or from_")
    if "from_" in given and fixed:
        raise InvalidArgumentError(f"{', '.join(fixed)}: leave out, the index from_ has it")
    _core.create_collection(folder, options)
    return open_collection(folder)


@with_options("open_collection")
def open_collection(folder: Path, **options: Any) -> "Collection":
    """Opens a collection. One at a time may write to it; any number may read it.

    Args:
        folder: a folder that ``create_collection`` or ``hmann create`` made.
        {options}

    Raises:
        NotFoundError: no collection.
        FailedPreconditionError: another process, or this one, has it open for writing: close
            it there, or pass ``read_only=True``.
        DataLossError: a damaged file; the message says what is still safe.
        UnimplementedError: a newer version of hmann made it.
    """
    return Collection(_core.Collection(folder, options))


class Collection:
    """An open collection; ``create_collection`` and ``open_collection`` create it.

    A write that has returned is on disk, and every search that begins later sees it. All
    threads of a process may write and search at once: calls release the GIL, and searches
    wait for no writes. After a fork, the child must open the collection for itself.
    """

    def __init__(self, core: "_core.Collection") -> None:
        self._core = core

    def put(
        self, labels: ArrayLike, vectors: ArrayLike, attributes: Optional[Attributes] = None
    ) -> int:
        """Inserts vectors, and replaces those that have these labels with their attributes.

        A call of at most 65,536 rows and 64 MiB is one write: it happens or does not. A
        larger one is several such writes; an error then says how many rows are written, and
        the same call may be repeated. When the memory for new rows is used up, the call
        compacts the collection, which takes time. Ctrl-C ends it between two writes.

        Args:
            labels: whole numbers of 0 to 2^63 - 1, of shape (n,), or one; or strings of 1
                to 1,024 bytes. Of several rows with one label, the last one counts.
            vectors: shape (n, dim), or (dim,) for one label, in any form that ``build``
                takes except a file, with values that the dtype of the collection holds.
                Floats are rounded.
            attributes: a dict for each label, or one for all. Values are numbers, bools,
                strings, times (UTC without a zone), or lists of strings or of whole numbers;
                None, NaN, NaT and empty lists are no values. An attribute has the type that
                ``types`` gave it, or that of its first value.

        Returns:
            The number of different vectors put.

        Raises:
            InvalidArgumentError: another shape or dimension, NaN, a zero vector under
                cosine, a value that the dtype does not hold, a negative label, a wrong
                attribute. The message names the row.
            InvalidTypeError: labels that are neither whole numbers nor strings.
            ResourceExhaustedError: not enough disk.
            FailedPreconditionError: a closed collection, or one opened for reading.
        """
        rows = None if attributes is None else texts(attributes, has_value)
        return self._core.put(labels, vectors, rows)

    def update(self, labels: ArrayLike, attributes: Attributes) -> int:
        """Replaces the attributes that are given, and keeps the others and the vectors.

        Args:
            labels: as for ``put``, each once.
            attributes: as for ``put``. None as a value removes an attribute.

        Returns:
            The number of vectors updated.

        Raises:
            NotFoundError: a label that no vector has.
            As ``put``, which also says when a call is one write.
        """
        return self._core.update(labels, texts(attributes, lambda value: True))

    def delete(
        self,
        labels: Optional[ArrayLike] = None,
        *,
        filter: Optional[str] = None,
        filter_arguments: Optional[Dict[str, Any]] = None,
        all: bool = False,
    ) -> int:
        """Deletes vectors: by label, by a condition, or all.

        Args:
            labels: as for ``put``; those that no vector has are ignored. 65,536 of them
                are one write.
            filter: a condition on the attributes, such as ``'year < 2000'``, instead of
                labels. All vectors for which it holds are deleted at one moment.
            filter_arguments: as for ``Index.search``.
            all: True alone deletes all vectors; with a filter, it may hold for all.

        Returns:
            The number of vectors deleted.

        Raises:
            FailedPreconditionError: a filter that holds for all vectors, without ``all``.
            As ``put``.
        """
        if labels is None and filter is None and all is not True:
            raise InvalidArgumentError("delete: expected labels, a filter, or all=True")
        if labels is None:
            arguments = _arrays.filter_arguments("filter_arguments", filter_arguments or {})
            return self._core.delete_matches(_text(filter), arguments, all is True)
        if filter is not None or all:
            raise InvalidArgumentError("delete: expected labels, a filter or all, found several")
        return self._core.delete_labels(labels)

    @with_options("search")
    def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        *,
        threads: Optional[int] = None,
        details: bool = False,
        filter: Optional[str] = None,
        filter_arguments: Optional[Dict[str, Any]] = None,
        **params: Any,
    ) -> Answer:
        """Finds the k nearest vectors of each query, all at one moment.

        Args:
            queries: as for ``Index.search``.
            k: number of neighbors; there may be fewer vectors.
            threads: as for ``Index.search``.
            details: return what ran (``Answer.details``): ``params`` of the sealed index,
                ``counters``, ``cut_short``, ``matches``, and ``sequence``, the number of
                the last write that the search has seen.
            filter: a condition on the attributes: ``'year >= 2020 and tag = "cat"'``.
            filter_arguments: as for ``Index.search``.
            {options}
            A collection takes no ``latency``.

        Returns:
            labels (int64) and distances (float32), of shape (k,) or (n, k). If fewer than k
            match, label -1 and distance inf fill the rest. A string has a label below -1:
            ``names`` tells it.

        Raises:
            As ``Index.search``; InvalidTypeError for a filter that is no text.
        """
        arguments = _arrays.filter_arguments("filter_arguments", filter_arguments or {})
        labels, distances, shown = self._core.search(
            queries, k, threads, details, _text(filter), arguments, params
        )
        answer = Answer(labels, distances)
        answer.metric = self.metric
        answer.details = shown
        return answer

    def names(self, labels: ArrayLike) -> NDArray[Any]:
        """What labels of an answer stand for, as an array of objects of the same shape: a
        string, a whole number, or None for -1 and for a string whose vector is gone.
        """
        numbers = np.asarray(labels, dtype=np.int64)
        named = [
            name or (number if number >= 0 else None)
            for name, number in zip(self._core.names(numbers.ravel()), numbers.ravel().tolist())
        ]
        return np.array([*named, None], dtype=object)[:-1].reshape(numbers.shape)

    def get(
        self, labels: ArrayLike, attributes: bool = False
    ) -> Union[NDArray[Any], Tuple[NDArray[Any], List[Dict[str, Any]]]]:
        """Returns the vectors with these labels, at one moment.

        Args:
            labels: one label, or several of shape (n,).
            attributes: return the attributes, too.

        Returns:
            Array of the dtype of the collection, of shape (dim,), or (n, dim) in the order
            of the labels; under cosine, floats are divided by their norm. With
            ``attributes``, a pair of it and a dict for each label, or one for one label.

        Raises:
            NotFoundError: a label that no vector has; the message names it.
            As ``Index.get``.
        """
        vectors, found = self._core.get(labels, attributes)
        if not attributes:
            return vectors
        rows = [json.loads(text) for text in found]
        return vectors, rows if vectors.ndim == 2 else rows[0]

    def compact(self, progress: Progress = True) -> None:
        """Writes all vectors into a new sealed index, now, and waits for it.

        Others search and write meanwhile. Ctrl-C stops it soon; nothing is lost, and the
        next merge continues.

        Args:
            progress: True, False, or a callable that receives (phase, done, total, unit).

        Raises:
            ResourceExhaustedError: not enough memory or disk.
            FailedPreconditionError: a closed collection, or one opened for reading.
        """
        self._core.compact(progress)

    def backup(self, folder: Path) -> int:
        """Copies the collection as of one moment into a new folder, while others write.

        Returns:
            The number of the last write that the copy has.

        Raises:
            AlreadyExistsError: the folder exists.
        """
        return self._core.backup(folder)

    def verify(self, progress: Progress = True) -> None:
        """Checks every checksum. It cannot be interrupted.

        Raises:
            DataLossError: naming file and place.
        """
        self._core.verify(progress)

    def info(self) -> Dict[str, Any]:
        """What is where, as ``hmann info --json`` prints it; ``last_error`` of merges, too."""
        return self._core.info()

    @property
    def path(self) -> str:
        """The folder."""
        return self._core.path

    @property
    def dim(self) -> int:
        """Number of components of a vector."""
        return self._core.dim

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The type of the vectors, as of ``Index.dtype``."""
        return self._core.dtype

    @property
    def metric(self) -> str:
        """'l2', 'ip' or 'cosine'."""
        return self._core.metric

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._core.closed

    def close(self) -> None:
        """Lets others write to the folder, as soon as running calls have finished."""
        self._core.close()

    def __len__(self) -> int:
        return len(self._core)

    def __enter__(self) -> "Collection":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        size = "closed" if self.closed else f"{len(self)} vectors"
        return (
            f"<hmann.Collection {self.path!r}: {size} of {self.dim} x {self.dtype}, {self.metric}>"
        )


def _text(filter: Any) -> Optional[str]:
    if filter is None or isinstance(filter, str):
        return filter
    raise InvalidTypeError(
        f"filter: expected a condition on attributes, as 'year >= 2020', found {filter!r:.60}"
    )


def _plain(value: Any) -> Any:
    """What JSON has instead of values of numpy, sets and times."""
    text = _arrays.time_text(value)
    if text is not value:
        return text
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"a value of type {type(value).__name__}")


def _is_missing(value: Any) -> bool:
    """True for None, NaN, NaT and NA, which pandas has where there is no value."""
    if isinstance(value, (float, np.floating, np.datetime64, np.timedelta64, datetime.datetime)):
        return bool(value != value)
    return value is None or type(value).__name__ == "NAType"


def has_value(value: Any) -> bool:
    """False for None, missing values and empty lists, which are no values of a new row."""
    empty = isinstance(value, (list, tuple, set, frozenset, np.ndarray)) and len(value) == 0
    return not empty and not _is_missing(value)


def texts(attributes: Any, keeps: Callable[[Any], bool]) -> Union[str, List[str]]:
    """Attributes as JSON, those whose value ``keeps`` accepts: a text for each row, or one
    for all.
    """
    if not isinstance(attributes, Mapping) and (
        isinstance(attributes, (str, bytes)) or not np.iterable(attributes)
    ):
        raise InvalidTypeError(f"attributes: expected dicts, found {attributes!r:.60}")
    single = isinstance(attributes, Mapping)
    rows = []
    for number, row in enumerate([attributes] if single else attributes):
        if row is not None and not isinstance(row, Mapping):
            raise InvalidTypeError(
                f"attributes: row {number}: expected a dict or None, found {row!r:.60}"
            )
        try:
            kept = {
                name: None if _is_missing(value) else value
                for name, value in (row or {}).items()
                if keeps(value)
            }
            text = json.dumps(kept, allow_nan=False, default=_plain)
        except RecursionError:
            raise InvalidArgumentError(
                f"attributes: row {number}: expected no lists or dicts within lists"
            ) from None
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(
                f"attributes: row {number}: expected numbers, bools, strings, times or lists, "
                f"found {row!r:.60}: {error}"
            ) from None
        rows.append(text)
    return rows[0] if single else rows
