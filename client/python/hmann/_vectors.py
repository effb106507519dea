"""Vector files, exact neighbors and recall."""

from __future__ import annotations

from typing import Any, Optional, Tuple, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hmann import _core
from hmann._answer import Answer
from hmann._index import Path, Progress
from hmann.errors import InvalidTypeError


def read_vectors(path: Path, rows: Optional[int] = None) -> NDArray[Any]:
    """Maps the vectors of a file as an array of shape (n, dim).

    The array is a read-only mapping of the file. Pages are loaded and evicted with use, so
    the file may be larger than memory. ``.copy()`` creates a writable array. The file must
    not be truncated meanwhile.

    Args:
        path: .npy .fvecs .bvecs .fbin .f16bin .u8bin .i8bin .csv .hdf5 (x.hdf5:test names
            data set test).
        rows: number of leading rows; None: all.

    Raises:
        NotFoundError, InvalidArgumentError (a malformed file, NaN).
    """
    return _core.read_vectors(path, rows)


def write_vectors(path: Path, vectors: Union[ArrayLike, Path]) -> None:
    """Writes vectors, in any form that ``build`` takes, to a vector file.

    The suffix selects format and dtype: .npy (as the array), .csv, .fvecs, .fbin
    (float32), .f16bin (float16, rounded), .bvecs, .u8bin (uint8), .i8bin (int8). The file
    appears completely or not at all.

    Raises:
        InvalidArgumentError: another shape, NaN, or a value that the dtype of the suffix
            cannot hold exactly (float16: not even rounded). What is not of one of these
            dtypes is rounded to float32 first.
    """
    _core.write_vectors(path, vectors)


def read_groundtruth(path: Path) -> Answer:
    """Reads exact neighbors from a file (.ivecs, .ibin, .hdf5, .gt).

    ``distances`` may be None.
    """
    return Answer(*_core.read_truth(path))


def exact_neighbors(
    base: Union[ArrayLike, Path],
    queries: Union[ArrayLike, Path],
    k: int = 100,
    *,
    metric: str = "l2",
    threads: int = 0,
    progress: Progress = True,
) -> Answer:
    """Computes the exact k nearest base vectors of each query; ties go to the smaller row.

    Args:
        base: as ``build`` takes it. A file is streamed, whatever its size.
        queries: the same, of shape (m, dim), with values that the dtype of base holds; or
            a vector file of that dtype.
        k: number of neighbors, 1 to n.
        metric: 'l2', 'ip' or 'cosine'.
        threads: 0: all usable cores.
        progress: True, False, or a callable that receives (phase, done, total, unit).

    Returns:
        labels and distances of shape (m, k).

    Raises:
        InvalidArgumentError: different dtypes of files, different dimensions, invalid k,
            NaN, a zero vector under cosine.
        ResourceExhaustedError: not enough memory.
    """
    answer = Answer(*_core.exact_neighbors(base, queries, k, metric, threads, progress))
    answer.metric = metric
    return answer


def recall(found: Answer, truth: Answer, k: Optional[int] = None) -> float:
    """Mean recall at k: the share of the k nearest that are among the first k answers.

    Label -1 fills a truth of fewer than k neighbors, and 1 is the recall of none at all.
    A tie at rank k counts as found if the truth has distances.

    Args:
        found: labels and distances of shape (n, k), as ``Index.search`` returns them;
            distances may be None.
        truth: exact neighbors of the same queries, from ``exact_neighbors`` or
            ``read_groundtruth``.
        k: None: the number of neighbors in ``found``.
    """

    def rows(name: str, pair: Answer) -> Tuple[Any, Any]:
        try:
            labels, distances = pair
        except (TypeError, ValueError):
            raise InvalidTypeError(
                f"{name}: expected (labels, distances), found {pair!r:.60}"
            ) from None
        return np.atleast_2d(labels), None if distances is None else np.atleast_2d(distances)

    known = [getattr(pair, "metric", None) for pair in (truth, found)]
    metric = known[0] or known[1] or "l2"
    return _core.recall(*rows("found", found), *rows("truth", truth), k, metric)
