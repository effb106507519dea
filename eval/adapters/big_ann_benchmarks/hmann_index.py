"""hmann in big-ann-benchmarks; doc/python.md says how to run it there."""

import os

import numpy

import hmann

try:
    from benchmark.algorithms.base import BaseANN
    from benchmark.datasets import DATASETS
except ImportError:  # outside of big-ann-benchmarks
    BaseANN, DATASETS = object, {}

_METRICS = {"euclidean": "l2", "angular": "cosine", "ip": "ip"}
_SUFFIXES = {"float32": ".fbin", "uint8": ".u8bin", "int8": ".i8bin"}


class Hmann(BaseANN):
    """An index whose L0 lies in DRAM (track T1) or elsewhere, as on NVMe (T2).

    Args:
        metric: 'euclidean', 'angular' or 'ip'.
        options: ``build`` and ``open``, options of ``hmann.build`` and ``hmann.open``.
            Without ``slow``, L0 lies in DRAM. With ``build_memory`` a build keeps its
            work next to the index, and can continue it.
    """

    def __init__(self, metric, options):
        self._metric = _METRICS[metric]
        self._build = dict(options.get("build", {}))
        self._open = {"slow": "dram", **options.get("open", {})}
        self._params = {}
        self._asked = None

    def track(self):
        return "T1" if self._open["slow"] == "dram" else "T2"

    def fit(self, dataset):
        data = DATASETS[dataset]()
        folder, name, _ = self.index_files_to_store(dataset)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, name)
        # big-ann-benchmarks names a part of a large file; hmann recognizes files by suffix.
        base = path + _SUFFIXES[numpy.dtype(data.dtype).name]
        if os.path.lexists(base):
            os.remove(base)
        os.symlink(os.path.abspath(data.get_dataset_fn()), base)
        build = dict(self._build)
        if "build_memory" in build:
            build.setdefault("work", path + ".work")
        hmann.build(base, path, rows=data.nb, metric=self._metric, calibrate=False, **build)
        os.remove(base)
        self._index = hmann.open(path, **self._open)

    def load_index(self, dataset):
        folder, name, _ = self.index_files_to_store(dataset)
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            return False
        self._index = hmann.open(path, **self._open)
        return True

    def index_files_to_store(self, dataset):
        said = sorted(name for name in self._build if name != "work")
        options = "".join(f"-{name}-{self._build[name]}" for name in said)
        name = f"{DATASETS[dataset]().short_name()}-{self._metric}{options}.hmann"
        return os.path.join("data", "indices", self.track(), "hmann"), name, [""]

    def set_query_arguments(self, params):
        """``threads``, ``in_flight`` and parameters of ``hmann.Index.search``, by name."""
        self._params = params

    def query(self, X, k):
        self._asked = X, k
        self.res = self._index.search(X, k, **self._params).labels

    def get_results(self):
        return self.res

    def get_additional(self):
        """Counters of one additional search."""
        queries, k = self._asked
        counters = self._index.search(queries, k, details=True, **self._params).details["counters"]
        distances = counters["distances_fast"] + counters["distances_slow"]
        return {
            "dist_comps": distances / len(queries),
            "mean_ssd_ios": counters["io_reads"] / len(queries),
        }

    def done(self):
        self._index.close()

    def __str__(self):
        return f"hmann({self._build}, {self._open}, {self._params})"
