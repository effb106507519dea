"""Builds, opens and searches an index in this process."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import warnings as _warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Type, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hmann import _arrays, _collection, _core
from hmann._answer import Answer
from hmann._signatures import with_options
from hmann.errors import InputWarning, InvalidArgumentError, OpenWarning

Path = Union[str, bytes, "os.PathLike[str]"]
#: True: a progress line on stderr, as on the command line. False: none. Or a callable that
#: receives (phase, done, total, unit) about twenty times a second; total 0: unknown.
Progress = Union[bool, Callable[[str, int, int, str], object]]


def _warn(messages: Sequence[str], kind: Type[Warning] = OpenWarning) -> None:
    for message in messages:
        _warnings.warn(message, kind, stacklevel=3)


@with_options("build")
def build(
    base: Union[Path, ArrayLike],
    out: Path,
    *,
    labels: Union[None, Path, ArrayLike] = None,
    progress: Progress = True,
    **options: Any,
) -> Dict[str, Any]:
    """Builds an index and writes it to ``out``, completely or not at all.

    The same vectors, options (except ``threads``) and version give the same bytes. Ctrl-C
    stops the build soon; an existing file at ``out`` then remains.

    Args:
        base: array of shape (n, dim). It must stay unchanged during the build. It is not
            copied if it is of float32, float16, uint8 or int8, and the components of each
            row are contiguous; other numbers are copied to float32. Or lists, a frame of
            pandas, a column of arrays, a tensor. Or a vector file:
            .npy .fvecs .bvecs .fbin .f16bin .u8bin .i8bin .csv .hdf5.
        out: index file to write.
        labels: n whole numbers of at least 0 to return instead of row numbers; or a file.
        progress: True, False, or a callable that receives (phase, done, total, unit).
        {options}
            ``attrs`` may also be a dict for each vector, as ``Collection.put`` takes them.

    Returns:
        The output of ``hmann build --json``: seconds per phase, peak memory, degrees,
        layers.

    Warns:
        InputWarning: base was copied to another dtype; or metric was left out for vectors
            of length 1, whose nearest are the same under each metric.

    Raises:
        InvalidArgumentError: invalid options, no numbers, another shape, NaN, a zero
            vector under cosine.
        NotFoundError: no such file or folder.
        ResourceExhaustedError: not enough memory (before the work starts) or disk.
    """
    with _rows_as_file(options.get("attrs")) as rows:
        options["attrs"] = rows
        report = _core.build(base, out, labels, options, progress)
    if options.get("metric") is None:
        _warn(report["notes"], InputWarning)
    return report


@with_options("plan")
def plan(index: Optional[Path] = None, **options: Any) -> Dict[str, Any]:
    """Plans which index to build for a given fast memory, and where to place it.

    Args:
        index: a finished index, instead of ``base``.
        {options}

    Returns:
        The output of ``hmann plan --json``.
    """
    return _core.plan({**options, "index": index})


def info(path: Path) -> Dict[str, Any]:
    """Reads the header of an index file, as ``hmann info --json`` does.

    Raises:
        NotFoundError, InvalidArgumentError (a foreign file), DataLossError.
    """
    return _core.read_info(path)


@with_options("open")
def open(path: Path, **options: Any) -> "Index":
    """Opens an index file. Loading into ``slow="dram"`` cannot be interrupted.

    Args:
        path: index file.
        {options}

    Raises:
        NotFoundError: no such file.
        InvalidArgumentError: a foreign file, an unknown tier.
        DataLossError: a truncated or damaged file.
        ResourceExhaustedError: not enough memory.
    """
    index = Index(_core.Index(path, options))
    _warn(index.warnings)
    return index


class Index:
    """An open index; ``hmann.open`` creates it.

    All threads of a process may search it at once: searches release the GIL. After a fork
    the child must open the index again.
    """

    def __init__(self, core: "_core.Index") -> None:
        self._core = core
        self._search = core.search

    @with_options("search")
    def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        *,
        threads: Optional[int] = None,
        in_flight: Optional[int] = None,
        details: bool = False,
        filter: Union[None, str, ArrayLike, "_core.Matches"] = None,
        filter_arguments: Optional[Dict[str, Any]] = None,
        **params: Any,
    ) -> Answer:
        """Finds the k nearest vectors of each query.

        Parameters left out get a default that suits the index and its placement. A target
        (``recall``, ``latency``) replaces all params except ``prefetch``.

        Args:
            queries: one of shape (dim,), or several of shape (n, dim), in any form that
                ``build`` takes except a file. Arrays of the index's dtype are not copied
                if the components of each row are contiguous. Others must have values that
                it holds; floats are rounded.
            k: number of neighbors, 1 to n.
            threads: threads that share the queries; None: up to the number of cores, but no
                more than pays off.
            in_flight: queries that each thread keeps in flight; None: the number that
                ``tune`` measured, otherwise four in memory and eight on a device.
            details: return what ran (``Answer.details``).
            filter: the only vectors that may be answers: a condition on their attributes
                (``'year >= 2020 and tag = "cat"'``), their labels, or a mask of bools
                in which entry i stands for label i. A result of ``matching`` saves each
                search the conversion. No Python code runs within a search.
            filter_arguments: the values of ``$name`` in a condition: by name a string, a
                number or a bool, or several of them.
            {options}

        Returns:
            labels (int64) and distances (float32), of shape (k,) or (n, k). If fewer than k
            match, label -1 and distance inf fill the rest.

        Raises:
            InvalidArgumentError: a value that the dtype of the index does not hold, an
                invalid shape, k or params, NaN, a zero vector under cosine.
            NotFoundError: a target that the index is not tuned for.
            OutOfRangeError: a target that cannot be met (the message names the best value),
                or an answer's label above 2^63 - 1.
            FailedPreconditionError: a closed index, or one opened before a fork.
            DataLossError, UnavailableError: a device that fails or stalls.
        """
        if filter_arguments or not (filter is None or isinstance(filter, _core.Matches)):
            filter = self.matching(filter, filter_arguments)  # type: ignore[arg-type]
        metric = self.metric  # another thread may close the index meanwhile
        labels, distances, shown = self._search(
            queries, k, threads, in_flight, details, filter, params
        )
        answer = Answer(labels, distances)
        answer.metric = metric
        if shown is not None:
            answer.details = shown
        return answer

    def matching(
        self,
        accepted: Union[str, ArrayLike],
        filter_arguments: Optional[Dict[str, Any]] = None,
    ) -> "_core.Matches":
        """Selects vectors by their attributes or labels, for ``search(filter=...)``.

        Args:
            accepted: a condition on the attributes that ``hmann attrs`` has written, or
                labels (array, list, set, range), or a mask of bools in which entry i stands
                for label i.
            filter_arguments: as for ``search``.

        Returns:
            An object for searches of this index, valid until the index is closed or opened
            again. Its ``len`` is the number of matches. It takes one bit per vector.
        """
        arguments = _arrays.filter_arguments("filter_arguments", filter_arguments or {})
        return self._core.matching(accepted, arguments)

    def get(self, labels: ArrayLike) -> NDArray[Any]:
        """Returns the vectors with these labels.

        Args:
            labels: one label, or several of shape (n,), as ``search`` returns them. A
                repeated label returns its vector repeatedly.

        Returns:
            Array of the index's dtype, of shape (dim,), or (n, dim) in the order of the
            labels. float32 vectors under cosine are divided by their norm. If several
            vectors share a label, the same one of them is always returned.

        Raises:
            NotFoundError: a label that no vector has; the message names it.
            InvalidArgumentError: a negative label, another shape.
            FailedPreconditionError: a closed index, or one opened before a fork.
            DataLossError, UnavailableError: a device that fails or stalls.
        """
        return self._core.get(labels)

    @with_options("search")
    def resolve(self, k: int = 10, **params: Any) -> Dict[str, Any]:
        """Returns the params that a search would run with.

        The result is ``{"params": ..., "predicted": ...}``.

        Args:
            k: number of neighbors.
            {options}
        """
        return self._core.resolve(k, params)

    @with_options("tune")
    def tune(
        self,
        k: Union[int, Sequence[int]] = 10,
        *,
        recall: Union[float, Sequence[float]] = (0.9, 0.95, 0.99),
        latency: Union[float, str, Sequence[Union[float, str]]] = (),
        progress: Progress = True,
        **options: Any,
    ) -> List[Dict[str, Any]]:
        """Finds the fastest params for each target on this machine.

        Stores them next to the index. Afterwards ``search(..., recall=0.95)`` uses them
        for these k, whenever the index is opened with the same placement. Tuning opens the
        index a second time.

        Args:
            k: number of neighbors, one value or several.
            recall: targets that are measured fully; the table answers others, too.
            latency: targets for the mean time, seconds or '200us'.
            progress: True, False, or a callable that receives (phase, done, total, unit).
            {options}
            ``queries`` may also be what ``search`` takes, of shape (n, dim).

        Returns:
            The output of ``hmann tune --json`` for each k.
        """
        with _as_file(options.get("queries"), self) as queries:
            tuned, warned = self._core.tune(
                [k] if np.ndim(k) == 0 else list(k),  # type: ignore[arg-type]
                [recall] if np.ndim(recall) == 0 else list(recall),  # type: ignore[arg-type]
                [latency] if np.ndim(latency) == 0 else list(latency),  # type: ignore[arg-type]
                {**options, "queries": queries},
                progress,
            )
        _warn(warned)
        return tuned

    @with_options("promote")
    def promote(
        self, out: Optional[Path] = None, *, progress: Progress = True, **options: Any
    ) -> Dict[str, Any]:
        """Replaces the upper layers and codes of the index; its L0 stays unchanged.

        Args:
            out: index file to write, completely or not at all. None: the file of this
                index, which is then opened again.
            progress: True, False, or a callable that receives (phase, done, total, unit).
            {options}

        Returns:
            As for ``build``.
        """
        return self._core.promote(out, options, progress)

    def plan(self, **options: Any) -> Dict[str, Any]:
        """Calls ``hmann.plan`` for this index."""
        return plan(self.path, **options)

    def warm(self) -> None:
        """Touches all of L0, so that the first queries take no page faults."""
        self._core.warm()

    def info(self) -> Dict[str, Any]:
        """Metadata from the header, as ``hmann.info`` returns it."""
        return self._core.info()

    def placements(self) -> List[Dict[str, Any]]:
        """The location of each structure, as the kernel reports it."""
        return self._core.placements()

    @property
    def warnings(self) -> List[str]:
        """Unavailable resources that the index works without, one per line."""
        return self._core.warnings()

    @property
    def path(self) -> str:
        """The index file."""
        return self._core.path

    @property
    def dim(self) -> int:
        """Number of components of a vector."""
        return self._core.dim

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The type of vectors and queries: float32, uint8, int8 or float16.

        An index of float16 takes queries of float32 or float16.
        """
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
        """Frees the memory of the index. Running searches of other threads still finish."""
        self._core.close()

    def __len__(self) -> int:
        return self._core.n

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return f"<hmann.Index {self.path!r}, closed>"
        return (
            f"<hmann.Index {self.path!r}: {len(self)} vectors of {self.dim} x {self.dtype}, "
            f"{self.metric}>"
        )


@contextlib.contextmanager
def _rows_as_file(attrs: Any) -> Iterator[Any]:
    """Yields a path unchanged, and a dict for each vector as a temporary file of them."""
    if attrs is None or isinstance(attrs, (str, bytes, os.PathLike)):
        yield attrs
        return
    rows = _collection.texts(attrs, _collection.has_value)
    if isinstance(rows, str):
        raise InvalidArgumentError("attrs: expected a dict for each vector, found one dict")
    with tempfile.TemporaryDirectory(prefix="hmann_") as folder:
        path = os.path.join(folder, "attrs.ndjson")
        with io.open(path, "w", encoding="utf-8") as file:
            file.writelines(row + "\n" for row in rows)
        yield path


@contextlib.contextmanager
def _as_file(vectors: Any, index: Index) -> Iterator[Any]:
    """Yields a path unchanged, and an array as a temporary vector file."""
    if vectors is None or isinstance(vectors, (str, bytes, os.PathLike)):
        yield vectors
        return
    dtype = "float32" if index.dtype == np.float16 else str(index.dtype)
    rows = _arrays.vectors("queries", vectors, dtype)
    suffix = {"float32": ".fbin", "uint8": ".u8bin", "int8": ".i8bin"}[dtype]
    with tempfile.TemporaryDirectory(prefix="hmann_") as folder:
        path = os.path.join(folder, "queries" + suffix)
        _core.write_vectors(path, rows)
        yield path
