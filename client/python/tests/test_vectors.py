"""Vector files, exact neighbors, recall."""

import unittest

import numpy as np
from common import BASE, QUERIES, TRUTH, FolderCase

import hmann


def brute_force(base, queries, k, metric):
    """The obvious reference, in float64: labels and distances."""
    base, queries = base.astype(np.float64), queries.astype(np.float64)
    if metric == "cosine":
        base = base / np.linalg.norm(base, axis=1, keepdims=True)
        queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    if metric == "l2":
        distances = ((queries[:, None, :] - base[None, :, :]) ** 2).sum(axis=2)
    else:
        distances = (metric == "cosine") - queries @ base.T
    labels = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return labels, np.take_along_axis(distances, labels, axis=1)


class FilesTest(FolderCase):
    def test_every_format_gives_back_what_was_written(self):
        random = np.random.default_rng(1)
        for suffix, dtype in (
            (".fbin", np.float32), (".fvecs", np.float32), (".u8bin", np.uint8),
            (".bvecs", np.uint8), (".i8bin", np.int8),
        ):  # fmt: skip
            vectors = random.integers(0, 100, (17, 9)).astype(dtype)
            path = self.folder / f"x{suffix}"
            hmann.write_vectors(path, vectors)
            back = hmann.read_vectors(path)
            self.assertEqual((back.dtype, back.shape), (dtype, (17, 9)))
            np.testing.assert_array_equal(back, vectors)
            np.testing.assert_array_equal(hmann.read_vectors(str(path), 5), vectors[:5])

    def test_the_array_is_the_file_and_read_only(self):
        vectors = hmann.read_vectors(BASE)
        self.assertFalse(vectors.flags.owndata)
        with self.assertRaises(ValueError):
            vectors[0, 0] = 1
        with self.assertRaises(ValueError):
            vectors.flags.writeable = True
        row = vectors[9999]
        del vectors  # the row keeps the mapping
        self.assertEqual(row.shape, (128,))
        self.assertGreater(int(row.sum()), 0)

    def test_one_file_to_another(self):
        hmann.write_vectors(self.folder / "base.fbin", QUERIES)
        as_floats = hmann.read_vectors(self.folder / "base.fbin")
        np.testing.assert_array_equal(as_floats, self.queries)

    def test_what_is_wrong(self):
        bad = hmann.InvalidArgumentError
        write = hmann.write_vectors
        floats = np.full((3, 2), 0.5, np.float32)
        self.assert_raises(bad, "row 0", write, self.folder / "bad.u8bin", floats)
        floats[1, 1] = np.nan
        self.assert_raises(bad, "row 1, component 1", write, self.folder / "bad.fbin", floats)
        self.assert_raises(bad, "suffix", write, self.folder / "x.txt", self.base)
        self.assert_raises(bad, "ids", write, self.folder / "x.ibin", self.base)
        self.assert_raises(bad, "an archive", write, "x.npz", self.base)
        self.assert_raises(hmann.NotFoundError, "", write, "/nowhere/x.fbin", floats[:1])
        self.assert_raises(hmann.NotFoundError, "x.fbin", hmann.read_vectors, "/nowhere/x.fbin")
        self.assert_raises(bad, "rows", hmann.read_vectors, BASE, 10**9)
        self.assert_raises(hmann.InvalidTypeError, "rows", hmann.read_vectors, BASE, "all")
        self.assert_raises(hmann.InvalidTypeError, "path", hmann.read_vectors, None)
        short = self.folder / "short.fbin"
        short.write_bytes(b"\x05\0\0\0\x05\0\0\0abc")
        self.assert_raises(bad, "short.fbin", hmann.read_vectors, short)
        self.assertEqual(list(self.folder.glob("bad*")), [])


class ExactTest(FolderCase):
    def test_beside_the_obvious(self):
        random = np.random.default_rng(3)
        for dtype in (np.float32, np.uint8, np.int8):
            base = random.integers(-50 if dtype != np.uint8 else 0, 100, (400, 12)).astype(dtype)
            queries = base[:30] + dtype(1)
            for metric in ("l2", "ip", "cosine"):
                found = hmann.exact_neighbors(
                    base, queries, 7, metric=metric, threads=2, progress=False
                )
                labels, distances = brute_force(base, queries, 7, metric)
                np.testing.assert_allclose(found.distances, distances, rtol=1e-5, atol=1e-5)
                if dtype != np.float32 and metric != "cosine":
                    np.testing.assert_array_equal(found.labels, labels)

    def test_of_files(self):
        truth = hmann.read_groundtruth(TRUTH)
        found = hmann.exact_neighbors(BASE, QUERIES, 20, progress=False)
        np.testing.assert_array_equal(found.distances, truth.distances[:, :20])
        self.assertEqual(hmann.recall(found, truth), 1)

    def test_what_is_wrong(self):
        bad, exact = hmann.InvalidArgumentError, hmann.exact_neighbors
        floats = self.queries.astype(np.float32)
        self.assert_raises(
            bad, "queries: expected values that uint8 holds, found 0.5 at [0, 0]", exact, self.base,
            floats + np.float32(0.5) - floats[0, 0],
        )  # fmt: skip
        self.assert_raises(bad, "k: 0 asked for", exact, self.base, self.queries, 0)
        self.assert_raises(bad, "k: 2001 asked for", exact, self.base, self.queries, 2001)
        self.assert_raises(bad, "l3", exact, self.base, self.queries, 1, metric="l3")
        self.assert_raises(bad, "shape (n, dim)", exact, self.base, self.queries[0], 1)
        floats[3, 4] = np.inf
        self.assert_raises(bad, "base: row 3, component 4", exact, floats, floats, 1)


class RecallTest(FolderCase):
    def answer(self, labels, distances):
        return hmann.Answer(np.array(labels, np.int64), np.array(distances, np.float32))

    def test_by_hand(self):
        truth = self.answer([[1, 2, 3], [4, 5, 6]], [[1, 2, 3], [1, 2, 3]])
        found = self.answer([[1, 9, 3], [4, 5, 6]], [[1, 2.5, 3], [1, 2, 3]])
        self.assertAlmostEqual(hmann.recall(found, truth), 5 / 6)
        self.assertAlmostEqual(hmann.recall(found, truth, 1), 1)
        self.assertAlmostEqual(hmann.recall(found, truth, 2), 3 / 4)
        one = self.answer([1, 9, 3], [1, 2.5, 3])
        self.assertAlmostEqual(hmann.recall(one, truth), 2 / 3)

    def test_a_tie_counts(self):
        truth = self.answer([[1, 2]], [[1, 2]])
        self.assertEqual(hmann.recall(self.answer([[1, 7]], [[1, 2]]), truth), 1)
        self.assertEqual(hmann.recall(self.answer([[1, 7]], [[1, 3]]), truth), 0.5)

    def test_equal_directions_are_found(self):
        """A kernel and a double differ by roundings of 1, where the distances are 0."""
        row = np.arange(1, 17)
        queries = np.stack([row, 2 * row, row[::-1]])
        for dtype in (np.uint8, np.int8, np.float32, np.float16):
            base = np.repeat(row[None, :], 400, axis=0).astype(dtype)
            base[::2] *= 3
            path = self.folder / f"{np.dtype(dtype).name}.hmann"
            hmann.build(base, path, metric="cosine", progress=False)
            found = hmann.open(path).search(queries.astype(dtype), 10)
            truth = hmann.exact_neighbors(
                base, queries.astype(dtype), 10, metric="cosine", progress=False
            )
            self.assertEqual((found.metric, truth.metric), ("cosine", "cosine"))
            self.assertEqual(hmann.recall(found, truth), 1, dtype)
            labels, distances = truth
            self.assertEqual(hmann.recall(found, (labels, distances)), 1, dtype)
            self.assertLess(hmann.recall(found, (labels + 1000, distances + 0.1)), 0.1)

    def test_what_is_wrong(self):
        truth = self.answer([[1, 2]], [[1, 2]])
        for found, k in ((self.answer([[1, 2, 3]], [[1, 2, 3]]), None), (truth, 3), (truth, 0),
                         (self.answer([[1], [2]], [[1], [2]]), None)):  # fmt: skip
            with self.assertRaises(hmann.InvalidArgumentError):
                hmann.recall(found, truth, k)
        for found in (np.array([[1, 2, 3]]), None, [[1, 2, 3]]):
            with self.assertRaisesRegex(hmann.InvalidTypeError, r"expected \(labels, distances\)"):
                hmann.recall(found, truth)
        for labels in ([[1.5, 2]], [["a", "b"]], [[[1, 2]]]):
            with self.assertRaisesRegex(hmann.InvalidArgumentError, "found: expected labels"):
                hmann.recall((labels, None), truth)

    def test_without_distances(self):
        truth = self.answer([[1, 2], [3, 4]], [[1, 2], [1, 2]])
        self.assertEqual(hmann.recall(([[1, 2], [9, 4]], None), truth), 3 / 4)
        self.assertEqual(hmann.recall((np.array([1, 9]), None), (truth.labels[:1], None)), 1 / 2)
        # -1 stands for no answer, or for a neighbor that the truth does not have.
        self.assertEqual(hmann.recall(([[1, -1]], None), ([[1, -1]], None)), 1)
        self.assertEqual(hmann.recall(([[1, -1]], None), ([[1, 2]], None)), 1 / 2)

    def test_k_of_thousands(self):
        labels = np.arange(20000)[::-1].copy().reshape(1, -1)
        self.assertEqual(hmann.recall((labels, None), (labels[:, ::-1], None)), 1)


if __name__ == "__main__":
    unittest.main()
