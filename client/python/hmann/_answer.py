"""The result of a search."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray


class _Pair(NamedTuple):
    labels: NDArray[np.int64]
    distances: NDArray[np.float32]


class Answer(_Pair):
    """The nearest vectors: a pair, so ``labels, distances = index.search(...)`` works.

    Attributes:
        labels: int64, of shape (k,) for one query and (n, k) for n queries, nearest first.
            -1 fills the rest if a query has fewer than k answers.
        distances: float32, one per label. Smaller is nearer: squared L2, negative inner
            product, 1 - cosine. inf for label -1.
        details: None; for a search with ``details=True``, what ran: ``params``,
            ``counters`` (work, summed over the queries), ``cut_short`` (queries that a
            budget ended), ``predicted`` (the expected result of params that the caller left
            open, and the queries that it holds for), with a filter ``matches`` (how many
            vectors it selects), and by a server ``generation``, the number of the file that
            answered.
        names: by a server, if labels are strings: an array like ``labels`` with the string
            or the number that each stands for (such a label is below -1). Otherwise None.
        metric: of the distances, by which ``recall`` knows what is equal but for rounding;
            None if a file has not told it.
    """

    details: Optional[Dict[str, Any]] = None
    names: Optional[NDArray[Any]] = None
    metric: Optional[str] = None
