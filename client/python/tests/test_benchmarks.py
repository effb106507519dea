"""The modules for ann-benchmarks and big-ann-benchmarks, used on the sample as theirs do.

What their runners do with a configuration is in their README; none of their code is here.
"""

import importlib.util
import json
import os
import tempfile
import unittest

import numpy as np
import yaml
from common import BASE, QUERIES, SOURCE

import hmann

ADAPTERS = SOURCE / "eval" / "adapters"
ROWS, COUNT, K = 2000, 100, 10


def load(path):
    """A module that lies in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def share_found(labels, truth):
    """Of the nearest; a tie at rank K may count as missed."""
    return np.mean([np.isin(mine, theirs).mean() for mine, theirs in zip(labels, truth.labels)])


class AnnBenchmarksTest(unittest.TestCase):
    def setUp(self):
        folder = ADAPTERS / "ann_benchmarks"
        self.module = load(folder / "module.py")
        self.definition = yaml.safe_load((folder / "config.yml").read_text())["float"]["any"][0]
        self.base = hmann.read_vectors(BASE, ROWS).astype(np.float32)
        self.queries = hmann.read_vectors(QUERIES, COUNT).astype(np.float32)

    def algorithm(self, metric):
        constructor = getattr(self.module, self.definition["constructor"])
        [[build]] = self.definition["run_groups"]["graph"]["args"]
        return constructor(metric, build)

    def test_every_setting_of_its_configuration(self):
        for theirs, ours in (("euclidean", "l2"), ("angular", "cosine")):
            with self.subTest(theirs):
                algorithm = self.algorithm(theirs)
                algorithm.fit(self.base)
                truth = hmann.exact_neighbors(self.base, self.queries, K, metric=ours)
                recalls = []
                [ladder] = self.definition["run_groups"]["graph"]["query_args"]
                for params in ladder:
                    algorithm.set_query_arguments(params)
                    singles = np.array([algorithm.query(q, K) for q in self.queries])
                    algorithm.batch_query(self.queries, K)
                    np.testing.assert_array_equal(algorithm.get_batch_results(), singles)
                    self.assertIn(f"'epsilon': {params['epsilon']}", str(algorithm))
                    recalls.append(share_found(singles, truth))
                self.assertEqual({len(set(labels)) for labels in singles}, {K})
                self.assertEqual(recalls, sorted(recalls))
                self.assertGreaterEqual(recalls[-1], 0.999)
                self.assertEqual(algorithm.get_additional(), {})
                algorithm.done()


class Sample:
    """A set in big-ann-benchmarks' own form, whose file has a name that hmann does not know."""

    nb, nq, d, dtype = ROWS, COUNT, 128, "uint8"

    def get_dataset_fn(self):
        path = "sample.u8bin.crop_nb_2000"
        if not os.path.exists(path):
            hmann.write_vectors("part.u8bin", hmann.read_vectors(BASE, ROWS))
            os.rename("part.u8bin", path)
        return path

    def short_name(self):
        return f"Sample-{self.nb}"

    def search_type(self):
        return "knn"


class Tags:
    """A sparse matrix, as scipy's csr_matrix: row i has tags i % 3 and 10 + i % 4."""

    def __init__(self, rows):
        self.shape = rows, 20
        self.indptr = np.arange(rows + 1) * 2
        numbers = np.arange(rows)
        self.indices = np.stack([numbers % 3, 10 + numbers % 4], 1).astype(np.int32).ravel()

    def write(self, path):
        with open(path, "wb") as file:
            np.array([*self.shape, len(self.indices)], np.int64).tofile(file)
            self.indptr.astype(np.int64).tofile(file)
            self.indices.tofile(file)
            np.ones(len(self.indices), np.float32).tofile(file)


class FilteredSample(Sample):
    """One of the filter track, whose file of tags has no suffix."""

    basedir, ds_metadata_fn = "tags", "metadata_2000"

    def __init__(self):
        os.makedirs(self.basedir, exist_ok=True)
        Tags(self.nb).write(os.path.join(self.basedir, self.ds_metadata_fn))

    def search_type(self):
        return "knn_filtered"


class BigAnnBenchmarksTest(unittest.TestCase):
    def setUp(self):
        folder = ADAPTERS / "big_ann_benchmarks"
        self.module = load(folder / "hmann_index.py")
        self.module.DATASETS.update(sample=Sample, filtered=FilteredSample)
        self.definitions = yaml.safe_load((folder / "algos.yaml").read_text())
        self.definition = self.definitions["any"]["hmann"]
        self.queries = hmann.read_vectors(QUERIES, COUNT)
        self.truth = hmann.exact_neighbors(hmann.read_vectors(BASE, ROWS), self.queries, K)
        scratch = tempfile.TemporaryDirectory(prefix="hmann_python_")
        self.addCleanup(scratch.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(scratch.name)

    def algorithm(self, group):
        [options] = json.loads(self.definition["run-groups"][group]["args"])
        return getattr(self.module, self.definition["constructor"])("euclidean", options)

    def test_every_setting_of_its_configuration(self):
        for group, track in (("dram", "T1"), ("nvme", "T2")):
            with self.subTest(group):
                algorithm = self.algorithm(group)
                self.assertEqual(algorithm.track(), track)
                self.assertFalse(algorithm.load_index("sample"))
                algorithm.fit("sample")
                found = self.run_all(algorithm, group)
                algorithm.done()
                folder, name, parts = algorithm.index_files_to_store("sample")
                self.assertEqual(os.listdir(folder), [name + part for part in parts])
                again = self.algorithm(group)
                self.assertTrue(again.load_index("sample"))
                np.testing.assert_array_equal(self.run_all(again, group), found)
                again.done()

    def test_filters(self):
        self.definition = self.definitions["yfcc-10M"]["hmann"]
        algorithm = self.algorithm("filter")
        algorithm.fit("filtered")
        folder, name, parts = algorithm.index_files_to_store("filtered")
        self.assertEqual(sorted(os.listdir(folder)), [name + part for part in parts])
        base = hmann.read_vectors(BASE, ROWS).astype(np.int64)
        tags = Tags(COUNT)
        tags.indptr[-1] -= 2  # the last query wants no tag
        truth = []
        for i, query in enumerate(self.queries.astype(np.int64)):
            rows = np.arange(i % 12 if i < COUNT - 1 else 0, ROWS, 12 if i < COUNT - 1 else 1)
            truth.append(rows[np.argsort(((base[rows] - query) ** 2).sum(1), kind="stable")[:K]])
        for params in json.loads(self.definition["run-groups"]["filter"]["query-args"]):
            algorithm.set_query_arguments(params)
            algorithm.filtered_query(self.queries, tags, K)
            found = algorithm.get_results()
            self.assertEqual(found.shape, (COUNT, K))
            for i, labels in enumerate(found[:-1]):
                self.assertEqual(set(labels % 12), {i % 12})
            self.assertGreater(algorithm.get_additional()["dist_comps"], K)
        share = np.mean([np.isin(mine, theirs).mean() for mine, theirs in zip(found, truth)])
        self.assertGreaterEqual(share, 0.99)
        algorithm.done()
        self.assertTrue(self.algorithm("filter").load_index("filtered"))

    def test_a_runbook(self):
        """Vectors come, go and come again under other labels, and each answer is of those that
        are there.
        """
        self.definition = self.definitions["msturing-30M-clustered"]["hmann"]
        algorithm = self.algorithm("stream")
        algorithm.setup("uint8", ROWS, 128)
        base = hmann.read_vectors(BASE, ROWS)
        there = {}

        def put(operation, rows, labels):
            operation(base[rows], labels.astype(np.uint32))
            there.update(zip(labels.tolist(), rows.tolist()))

        def search():
            labels = np.array(sorted(there))
            rows = base[[there[label] for label in labels]]
            truth = hmann.exact_neighbors(rows, self.queries, K, progress=False)
            for params in json.loads(self.definition["run-groups"]["stream"]["query-args"]):
                algorithm.set_query_arguments(params)
                algorithm.query(self.queries, K)
                found = algorithm.get_results()
                self.assertTrue(np.isin(found, labels).all())
            share = np.mean([np.isin(a, labels[b]).mean() for a, b in zip(found, truth.labels)])
            self.assertGreaterEqual(share, 0.97)
            self.assertGreater(algorithm.get_additional()["dist_comps"], K)

        first, second = np.arange(1200), np.arange(1200, ROWS)
        put(algorithm.insert, first, first + 1)
        search()
        algorithm.delete(np.arange(301, 701, dtype=np.uint32))
        for label in range(301, 701):
            del there[label]
        search()
        put(algorithm.insert, second, second + 1)
        put(algorithm.replace, first[:200], first[:200] + 50)
        search()
        algorithm.done()

    def run_all(self, algorithm, group):
        """Its answers at the last setting."""
        recalls, reads = [], []
        for params in json.loads(self.definition["run-groups"][group]["query-args"]):
            algorithm.set_query_arguments(params)
            algorithm.query(self.queries, K)
            self.assertEqual(algorithm.get_results().shape, (COUNT, K))
            recalls.append(share_found(algorithm.get_results(), self.truth))
            additional = algorithm.get_additional()
            self.assertGreater(additional["dist_comps"], K)
            reads.append(additional["mean_ssd_ios"])
        self.assertEqual(recalls, sorted(recalls))
        self.assertGreaterEqual(recalls[-1], 0.99)
        self.assertEqual([read > 0 for read in reads], [group == "nvme"] * len(reads))
        return algorithm.get_results()


if __name__ == "__main__":
    unittest.main()
