"""Vector files, exact neighbours and recall."""

from __future__ import annotations

from typing import Any, Optional, Tuple, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hmann import _core
from hmann._answer import Answer
from hmann._index import Path, Progress
from hmann.errors import InvalidArgumentError


def read_vectors(path: Path, rows: Optional[int] = None) -> NDArray[Any]:
    """The vectors of a file, as an array of shape (n, dim).

    The array is the file, mapped and read-only: pages come and go with use, so that it may
    be larger than memory. ``.copy()`` makes one that can be written to. The file must not
    be shortened meanwhile.

    Args:
        path: .fvecs .bvecs .fbin .f16bin .u8bin .i8bin .hdf5 (x.hdf5:test is the data set test).
        rows: the first so many; None: all.

    Raises:
        NotFoundError, InvalidArgumentError (a malformed file, NaN), UnimplementedError
        (float16).
    """
    return _core.read_vectors(path, rows)


def write_vectors(path: Path, vectors: Union[ArrayLike, Path]) -> None:
    """Writes an array of shape (n, dim), or what another file holds, to a vector file.

    The suffix says format and dtype: .fvecs, .fbin (float32), .f16bin (float16, rounded), .bvecs,
    .u8bin (uint8), .i8bin (int8). The file appears whole or not at all.

    Raises:
        InvalidArgumentError: another shape, NaN, or a value that the dtype of the suffix
            cannot hold exactly (float16: not even rounded).
    """
    _core.write_vectors(path, vectors)


def read_groundtruth(path: Path) -> Answer:
    """Exact neighbours from a file (.ivecs, .ibin, .hdf5, .gt); ``distances`` may be None."""
    return Answer(*_core.read_truth(path))


def exact_neighbours(
    base: Union[ArrayLike, Path],
    queries: Union[ArrayLike, Path],
    k: int = 100,
    *,
    metric: str = "l2",
    threads: int = 0,
    progress: Progress = True,
) -> Answer:
    """The k nearest base vectors of every query, exactly; ties go to the smaller row.

    Args:
        base: array of shape (n, dim) or vector file. A file is streamed, whatever its size.
        queries: array of shape (m, dim), of the same dtype (of a base of float16 also
            float32), or vector file.
        k: neighbours, 1 to n.
        metric: 'l2', 'ip' or 'cosine'.
        threads: 0: all usable cores.
        progress: True, False, or a callable given (phase, done, total, unit).

    Returns:
        labels and distances of shape (m, k).

    Raises:
        InvalidArgumentError: dtypes or dimensions that differ, k, NaN, a zero vector under
            cosine.
        ResourceExhaustedError: memory.
    """
    return Answer(*_core.exact_neighbours(base, queries, k, metric, threads, progress))


def recall(found: Answer, truth: Answer, k: Optional[int] = None) -> float:
    """Mean recall at k: the share of the first k answers that are among the k nearest.

    A tie at rank k counts as found where the truth has distances.

    Args:
        found: labels and distances of shape (n, k), as ``Index.search`` gives them.
        truth: of the same queries, as ``exact_neighbours`` and ``read_groundtruth`` give it.
        k: None: as many as were found.
    """

    def rows(name: str, pair: Answer) -> Tuple[Any, Any]:
        labels, distances = pair
        if np.ndim(labels) == 1:
            return np.atleast_2d(labels), None if distances is None else np.atleast_2d(distances)
        if np.ndim(labels) != 2:
            raise InvalidArgumentError(f"{name}: expected labels of shape (n, k)")
        return labels, distances

    return _core.recall(*rows("found", found), *rows("truth", truth), k)
