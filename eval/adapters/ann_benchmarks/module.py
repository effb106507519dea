"""hmann in ann-benchmarks; doc/python.md says how to run it there."""

import os
import tempfile

import numpy

import hmann

try:
    from ..base.module import BaseANN
except ImportError:  # outside of ann-benchmarks
    BaseANN = object

_METRICS = {"euclidean": "l2", "angular": "cosine"}


class Hmann(BaseANN):
    """An index that lies entirely in DRAM.

    Args:
        metric: 'euclidean' or 'angular'.
        build: options of ``hmann.build``.
    """

    def __init__(self, metric, build):
        self._metric = _METRICS[metric]
        self._build = build
        self._params = {}
        self._folder = tempfile.TemporaryDirectory(prefix="hmann_")

    def fit(self, X):
        path = os.path.join(self._folder.name, "index.hmann")
        base = numpy.asarray(X, dtype=numpy.float32)
        hmann.build(
            base, path, metric=self._metric, calibrate=False, progress=False, **self._build
        )
        self._index = hmann.open(path, slow="dram")

    def set_query_arguments(self, params):
        """Parameters of ``hmann.Index.search``, by name."""
        self._params = params

    def query(self, q, n):
        return self._index.search(q, n, **self._params)[0]

    def batch_query(self, X, n):
        self._found = self._index.search(X, n, **self._params)[0]

    def get_batch_results(self):
        return self._found

    def get_additional(self):
        return {}

    def done(self):
        self._index.close()
        self._folder.cleanup()

    def __str__(self):
        return f"hmann({self._build}, {self._params})"
