"""Building, opening and searching an index in this process."""

from __future__ import annotations

import contextlib
import os
import tempfile
import warnings as _warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hmann import _core
from hmann._answer import Answer
from hmann._signatures import with_options
from hmann.errors import OpenWarning

Path = Union[str, bytes, "os.PathLike[str]"]
#: True: a line on stderr, as the command line has it. False: none. Or a callable that is
#: given (phase, done, total, unit) some twenty times a second; total 0: unknown.
Progress = Union[bool, Callable[[str, int, int, str], object]]


def _warn(messages: Sequence[str]) -> None:
    for message in messages:
        _warnings.warn(message, OpenWarning, stacklevel=3)


@with_options("build")
def build(
    base: Union[Path, ArrayLike],
    out: Path,
    *,
    labels: Union[None, Path, ArrayLike] = None,
    progress: Progress = True,
    **options: Any,
) -> Dict[str, Any]:
    """Builds an index and writes it to ``out``, whole or not at all.

    The same vectors, options (but ``threads``) and version give the same bytes. Ctrl-C
    ends it soon; a file that was at ``out`` is then still there.

    Args:
        base: array of shape (n, dim), float32, float16, uint8 or int8, of which no copy is made
            where the components of a row lie side by side; it must stay as it is
            meanwhile. Or a vector file: .fvecs .bvecs .fbin .f16bin .u8bin .i8bin .hdf5.
        out: index file to write.
        labels: n whole numbers from 0 to answer with instead of row numbers; or a file.
        progress: True, False, or a callable given (phase, done, total, unit).
        {options}

    Returns:
        What ``hmann build --json`` says: seconds a phase, peak memory, degrees, layers.

    Raises:
        InvalidArgumentError: options, another dtype or shape, NaN, a zero vector under
            cosine.
        NotFoundError: no such file or folder.
        ResourceExhaustedError: memory (before the work starts) or disk.
    """
    return _core.build(base, out, labels, options, progress)


@with_options("plan")
def plan(**options: Any) -> Dict[str, Any]:
    """Says which index to make for so much fast memory, and where it would lie.

    Args:
        {options}

    Returns:
        What ``hmann plan --json`` says.
    """
    return _core.plan(options)


def info(path: Path) -> Dict[str, Any]:
    """What the header of an index file says: ``hmann info --json``.

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
        InvalidArgumentError: a foreign file, a tier that there is not.
        DataLossError: a file that is cut off or damaged.
        ResourceExhaustedError: memory.
    """
    index = Index(_core.Index(path, options))
    _warn(index.warnings)
    return index


class Index:
    """An opened index; ``hmann.open`` makes it.

    All threads of a process may search it at once: the GIL is released meanwhile. After a
    fork the child has to open it anew.
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
        filter: Union[None, ArrayLike, "_core.Matches"] = None,
        **dials: Any,
    ) -> Answer:
        """Finds the k nearest vectors of each query.

        What is not given gets a default that suits the index and where it lies. A target
        (``recall``, ``latency``) stands for all dials but ``prefetch``.

        Args:
            queries: of the index's dtype: one of shape (dim,), or several of shape
                (n, dim). No copy is made where the components of a row lie side by side.
            k: neighbours, 1 to n.
            threads: that share the queries; None: as many as there are cores, and no more
                than pays.
            in_flight: queries of a thread that are under way at once; None: as many as
                ``tune`` has measured, or four in memory and eight on a device.
            details: tell what ran (``Answer.details``).
            filter: the only vectors that may be answers: their labels, or a mask of bools, of
                which number i stands for label i; or what ``matching`` made of these, which
                spares each search that work. No code of Python runs within a search.
            {options}

        Returns:
            labels (int64) and distances (float32), of shape (k,) or (n, k). Where fewer than
            k match, label -1 and distance inf fill the rest.

        Raises:
            InvalidArgumentError: dtype, shape, NaN, a zero vector under cosine, k, dials.
            NotFoundError: a target, where the index is not tuned for it.
            OutOfRangeError: a target that cannot be met; the message names the best.
            FailedPreconditionError: a closed index, or one opened before a fork.
            DataLossError, UnavailableError: a device that fails or stalls.
        """
        if filter is not None and not isinstance(filter, _core.Matches):
            filter = self.matching(filter)
        labels, distances, told = self._search(
            queries, k, threads, in_flight, details, filter, dials
        )
        answer = Answer(labels, distances)
        if told is not None:
            answer.details = told
        return answer

    def matching(self, accepted: ArrayLike) -> "_core.Matches":
        """Which vectors have one of these labels, for ``search(filter=...)``.

        Args:
            accepted: labels, or a mask of bools, of which number i stands for label i.

        Returns:
            An object for searches of this index, until it is closed or opened anew; its
            ``len`` is how many match. It takes a bit a vector.
        """
        array = np.asarray(accepted)
        return self._core.matching(array if array.size > 0 else array.astype(np.int64))

    def get(self, labels: ArrayLike) -> NDArray[Any]:
        """The vectors that have these labels.

        Args:
            labels: one, or several of shape (n,); as ``search`` gives them. A label that is
                asked for twice is given twice.

        Returns:
            Of the index's dtype: of shape (dim,), or (n, dim) in the order of the labels.
            float32 vectors under cosine come divided by their norm. Of a label that
            several vectors have, it is always the same one of them.

        Raises:
            NotFoundError: a label that no vector has; the message names it.
            InvalidArgumentError: a negative label, another shape.
            FailedPreconditionError: a file from before there were orders of labels
                (``promote`` makes one); a closed index, or one opened before a fork.
            DataLossError, UnavailableError: a device that fails or stalls.
        """
        return self._core.get(labels)

    @with_options("search")
    def resolve(self, k: int = 10, **dials: Any) -> Dict[str, Any]:
        """The dials that a search would run with: ``{"dials": ..., "predicted": ...}``.

        Args:
            k: neighbours.
            {options}
        """
        return self._core.resolve(k, dials)

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
        """Finds the fastest dials for each target, here, and stores them beside the index.

        Afterwards ``search(..., recall=0.95)`` uses them: for these k, and wherever the
        index is opened as it is now. The index is opened once more meanwhile.

        Args:
            k: neighbours, one number or several.
            recall: targets that are measured to the end; the table answers others too.
            latency: targets of mean time, seconds or '200us'.
            progress: True, False, or a callable given (phase, done, total, unit).
            {options}
            ``queries`` may be an array of shape (n, dim), too.

        Returns:
            What ``hmann tune --json`` says of each k.
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
        """Gives the index other upper layers and codes; its L0 stays as it is.

        Args:
            out: index file to write, whole or not at all. None: the index's own, which is
                then opened anew.
            progress: True, False, or a callable given (phase, done, total, unit).
            {options}

        Returns:
            As ``build``.
        """
        return self._core.promote(out, options, progress)

    def plan(self, **options: Any) -> Dict[str, Any]:
        """``hmann.plan`` of this index."""
        return plan(index=self.path, **options)

    def warm(self) -> None:
        """Touches all of L0, so that the first queries pay no page fault."""
        self._core.warm()

    def info(self) -> Dict[str, Any]:
        """What the header says, as ``hmann.info``."""
        return self._core.info()

    def placements(self) -> List[Dict[str, Any]]:
        """Where each structure lies, as the kernel says."""
        return self._core.placements()

    @property
    def warnings(self) -> List[str]:
        """What could not be had and was done without, a line each."""
        return self._core.warnings()

    @property
    def path(self) -> str:
        """The index file."""
        return self._core.path

    @property
    def dim(self) -> int:
        """Components of a vector."""
        return self._core.dim

    @property
    def dtype(self) -> "np.dtype[Any]":
        """Of the vectors, and of queries: float32, uint8, int8; or float16, with queries of
        float32 or float16."""
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
        """Gives its memory back. Searches of other threads that run end as they would."""
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
def _as_file(vectors: Any, index: Index) -> Iterator[Any]:
    """A path as it is, an array as a vector file for as long as it is wanted."""
    if vectors is None or isinstance(vectors, (str, bytes, os.PathLike)):
        yield vectors
        return
    suffix = {
        "float32": ".fbin",
        "float16": ".fbin",
        "uint8": ".u8bin",
        "int8": ".i8bin",
    }[str(index.dtype)]
    with tempfile.TemporaryDirectory(prefix="hmann_") as folder:
        path = os.path.join(folder, "queries" + suffix)
        _core.write_vectors(path, vectors)
        yield path
