"""What a search gives."""

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
        labels: int64, of shape (k,) for one query and (n, k) for n of them, nearest first.
            -1 where a query has fewer than k answers.
        distances: float32, beside the labels. Smaller is nearer: squared L2, negative
            inner product, 1 - cosine. inf beside -1.
        details: None; of a search with ``details=True`` what ran: ``dials``, ``counters``
            (work, the sum over the queries), ``cut_short`` (queries that a budget ended),
            ``predicted`` (what is expected of dials that were not named).
    """

    details: Optional[Dict[str, Any]] = None
