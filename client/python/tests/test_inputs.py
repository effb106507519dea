"""What is wrong, said from Python: a named exception each time."""

import os
import pathlib
import threading
import unittest

import numpy as np
from common import BASE, FolderCase, PROGRAM, QUERIES

import subprocess

import hmann


class BuildInputsTest(FolderCase):
    def build(self, base, **options):
        return hmann.build(base, self.folder / "bad.hmann", progress=False, **options)

    def tearDown(self):
        self.assertFalse((self.folder / "bad.hmann").exists())

    def test_arrays_that_cannot_be_indexed(self):
        bad = hmann.InvalidArgumentError
        for base, text in (
            (np.zeros((10, 4), complex), "base: expected real numbers, found 'complex128'"),
            (np.zeros((10, 4), "M8[s]"), "found 'datetime64[s]'"),
            (np.full((10, 4), None), "found 'object'"),
            ([["a", "b"]], "found '<U1'"),
            (None, "found 'object'"),
            (np.zeros(10, np.float32), "expected shape (n, dim), found (10,)"),
            (np.zeros((2, 3, 4), np.float32), "found (2, 3, 4)"),
            (np.zeros((0, 4), np.float32), "found (0, 4)"),
            (np.zeros((4, 0), np.float32), "found (4, 0)"),
            (np.zeros((2, 40000), np.float32), "at most 32768 dimensions"),
        ):
            with self.subTest(text):
                error = self.assert_raises(bad, text, self.build, base)
                self.assertIsInstance(error, ValueError)

    def test_numbers_that_are_none(self):
        base = np.ones((50, 4), np.float32)
        base[30, 2] = np.nan
        self.assert_raises(hmann.InvalidArgumentError, "vector 30", self.build, base)
        base[30] = 0
        self.build(base)
        (self.folder / "bad.hmann").unlink()
        self.assert_raises(ValueError, "vector 30", self.build, base, metric="cosine")

    def test_options(self):
        base = self.base
        for options, kind, text in (
            ({"m": 1}, hmann.InvalidArgumentError, "m: expected 2 to 512, found 1"),
            ({"m": -1}, hmann.InvalidArgumentError, "m: expected 0 to"),
            ({"m": 2**70}, hmann.InvalidArgumentError, "m: expected 0 to"),
            ({"m": "ten"}, hmann.InvalidTypeError, "m: expected a whole number, found 'ten'"),
            ({"m": True}, hmann.InvalidTypeError, "m: expected a whole number"),
            ({"m": 16.0}, hmann.InvalidTypeError, "m: expected a whole number"),
            ({"alpha": 3}, hmann.InvalidArgumentError, "alpha: expected 1 to 2, found 3"),
            ({"alpha": "x"}, hmann.InvalidTypeError, "alpha: expected a number"),
            ({"alpha": np.nan}, hmann.InvalidArgumentError, "alpha"),
            ({"metric": "l3"}, hmann.InvalidArgumentError, "l3"),
            ({"metric": 2}, hmann.InvalidTypeError, "metric: expected a text"),
            ({"codes": "link"}, hmann.InvalidTypeError, "codes: no such option"),
            ({"promote": 1.5}, hmann.InvalidArgumentError, "promote: expected a share"),
            ({"color": 1}, hmann.InvalidTypeError, "color: no such option; there are rows,"),
            ({"fast_memory": "1 GiB"}, hmann.InvalidArgumentError, "fast_memory"),
            ({"fast_memory": 1, "promote": 0.1}, hmann.InvalidArgumentError, "promote: cannot"),
            ({"build_memory": "1GiB", "work": "w"}, hmann.InvalidArgumentError, "vector file"),
            ({"labels": [1, 2]}, hmann.InvalidArgumentError, "labels: 2 found, 2000 expected"),
            ({"labels": np.full(2000, -1)}, hmann.InvalidArgumentError, "found -1 at 0"),
            ({"labels": np.zeros(2000)}, hmann.InvalidTypeError, "whole numbers"),
            ({"labels": np.zeros((2000, 1), int)}, hmann.InvalidArgumentError, "shape (n,)"),
            ({"rows": 2001}, hmann.InvalidArgumentError, "rows: 2001 asked for, 2000"),
        ):
            with self.subTest(options):
                self.assert_raises(kind, text, self.build, base, **options)
        self.assert_raises(hmann.InvalidTypeError, "progress", hmann.build, base,
                           self.folder / "bad.hmann", progress="loud")  # fmt: skip

    def test_files(self):
        error = self.assert_raises(hmann.NotFoundError, "nowhere.fbin", self.build, "nowhere.fbin")
        self.assertIsInstance(error, FileNotFoundError)
        self.assert_raises(
            hmann.NotFoundError, "no_folder", hmann.build, BASE, self.folder / "no_folder" / "x",
            progress=False,
        )  # fmt: skip
        for out in (None, 3, "a\0b"):
            self.assert_raises(
                hmann.InvalidTypeError, "out: expected a path", hmann.build, BASE, out
            )

    def test_messages_are_those_of_the_program(self):
        done = subprocess.run(
            [PROGRAM, "build", "--base", "nowhere.fbin", "--out", "x"],
            capture_output=True, text=True,
        )  # fmt: skip
        error = self.assert_raises(hmann.NotFoundError, "", self.build, "nowhere.fbin")
        self.assertIn(str(error), done.stderr)


class OddInputsTest(FolderCase):
    """Masked arrays, labels beyond int64, names that are not UTF-8, files that are none."""

    def test_masked_entries(self):
        masked = np.ma.masked_array(np.ones((50, 4), np.float32), mask=np.eye(50, 4, dtype=bool))
        bad, text = hmann.InvalidArgumentError, "without masked entries"
        out = self.folder / "masked.hmann"
        self.assert_raises(bad, "base: expected an array " + text, hmann.build, masked, out)
        labels = np.ma.masked_array(np.arange(50), mask=np.arange(50) == 3)
        plain = masked.filled(1)
        self.assert_raises(bad, "labels: ", hmann.build, plain, out, labels=labels)
        self.assert_raises(bad, text, hmann.exact_neighbors, plain, masked, 3, progress=False)
        self.assert_raises(bad, text, hmann.write_vectors, self.folder / "m.fbin", masked)
        self.assert_raises(bad, text, hmann.recall, (labels, None), (labels, None))
        self.assertFalse(out.exists())
        hmann.build(np.ma.masked_array(plain), out, progress=False)  # nothing is masked
        with hmann.open(out) as index:
            self.assert_raises(bad, "queries: ", index.search, masked, 3)
            self.assert_raises(bad, "labels: ", index.get, labels)
            self.assert_raises(bad, "filter: ", index.matching, labels)
            self.assert_raises(bad, "filter: ", index.search, plain, 3, filter=labels > 2)
            self.assertEqual(len(index.matching(np.ma.masked_array([1, 2]))), 2)

    def test_labels_beyond_int64(self):
        labels = np.arange(2**64 - 2001, 2**64 - 1, dtype=np.uint64)
        out = self.folder / "large.hmann"
        self.assert_raises(
            hmann.InvalidArgumentError, f"found {labels[0]} at 0", hmann.build, self.base, out,
            labels=labels, progress=False,
        )  # fmt: skip
        labels.tofile(self.folder / "labels.u64")  # a file may have them
        hmann.build(self.base, out, labels=self.folder / "labels.u64", progress=False)
        with hmann.open(out) as index:
            error = self.assert_raises(
                hmann.OutOfRangeError, "label 184467", index.search, self.queries, 3
            )
            self.assertIn("query 0: ", str(error))
            self.assert_raises(
                hmann.InvalidArgumentError, f"found {labels[0]} at 0", index.get, labels[:1]
            )

    def test_names_that_are_not_utf8(self):
        base = bytes(self.folder) + b"/odd\xff.u8bin"
        hmann.write_vectors(base, self.base)
        out = bytes(self.folder) + b"/odd\xff.hmann"
        hmann.build(
            base, out, build_memory="160MiB", work=bytes(self.folder) + b"/odd\xff", progress=False
        )
        with hmann.open(out) as index:
            self.assertEqual(os.fsencode(index.path), out)
            self.assertIn("odd", repr(index))
            self.assertEqual(index.info(), hmann.info(out))
            self.assertEqual(index.warnings, [])
            self.assertGreater(len(index.placements()), 2)
            index.tune(3, recall=0.9, accept_noise=True, learn=200, progress=False)
            index.plan(fast_memory="64MiB")
        self.assert_raises(
            hmann.NotFoundError, "nowhere", hmann.open, bytes(self.folder) + b"/nowhere\xff"
        )
        self.assert_raises(
            hmann.InvalidTypeError, "option: expected a text", hmann.open, self.path,
            **{"\udcff": 1},
        )  # fmt: skip

    def test_files_that_cannot_be_replaced(self):
        pipe = self.folder / "pipe.fbin"
        os.mkfifo(pipe)
        bad = hmann.InvalidArgumentError
        self.assert_raises(bad, "is a pipe", hmann.write_vectors, pipe, self.base)
        self.assert_raises(bad, "is a pipe", hmann.build, self.base, pipe, progress=False)
        self.assert_raises(bad, "is a folder", hmann.build, self.base, self.folder, progress=False)
        with hmann.open(self.path) as index:
            self.assert_raises(bad, "is a pipe", index.promote, pipe, progress=False)
        self.assertTrue(pipe.is_fifo())
        real, link = self.folder / "real.hmann", self.folder / "link.hmann"
        real.write_bytes(self.path.read_bytes())
        link.symlink_to(real.name)
        with hmann.open(link) as index:
            index.promote(promote=0.3, progress=False)
        self.assertTrue(link.is_symlink())
        self.assertAlmostEqual(hmann.info(real)["promote"], 0.3, 2)


class SearchInputsTest(FolderCase):
    def setUp(self):
        self.index = hmann.open(self.path)
        self.addCleanup(self.index.close)

    def test_queries(self):
        for queries, text in (
            (self.queries - np.float32(0.5), ".5 at [0, 0]"),
            (self.queries.astype(np.int8), "found -115 at [0, 16]"),
            (self.queries + 1j, "expected real numbers, found 'complex128'"),
            (self.queries[:, :100], "found 100 x uint8"),
            (self.queries[0, :100], "found 100 x uint8"),
            (np.zeros((1, 1, 128), np.uint8), "found (1, 1, 128)"),
            (np.uint8(3), "found ()"),
            (np.zeros(0, np.uint8), "found 0 x uint8"),
            (None, "found 'object'"),
            ("query", "found '<U5'"),
        ):  # fmt: skip
            with self.subTest(text):
                self.assert_raises(hmann.InvalidArgumentError, text, self.index.search, queries)

    def test_k(self):
        search = self.index.search
        query = self.queries[0]
        self.assertEqual(search(query, np.int64(3)).labels.shape, (3,))
        self.assertEqual(search(query, 2000).labels.shape, (2000,))
        self.assert_raises(
            hmann.InvalidArgumentError, "k: expected at most the 2000 vectors of the index, "
            "found 2001", search, query, 2001,
        )  # fmt: skip
        self.assert_raises(hmann.InvalidArgumentError, "k: expected at least 1", search, query, 0)
        self.assert_raises(hmann.InvalidArgumentError, "k:", search, query, -1)
        self.assert_raises(hmann.InvalidArgumentError, "k:", search, query, 2**64)
        self.assert_raises(hmann.InvalidTypeError, "k:", search, query, "3")
        self.assert_raises(hmann.InvalidTypeError, "k:", search, query, 2.5)

    def test_params(self):
        search = self.index.search
        query = self.queries[0]
        bad, no_such = hmann.InvalidArgumentError, hmann.InvalidTypeError
        self.assert_raises(no_such, "ef: no such option; did you mean ef_l0?", search, query, ef=3)
        self.assert_raises(no_such, "hue: no such option; there are recall,", search, query, hue=3)
        self.assert_raises(bad, "ef_l1: expected 1 to", search, query, ef_l1=0)
        self.assert_raises(bad, "ef_l1", search, query, ef_l1=2.5)
        self.assert_raises(no_such, "ef_l1", search, query, ef_l1=[3])
        self.assert_raises(bad, "mode", search, query, mode="random")
        self.assert_raises(no_such, "mode: expected a text", search, query, mode=2)
        self.assert_raises(bad, "nprobe", search, query, mode="graph", nprobe=3)
        self.assert_raises(bad, "recall", search, query, recall=0.9, ef_l1=3)
        self.assert_raises(hmann.OutOfRangeError, "cannot be met", search, query, latency=1e-9)
        self.assert_raises(bad, "recall", search, query, recall=1.5)
        self.assert_raises(bad, "budget", search, query, budget=-1)
        self.assert_raises(bad, "budget", search, query, budget="soon")
        self.assert_raises(bad, "threads: expected 1 to", search, query, threads=0)
        self.assert_raises(bad, "in_flight: expected 1 to 256", search, query, in_flight=257)
        # What was wrong is not remembered as what was asked.
        self.assertEqual(search(query, 3).labels.shape, (3,))

    def test_nan_and_zero_name_the_query(self):
        vectors = np.random.default_rng(2).standard_normal((300, 8)).astype(np.float32)
        out = self.folder / "floats.hmann"
        hmann.build(vectors, out, metric="cosine", progress=False)
        with hmann.open(out) as index:
            queries = vectors[:40].copy()
            queries[33, 5] = np.nan
            for threads in (1, 2, 3):
                self.assert_raises(
                    hmann.InvalidArgumentError, "query 33: ", index.search, queries, 3,
                    threads=threads,
                )  # fmt: skip
            error = self.assert_raises(
                hmann.InvalidArgumentError, "", index.search, queries[33], 3
            )
            self.assertNotIn("query 33", str(error))
            queries[20] = 0
            self.assert_raises(
                hmann.InvalidArgumentError, "query 20: ", index.search, queries, 3
            )
            queries[20], queries[33] = 1, np.inf
            self.assert_raises(
                hmann.InvalidArgumentError, "query 33: ", index.search, queries, 3
            )

    def test_what_is_closed(self):
        self.index.close()
        self.index.close()
        self.assertTrue(self.index.closed)
        for use in (
            lambda: self.index.search(self.queries[0]),
            lambda: self.index.resolve(10),
            lambda: self.index.info(),
            lambda: self.index.placements(),
            lambda: self.index.tune(),
            lambda: self.index.promote(),
            lambda: self.index.warm(),
            lambda: len(self.index),
            lambda: self.index.dtype,
        ):
            self.assert_raises(hmann.FailedPreconditionError, "the index is closed", use)
        self.assertIn("closed", repr(self.index))


class OpenInputsTest(FolderCase):
    def test_files(self):
        self.assert_raises(FileNotFoundError, "nowhere", hmann.open, self.folder / "nowhere")
        self.assert_raises(FileNotFoundError, "nowhere", hmann.info, self.folder / "nowhere")
        self.assert_raises(hmann.InvalidArgumentError, "", hmann.open, QUERIES)
        self.assert_raises(hmann.InvalidTypeError, "path", hmann.open, 3)
        whole = self.path.read_bytes()
        cut = self.folder / "cut.hmann"
        cut.write_bytes(whole[: len(whole) // 2])
        self.assert_raises(hmann.DataLossError, "cut.hmann", hmann.open, cut)
        damaged = bytearray(whole)
        damaged[100] ^= 255
        cut.write_bytes(damaged)
        self.assert_raises(hmann.Error, "cut.hmann", hmann.open, cut)

    def test_options(self):
        open_, bad = hmann.open, hmann.InvalidArgumentError
        self.assert_raises(bad, "tape", open_, self.path, slow="tape")
        self.assert_raises(bad, "cache", open_, self.path, cache="all")
        self.assert_raises(bad, "cache_size", open_, self.path, cache_size="much")
        self.assert_raises(bad, "cache_size", open_, self.path, cache_size=-1)
        self.assert_raises(hmann.InvalidTypeError, "ram", open_, self.path, ram="all")


class ThreadsTest(FolderCase):
    def run_all(self, *works):
        """Runs them at once; the exceptions that came."""
        failed = []

        def run(work):
            try:
                work()
            except BaseException as error:  # noqa: B902
                failed.append(error)

        threads = [threading.Thread(target=run, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return failed

    def test_many_threads_search_one_index(self):
        with hmann.open(self.path) as index:
            expected = index.search(self.queries, 7)

            def search():
                for turn in range(30):
                    self.assert_same(index.search(self.queries, 7, threads=1 + turn % 3), expected)
                    for i in (0, 7, 11):
                        labels, _ = index.search(self.queries[i], 7)
                        np.testing.assert_array_equal(labels, expected.labels[i])

            self.assertEqual(self.run_all(*[search] * 6), [])

    def test_closed_while_others_search(self):
        for _ in range(10):
            index = hmann.open(self.path)
            begun = threading.Barrier(4)

            def search():
                begun.wait()
                while True:
                    index.search(self.queries, 7)

            def close():
                begun.wait()
                index.close()

            failed = self.run_all(search, search, search, close)
            self.assertEqual(len(failed), 3)
            for error in failed:
                self.assertIsInstance(error, hmann.FailedPreconditionError)

    def test_builds_side_by_side(self):
        outs = [self.folder / f"side{i}.hmann" for i in range(3)]
        failed = self.run_all(
            *[lambda out=out: hmann.build(self.base, out, progress=False) for out in outs]
        )
        self.assertEqual(failed, [])
        for out in outs:
            self.assertEqual(pathlib.Path(out).read_bytes(), self.path.read_bytes())


if __name__ == "__main__":
    unittest.main()
