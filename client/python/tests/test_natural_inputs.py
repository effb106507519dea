"""What people have is taken: by the index, the clients, build, exact search and files."""

import asyncio
import fractions
import unittest
import warnings

import numpy as np
from common import FolderCase
from server import OpenedCase

import hmann


class Frame:
    """What pandas' Series and DataFrame are here: values behind `to_numpy`."""

    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return self.values


class Numbers:
    """What a tensor is here: values behind `__array__`."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None):
        return np.asarray(self.values, dtype)


class Tensor:
    """What a tensor on the CPU is here, without `__array__`: a DLPack of its memory."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **more):
        return self.values.__dlpack__(**more)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class Grad:
    """A tensor that keeps a gradient, as one of torch: numpy may read it when detached."""

    def __init__(self, values, device="cpu", requires_grad=True):
        self.values, self.device, self.requires_grad = values, device, requires_grad

    def detach(self):
        return Grad(self.values, self.device, False)

    def cpu(self):
        return Grad(self.values, "cpu", self.requires_grad)

    def __array__(self, dtype=None):
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.device != "cpu":
            raise TypeError(f"can't convert {self.device} device type tensor to numpy.")
        return np.asarray(self.values, dtype)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, place):
        return Grad(self.values[place], self.device, self.requires_grad)


class View(np.ndarray):
    """A subclass, as numpy.memmap is one."""


class OnAnotherDevice:
    """A tensor that numpy cannot read."""

    def __array__(self, dtype=None):
        raise TypeError("can't convert cuda:0 device type tensor to numpy.\nCopy it first.")


def column(rows):
    """The values of a column of pandas that holds arrays: rows as objects."""
    values = np.empty(len(rows), object)
    for place, row in enumerate(rows):  # numpy would read a tensor
        values[place] = row
    return values


def forms_of(whole):
    """Forms of vectors of small whole numbers, shape (n, dim) or (dim,)."""
    yield "lists", whole.tolist()
    yield "lists of floats", whole.astype(float).tolist()
    yield "tuples", tuple(map(tuple, whole.tolist())) if whole.ndim == 2 else tuple(whole.tolist())
    for dtype in (">f4", ">f8", ">i2", "<f2", np.float64, np.int64, np.int32, np.uint16,
                  np.longdouble):  # fmt: skip
        yield str(np.dtype(dtype)), whole.astype(dtype)
    yield "objects", whole.astype(object)
    yield "a frame", Frame(whole.astype(float))
    yield "numbers", Numbers(whole)
    yield "a tensor", Tensor(whole.astype(np.float32))
    yield "a tensor with a gradient", Grad(whole.astype(np.float32))
    yield "a tensor elsewhere", Grad(whole.astype(np.float32), "cuda:0")
    yield "Fortran", np.asfortranarray(whole)
    yield "a subclass", whole.view(View)
    if whole.ndim == 2:
        yield "a list of arrays", list(whole)
        yield "a list of tensors with gradients", [Grad(row.astype(np.float32)) for row in whole]
        yield "a column of tensors", column([Grad(row.astype(np.float32)) for row in whole])
        yield "a column of arrays", Frame(column(whole.astype(np.float32)))
        yield "a column of lists", column(whole.tolist())


class QueriesTest(OpenedCase):
    def test_by_the_index_and_by_a_client(self):
        for queries in (self.queries[:20], self.queries[3]):
            expected = self.local.search(queries, 5)
            for name, form in forms_of(queries):
                with self.subTest(name), warnings.catch_warnings():
                    warnings.simplefilter("error")  # queries are few: their copy is not said
                    self.assert_same(self.local.search(form, 5), expected)
                    self.assert_same(self.index.search(form, 5), expected)

    def test_by_asyncio_and_by_streams(self):
        expected = self.local.search(self.queries[3], 5)
        lists = [self.queries[3].tolist()] * 2

        async def ask():
            async with hmann.AsyncClient(self.server.address) as client:
                return await (await client.open("sample")).search(lists[0], 5)

        self.assert_same(asyncio.run(ask()), expected)
        for _, answer in self.index.search_stream(lists, 5):
            self.assert_same(answer, expected)

    def test_what_is_wrong_is_named_by_both(self):
        bad, masked = hmann.InvalidArgumentError, np.ma.masked_equal(self.queries, 0)
        below = self.queries.astype(int)
        below[4, 7] = -1
        for queries, text in (
            ([[1, 2], [3]], "queries: row 1 has 1 components, row 0 has 2"),
            (column([[1] * 128, [1] * 100]), "queries: row 1 has 100 components, row 0 has 128"),
            ([1, 2, 3], "expected vectors of 128 x uint8 as in the index, found 3 x uint8"),
            (masked, "queries: expected an array without masked entries"),
            ("text", "queries: expected real numbers, found '<U4'"),
            ([["a"] * 128], "queries: expected real numbers, found '<U1'"),
            ([1j] * 128, "queries: expected real numbers, found 'complex128'"),
            ([fractions.Fraction(1)] * 128, "queries: expected real numbers, found 'object'"),
            ([True] * 128, "queries: expected real numbers, found 'bool'"),
            (None, "queries: expected real numbers, found 'object'"),
            (OnAnotherDevice(), "queries: cannot be read as an array: can't convert cuda:0"),
            (below, "queries: expected values that uint8 holds, found -1 at [4, 7]"),
            ([256.0] * 128, "queries: expected values that uint8 holds, found 256.0 at [0]"),
            ([0.5] * 128, "queries: expected values that uint8 holds, found 0.5 at [0]"),
            ([np.nan] * 128, "queries: expected values that uint8 holds, found nan at [0]"),
        ):
            for index in (self.local, self.index):
                with self.subTest(text, index=index):
                    error = self.assert_raises(bad, text, index.search, queries)
                    self.assertLessEqual(len(str(error)), 150)
                    self.assertNotIn("\n", str(error))

    def test_options_of_other_libraries(self):
        no_such = hmann.InvalidTypeError
        for index in (self.local, self.index):
            for name, meant in (("ef", "ef_l0"), ("efSearch", "ef_l0"), ("recal", "recall")):
                error = self.assert_raises(
                    no_such, f"{name}: no such option; did you mean {meant}?", index.search,
                    self.queries, **{name: 3},
                )  # fmt: skip
                self.assertIsInstance(error, TypeError)


class VectorsTest(FolderCase):
    def build(self, base, **options):
        out = self.folder / "natural.hmann"
        hmann.build(base, out, progress=False, **options)
        return out.read_bytes()

    def test_a_base_in_any_form(self):
        whole = self.base[:300]
        as_u8, as_f16, as_f32 = (
            self.build(whole.astype(dtype)) for dtype in (np.uint8, np.float16, np.float32)
        )
        for name, form in forms_of(whole):
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore", hmann.InputWarning)
                own = name in ("numbers", "Fortran", "a subclass", "a list of arrays")
                expected = as_u8 if own else as_f16 if name == "float16" else as_f32
                self.assertEqual(self.build(form), expected)

    def test_a_copy_of_a_base_is_said_once(self):
        random = np.random.default_rng(1).standard_normal((600, 500))
        with self.assertWarns(hmann.InputWarning) as caught:
            self.build(random)
        self.assertEqual(
            [str(warning.message) for warning in caught.warnings],
            ["base: float64 was copied to float32 (1.14 MiB); pass float32 to save the copy"],
        )
        self.assertEqual(caught.filename, __file__)
        with self.assertWarnsRegex(hmann.InputWarning, "base: int64 was copied to float32"):
            hmann.exact_neighbors(self.base[:9].astype(int), self.base, 3, progress=False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.build(random.astype(np.float32))
            self.build(random[:20].tolist())

    def test_a_base_that_is_none(self):
        bad, large = hmann.InvalidArgumentError, np.ones((9, 4))
        large[3] = 1e300
        self.assert_raises(bad, "base: a value is beyond the range of float32", self.build, large)
        large[3] = np.nan
        with self.assertWarns(hmann.InputWarning):
            self.assert_raises(bad, "vector 3: component 0", self.build, large)
        self.assert_raises(bad, "base: row 1 has 1 components", self.build, [[1, 2], [3]])
        self.assert_raises(bad, "base: expected real numbers", self.build, large > 0)

    def test_exact_neighbors_and_files(self):
        expected = hmann.exact_neighbors(self.base, self.queries[:9], 5, progress=False)
        floats = self.base.astype(np.float32)
        for name, form in forms_of(self.queries[:9]):
            with self.subTest(name):
                for base in (self.base, floats):
                    found = hmann.exact_neighbors(base, form, 5, progress=False)
                    self.assert_same(found, expected)
                for suffix in (".u8bin", ".fbin"):
                    path = self.folder / f"queries{suffix}"
                    hmann.write_vectors(path, form)
                    np.testing.assert_array_equal(hmann.read_vectors(path), self.queries[:9])
        with hmann.open(self.path) as index:
            index.tune(3, recall=0.9, queries=self.queries.tolist(), learn=100,
                       accept_noise=True, progress=False)  # fmt: skip

    def test_an_assumed_metric_is_said_of_unit_vectors(self):
        vectors = np.random.default_rng(2).standard_normal((500, 8)).astype(np.float32)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        out = self.folder / "unit.hmann"
        with self.assertWarnsRegex(hmann.InputWarning, "metric l2 of vectors of length 1") as said:
            report = hmann.build(unit, out, progress=False)
        self.assertEqual(report["notes"], [str(said.warning)])
        self.assertEqual(said.filename, __file__)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            hmann.build(unit, out, metric="l2", progress=False)
            self.assertEqual(hmann.build(vectors, out, progress=False)["notes"], [])
            cosine = hmann.build(unit, out, metric="cosine", progress=False)
            self.assertEqual(cosine["notes"], [])

    def test_names_of_other_libraries(self):
        for name, meant in (
            ("M", "m"), ("efConstruction", "ef_construction"), ("space", "metric"),
            ("fast_mem", "fast_memory"),
        ):  # fmt: skip
            self.assert_raises(
                hmann.InvalidTypeError, f"{name}: no such option; did you mean {meant}?",
                self.build, self.base, **{name: 3},
            )  # fmt: skip
        self.assert_raises(
            hmann.InvalidTypeError, "did you mean slow?", hmann.open, self.path, slo="dram"
        )

    def test_a_plan_of_a_path(self):
        expected = hmann.plan(index=self.path, fast_memory="2MiB")
        self.assertEqual(hmann.plan(self.path, fast_memory="2MiB"), expected)
        self.assertEqual(expected["n"], 2000)


class LabelsTest(FolderCase):
    def setUp(self):
        self.index = hmann.open(self.path)
        self.addCleanup(self.index.close)

    def test_filters(self):
        mask = np.arange(2000) < 40
        expected = self.index.search(self.queries, 5, filter=mask)
        self.assertLess(expected.labels.max(), 40)
        for filter in (
            set(range(40)), frozenset(range(40)), range(40), list(range(40)), tuple(range(40)),
            np.arange(40, dtype=np.uint8), np.arange(40, dtype=">i8"), Frame(np.arange(40)),
            mask.tolist(), Frame(mask), column(list(range(40))),
            np.arange(2000, dtype=np.int64) % 40,
        ):  # fmt: skip
            with self.subTest(type(filter)):
                self.assert_same(self.index.search(self.queries, 5, filter=filter), expected)
        for nothing in (set(), [], np.zeros(0, bool)):
            self.assertEqual(len(self.index.matching(nothing)), 0)

    def test_a_mask_of_numbers_is_refused(self):
        mask = np.arange(2000) % 2
        for dtype in (np.uint8, np.int8, np.int64):
            error = self.assert_raises(
                hmann.InvalidArgumentError, "pass mask.astype(bool)", self.index.search,
                self.queries, filter=mask.astype(dtype),
            )  # fmt: skip
            self.assertTrue(str(error).startswith("filter: 2000 numbers of 0 and 1"))
            self.assertLessEqual(len(str(error)), 150)
        self.assertEqual(len(self.index.matching(mask.astype(bool))), 1000)
        self.assertEqual(len(self.index.matching(mask[:1999].astype(np.uint8))), 2)  # no mask
        self.assertEqual(len(self.index.matching(2 * mask.astype(np.uint8))), 2)
        self.assert_raises(
            hmann.InvalidArgumentError, "filter: expected 0 to 2^63 - 1, found -1 at 1",
            self.index.matching, [5, -1],
        )  # fmt: skip

    def test_labels(self):
        labels = np.arange(2000) * 3
        for form in (labels.tolist(), labels.astype(">i8"), Frame(labels.astype(np.uint32)),
                     range(0, 6000, 3), column(labels.tolist())):  # fmt: skip
            out = self.folder / "labels.hmann"
            hmann.build(self.base, out, labels=form, calibrate=False, progress=False)
            with hmann.open(out) as index:
                self.assertEqual(index.search(self.base[7], 1).labels[0], 21)
                for one in ([21], range(21, 22), {21}, Frame(np.array([21]))):
                    np.testing.assert_array_equal(index.get(one), self.base[7:8])
                np.testing.assert_array_equal(index.get(np.int32(21)), self.base[7])

    def test_labels_that_an_index_does_not_hold(self):
        labels = np.arange(-5, 1995)
        advice = ": leave labels out, and look yours up by row: own[answer.labels]"
        advice += "; a collection takes strings, too"
        for form, kind, text in (
            (labels, hmann.InvalidArgumentError, "labels: expected 0 to 2^63 - 1, found -5 at 0"),
            (list(map(str, labels)), hmann.InvalidTypeError, "expected whole numbers, found '<U4'"),
        ):
            error = self.assert_raises(
                kind, text + advice, hmann.build, self.base, self.folder / "x", labels=form,
                progress=False,
            )  # fmt: skip
            self.assertLessEqual(len(str(error)), 150)
        address = self.assert_raises(
            hmann.InvalidTypeError, "labels: expected", hmann.build, self.base,
            self.folder / "x", labels=[object()] * 2000, progress=False,
        )  # fmt: skip
        self.assertNotIn(" at 0x", str(address))
        own = list(map(str, labels))
        self.assertEqual(own[self.index.search(self.base[7], 1).labels[0]], "2")


class AttributesTest(FolderCase):
    def test_a_dict_for_each_vector(self):
        rows = [{"year": 2000 + i % 10, "tags": ["even", "odd"][i % 2]} for i in range(2000)]
        rows[4] = rows[5] = None
        rows[6] = {"year": None, "tags": []}
        out = self.folder / "attrs.hmann"
        for form in (rows, tuple(rows), iter(rows)):
            hmann.build(self.base, out, attrs=form, calibrate=False, progress=False)
            with hmann.open(out) as index:
                self.assertEqual(len(index.matching("year = 2003")), 200)
                self.assertEqual(len(index.matching('tags = "even"')), 998)
        (self.folder / "attrs.hmann.attrs").unlink()
        for form, kind, text in (
            (rows[:5], hmann.InvalidArgumentError, "5"),
            ({"year": 1}, hmann.InvalidArgumentError, "a dict for each vector"),
            ([1] * 2000, hmann.InvalidTypeError, "row 0: expected a dict"),
            (7, hmann.InvalidTypeError, "expected dicts, found 7"),
        ):
            self.assert_raises(
                kind, text, hmann.build, self.base, self.folder / "x.hmann", attrs=form,
                calibrate=False, progress=False,
            )  # fmt: skip
            self.assertFalse((self.folder / "x.hmann").exists())


class FileTest(FolderCase):
    def test_npy(self):
        vectors = np.random.default_rng(3).integers(0, 9, (300, 4)).astype(np.float32)
        labels = np.arange(300, dtype=np.int64) * 7
        np.save(self.folder / "labels.npy", labels)
        for name, array in (
            ("c", vectors),
            ("fortran", np.asfortranarray(vectors)),
            ("double", vectors.astype(">f8")),
            ("bytes", vectors.astype("u1")),
        ):
            np.save(self.folder / f"{name}.npy", array)
            np.testing.assert_array_equal(hmann.read_vectors(self.folder / f"{name}.npy"), vectors)
            out = self.folder / f"{name}.hmann"
            hmann.build(self.folder / f"{name}.npy", out, labels=self.folder / "labels.npy",
                        metric="l2", progress=False)  # fmt: skip
            with hmann.open(out) as index:
                found, distances = index.search(vectors[:5], k=1)
                np.testing.assert_array_equal(distances, np.zeros((5, 1)))
                np.testing.assert_array_equal(index.get(found[:, 0]), vectors[:5])
        hmann.write_vectors(self.folder / "back.npy", vectors)
        np.testing.assert_array_equal(np.load(self.folder / "back.npy"), vectors)
        hmann.write_vectors(self.folder / "back.csv", vectors)
        np.testing.assert_array_equal(np.loadtxt(self.folder / "back.csv", delimiter=","), vectors)


if __name__ == "__main__":
    unittest.main()
