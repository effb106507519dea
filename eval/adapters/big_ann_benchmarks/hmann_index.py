"""hmann in big-ann-benchmarks; doc/python.md says how to run it there."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

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

    A data set of the filter track has a sparse matrix of tags, from which the index gets
    attributes.

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
        # big-ann-benchmarks names files as it likes; hmann recognizes them by suffix.
        base = path + _SUFFIXES[numpy.dtype(data.dtype).name]
        files = {base: data.get_dataset_fn()}
        build = {"calibrate": False, **self._build}
        if "build_memory" in build:
            build.setdefault("work", path + ".work")
        if data.search_type() == "knn_filtered":
            build["attrs"] = path + ".spmat"
            files[build["attrs"]] = os.path.join(data.basedir, data.ds_metadata_fn)
        for link, file in files.items():
            if os.path.lexists(link):
                os.remove(link)
            os.symlink(os.path.abspath(file), link)
        hmann.build(base, path, rows=data.nb, metric=self._metric, **build)
        for link in files:
            os.remove(link)
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
        data = DATASETS[dataset]()
        name = f"{data.short_name()}-{self._metric}{options}.hmann"
        parts = ["", ".attrs"] if data.search_type() == "knn_filtered" else [""]
        parts += [".tuned"] if self._build.get("calibrate") else []
        return os.path.join("data", "indices", self.track(), "hmann"), name, parts

    def set_query_arguments(self, params):
        """``threads``, ``in_flight`` and parameters of ``hmann.Index.search``, by name."""
        self._params = params

    def query(self, X, k):
        self._asked = [X], k, [None]
        self.res = self._search()[0].labels

    def filtered_query(self, X, filter, k):
        """Finds neighbors of query i that have all tags in row i of the matrix `filter`."""
        rows = [filter.indices[b:e] for b, e in zip(filter.indptr, filter.indptr[1:])]
        tags = [", ".join(map(str, row)) for row in rows]
        self._asked = X, k, [f"has(tags, {some})" if some else None for some in tags]
        self.res = numpy.array([answer.labels for answer in self._search()])

    def _search(self, **more):
        """The answers to each query or group of queries with its filter."""
        queries, k, filters = self._asked
        params = {**self._params, **more}
        threads = 1 if len(filters) == 1 else params.pop("threads", None) or os.cpu_count()

        def answer(query, filter):
            return self._index.search(query, k, filter=filter, **params)

        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(answer, queries, filters))

    def get_results(self):
        return self.res

    def get_additional(self):
        """Counters of one additional search."""
        counters = [answer.details["counters"] for answer in self._search(details=True)]

        def mean(*names):
            return sum(one[name] for one in counters for name in names) / len(self.res)

        return {
            "dist_comps": mean("distances_fast", "distances_slow"),
            "mean_ssd_ios": mean("io_reads"),
        }

    def done(self):
        self._index.close()

    def __str__(self):
        return f"hmann({self._build}, {self._open}, {self._params})"


class HmannStreaming(BaseANN):
    """A collection that a runbook fills, changes and searches (track stream).

    Args:
        metric: as for ``Hmann``.
        options: ``build`` and ``open``, options of ``hmann.create_collection`` and
            ``hmann.open_collection``.
    """

    def __init__(self, metric, options):
        self._metric = _METRICS[metric]
        self._build = dict(options.get("build", {}))
        self._open = {"slow": "dram", **options.get("open", {})}
        self._params = {}
        self._asked = None

    def track(self):
        return "stream"

    def setup(self, dtype, max_pts, ndims):
        """Begins with an empty collection; it grows as it must, whatever ``max_pts`` is."""
        folder = os.path.join("data", "indices", "stream")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "hmann.live")
        shutil.rmtree(path, ignore_errors=True)
        kind = {"float32": "f32", "uint8": "u8", "int8": "i8"}[numpy.dtype(dtype).name]
        hmann.create_collection(
            path, dim=ndims, dtype=kind, metric=self._metric, **self._build
        ).close()
        self._live = hmann.open_collection(path, **self._open)

    def insert(self, X, ids):
        self._live.put(ids, X)

    def replace(self, X, ids):
        self._live.put(ids, X)

    def delete(self, ids):
        self._live.delete(ids)

    def set_query_arguments(self, params):
        """``threads`` and parameters of ``hmann.Collection.search``, by name."""
        self._params = params

    def query(self, X, k):
        self._asked = X, k
        self.res = self._live.search(X, k, **self._params).labels

    def get_results(self):
        return self.res

    def get_additional(self):
        """Counters of one additional search."""
        counters = self._live.search(*self._asked, details=True, **self._params).details["counters"]
        distances = counters["distances_fast"] + counters["distances_slow"]
        return {"dist_comps": distances / len(self.res)}

    def done(self):
        self._live.close()

    def __str__(self):
        return f"hmann({self._build}, {self._open}, {self._params})"
