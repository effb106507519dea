"""Collections: what is put, updated and deleted is what is found; what is wrong says so."""

import datetime
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np
from common import FolderCase, program, program_json

import hmann

bad = hmann.InvalidArgumentError


class MissingTime(datetime.datetime):
    """As NaT of pandas: a datetime that is not itself."""

    def __ne__(self, other):
        return True


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


class CollectionCase(FolderCase):
    """A new folder for each test."""

    def setUp(self):
        self.live = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "c.live"

    def create(self, **options):
        """A collection without merges of its own."""
        hmann.create_collection(self.live, **(options or {"dim": 128, "dtype": "u8"})).close()
        return self.open()

    def open(self, **options):
        collection = hmann.open_collection(self.live, merges=False, **options)
        self.addCleanup(collection.close)
        return collection


class Column:
    """What an Index or a Series of pandas is here."""

    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return np.array(self.values, object)

    def __array__(self, dtype=None):
        return np.asarray(self.to_numpy(), dtype)


def columns_of(names):
    """Forms of labels that are strings."""
    return (names, tuple(names), np.array(names), np.array(names, object), Column(names),
            list(map(np.str_, names)))  # fmt: skip


class NamesTest(CollectionCase):
    def test_labels_may_be_columns_of_strings(self):
        live = self.create()
        names = ["cat.jpg", "dog", "\u00e9t\u00e9"]
        for form in columns_of(names):
            with self.subTest(type(form)):
                self.assertEqual(live.put(form, self.base[:3]), 3)
                np.testing.assert_array_equal(live.get(form), self.base[:3])
                found = live.names(live.search(self.base[:3], 1).labels)
                self.assertEqual(found[:, 0].tolist(), names)
                self.assertEqual(live.update(form, {"a": 1}), 3)
                self.assertEqual(live.delete(form), 3)
        for one in ("dog", np.str_("dog"), np.array("dog")):
            self.assertEqual(live.put(one, self.base[0]), 1)
            np.testing.assert_array_equal(live.get(one), self.base[0])
        numbers = Column([5, 6])
        self.assertEqual(live.put(numbers, self.base[:2]), 2)
        for mixed in (["a", 3], np.array([3, "a"], object), Column(["a", None]),
                      Column(["a", float("nan")])):  # fmt: skip
            self.assert_raises(bad, "or all strings; found", live.put, mixed, self.base[:2])
        opaque = self.assert_raises(
            hmann.InvalidTypeError, "labels: expected whole numbers", live.put,
            [object(), object()], self.base[:2],
        )  # fmt: skip
        self.assertNotIn(" at 0x", str(opaque))
        self.assertEqual(len(live), 3)

    def test_labels_may_be_strings(self):
        live = self.create()
        words = ["cat.jpg", "dog", "käse"]
        live.put(words, self.base[:3], [{"a": 1}, {"a": 2}, {"a": 3}])
        live.put(np.array(["dog", "eel"]), self.base[3:5])
        live.put("fox", self.base[5])
        live.put(7, self.base[6])
        np.testing.assert_array_equal(live.get(["dog", "cat.jpg"]), self.base[[3, 0]])
        np.testing.assert_array_equal(live.get("fox"), self.base[5])
        found = live.search(self.base[[0, 6]], 8, mode="scan")
        names = live.names(found.labels)
        self.assertEqual(names.shape, (2, 8))
        self.assertEqual([names[0, 0], names[1, 0]], ["cat.jpg", 7])
        everything = ["cat.jpg", "dog", "eel", "fox", "käse", 7]
        for row in names.tolist():
            self.assertCountEqual(row, [*everything, None, None])
        self.assertEqual(live.update(["käse"], {"a": 4}), 1)
        self.assertEqual(live.get("käse", attributes=True)[1], {"a": 4})
        self.assertEqual(live.delete(("eel", "nobody")), 1)
        live.compact(progress=False)
        with self.assertRaisesRegex(hmann.NotFoundError, "no vector of the collection has it"):
            live.get(["eel"])
        kept = live.search(self.base[4], 6, mode="scan")
        self.assertNotIn("eel", live.names(kept.labels).tolist())
        self.assertIn("fox", live.names(kept.labels).tolist())


class WriteTest(CollectionCase):
    def test_what_is_put_is_found_and_what_is_deleted_is_not(self):
        live = self.create()
        self.assertEqual(live.put(np.arange(2000) + 7, self.base), 2000)
        truth = hmann.exact_neighbors(self.base, self.queries, 10, progress=False)
        found = live.search(self.queries, 10, mode="scan")
        np.testing.assert_array_equal(found.distances, truth.distances)
        self.assertEqual(hmann.recall(hmann.Answer(found.labels - 7, found.distances), truth), 1)
        np.testing.assert_array_equal(live.get([8, 7]), self.base[[1, 0]])
        gone = np.unique(found.labels[:, 0])
        self.assertEqual(live.delete([*gone.tolist(), 10**12]), len(gone))
        self.assertEqual(len(live), 2000 - len(gone))
        again = live.search(self.queries, 10)
        self.assertFalse(np.isin(again.labels, gone).any())
        self.assertEqual(live.put(7, self.base[5]), 1)
        np.testing.assert_array_equal(live.get(7), self.base[5])
        self.assertEqual(live.put(np.array([], int), self.base[:0]), 0)
        self.assertEqual(live.delete([]), 0)
        live.delete(7)
        self.assertEqual(live.delete(all=True), 2000 - len({7, *gone}))
        self.assertEqual(len(live), 0)
        labels, distances = live.search(self.queries[0], 3)
        self.assertEqual((labels.tolist(), np.isinf(distances).all()), ([-1] * 3, True))

    def test_of_a_label_twice_the_last_counts(self):
        live = self.create()
        self.assertEqual(live.put([3, 4, 3], self.base[:3]), 2)
        np.testing.assert_array_equal(live.get([3, 4]), self.base[[2, 1]])

    def test_a_call_of_many_rows_is_several_writes(self):
        live = self.create(dim=2)
        n = 65_536 + 10
        rows = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
        self.assertEqual(live.put(np.arange(n), rows, {"new": True}), n)
        self.assertEqual(live.info()["sequence"], 2)
        np.testing.assert_array_equal(live.get([0, 65_535, 65_536]), rows[[0, 65_535, 65_536]])
        rows[n - 1, 1] = np.nan
        text = f"of rows 65536 to 65545, row 9 (label {n - 1}): "
        error = self.assert_raises(bad, text, live.put, np.arange(n), rows)
        self.assertIn(f"65536 of {n} are written", str(error))
        self.assertEqual(live.info()["sequence"], 3)
        self.assertEqual(live.update(np.arange(n), {"new": False}), n)
        self.assertEqual(live.delete(np.arange(n - 1)), n - 1)
        self.assertEqual((live.info()["sequence"], len(live)), (7, 1))

    def test_a_write_has_at_most_64_mib(self):
        live = self.create(dim=4)
        text = {"text": "x" * 60_000}
        self.assertEqual(live.put(range(1200), np.ones((1200, 4)), text), 1200)
        self.assertEqual(live.info()["sequence"], 2)
        error = "(label 4): attributes: text: expected at most 65535 bytes"
        self.assert_raises(bad, error, live.put, [4], np.ones((1, 4)), {"text": "x" * 65_536})

    def test_attributes_and_filters(self):
        live = self.create(dim=128, dtype="u8", types="when:time")
        rows = [{"year": 2000 + i % 10, "tags": ["even", "odd"][i % 2]} for i in range(500)]
        rows[3] = {"year": np.int64(2003), "tags": {"odd", "three"}, "share": np.float32(0.5),
                   "when": datetime.datetime(2026, 5, 1, tzinfo=datetime.timezone.utc)}  # fmt: skip
        rows[4], rows[0] = None, {"new": None, "more": [], **rows[0]}
        live.put(range(500), self.base[:500], rows)
        found = live.search(self.queries, 10, filter="year >= 2005", details=True)
        self.assertTrue((found.labels % 10 >= 5).all())
        self.assertEqual((found.details["matches"], found.details["sequence"]), (250, 1))
        same = live.search(self.queries, 10, filter="year >= $y", filter_arguments={"y": 2005})
        self.assert_same(same, found)
        vectors, (three, four) = live.get([3, 4], attributes=True)
        np.testing.assert_array_equal(vectors, self.base[3:5])
        self.assertEqual((three["year"], three["tags"], four), (2003, ["odd", "three"], {}))
        self.assertIn("2026-05-01", str(three["when"]))
        only = live.search(self.queries[0], 5, filter="when > '2026-04-30' and share = 0.5")
        self.assertEqual(only.labels.tolist(), [3, -1, -1, -1, -1])

        self.assertEqual(live.update([3, 5], [{"share": None, "seen": True}, {"year": 1990}]), 2)
        self.assertEqual(live.update(6, {"seen": True, "unknown": None}), 1)
        self.assertEqual(live.update([6, 7], [{}, None]), 2)
        self.assertNotIn("share", live.get(3, attributes=True)[1])
        self.assertEqual(set(live.search(self.base[3], 3, filter="seen").labels), {3, 6, -1})
        self.assertEqual(live.delete(filter="year < $y", filter_arguments={"y": 2000}), 1)
        self.assertEqual(live.delete(filter="year > 2008 and tags = 'odd'"), 50)
        self.assertEqual(len(live), 449)
        with_all = hmann.FailedPreconditionError
        self.assert_raises(with_all, "all 449 vectors: with all=True", live.delete,
                           filter="year > 0 or year is null")  # fmt: skip
        self.assertEqual(live.delete(filter="not year = 1", all=True), 449)

    def test_floats_become_halves(self):
        live = self.create(dim=24, dtype="f16", metric="cosine")
        floats = np.random.default_rng(3).standard_normal((300, 24)).astype(np.float32)
        live.put(np.arange(300), floats)
        live.put(np.arange(300, 600), floats.astype(np.float16))
        unit = floats / np.linalg.norm(floats, axis=1, keepdims=True)
        got = live.get(np.arange(600))
        self.assertEqual((got.dtype, live.dtype), (np.float16, np.float16))
        for part in (got[:300], got[300:]):
            np.testing.assert_allclose(part.astype(np.float32), unit, rtol=0, atol=1e-3)
        found = live.search(floats, 2)
        self.assertEqual(set(map(tuple, np.sort(found.labels, axis=1) - np.arange(300)[:, None])),
                         {(0, 300)})  # fmt: skip
        live.put([1, 2], [[1] * 24, [2.5] * 24])
        live.put(3, np.arange(24, dtype=np.int8))
        self.assert_raises(bad, "row 0 (label 4)", live.put, 4, np.zeros(24))

    def test_a_folder_is_opened_again_here_and_by_the_program(self):
        live = self.create(dim=128, dtype="u8", m=12)
        live.put(np.arange(1000), self.base[:1000], [{"i": i} for i in range(1000)])
        live.delete([5])
        before = live.search(self.queries, 10, mode="scan")
        same = {"merges": 0, "loose_rows": 0}  # what the time since opening changes
        self.assertEqual(
            {**live.info(), **same}, {**program_json("info", self.live), **same}
        )
        for _ in range(2):
            live.close()
            live = self.open()
            self.assert_same(live.search(self.queries, 10, mode="scan"), before)
            self.assertEqual(len(live), 999)
            live.compact(progress=False)
            self.assertEqual(live.info()["sealed_rows"], 999)
        self.assertEqual(hmann.info(live.info()["sealed_file"])["m"], 12)
        live.verify(progress=False)
        live.close()
        more = self.folder / "more.u8bin"
        hmann.write_vectors(more, self.base[1000:1010])
        program("put", self.live, "--base", more, "--first", 5000)
        read = self.open(read_only=True)
        self.assertEqual(len(read), 1009)
        np.testing.assert_array_equal(read.get(5009), self.base[1009])

    def test_a_finished_index_is_taken_over(self):
        live = hmann.create_collection(self.live, from_=self.path)
        self.addCleanup(live.close)
        self.assertEqual((len(live), live.dim, live.metric), (2000, 128, "l2"))
        self.assertEqual(live.dtype, np.uint8)
        with hmann.open(self.path) as index:
            expected = index.search(self.queries, 10, ef_l1=50, ef_l0=100, mode="graph")
            self.assert_same(
                live.search(self.queries, 10, ef_l1=50, ef_l0=100, mode="graph"), expected
            )
        live.put(10**6, self.queries[0])
        self.assertEqual(live.search(self.queries[0], 1).labels.tolist(), [10**6])
        details = live.search(self.queries, 3, ef_l0=30, details=True).details
        self.assertEqual((details["params"]["ef_l0"], details["params"]["k"]), (30, 3))
        self.assertGreater(details["counters"]["distances_fast"], 0)

    def test_backups(self):
        live = self.create()
        live.put(np.arange(100), self.base[:100])
        copy = self.live.parent / "copy"
        self.assertEqual(live.backup(copy), 1)
        live.delete(all=True)
        with hmann.open_collection(copy, read_only=True) as restored:
            self.assertEqual(len(restored), 100)
            restored.verify(progress=False)
        self.assert_raises(hmann.AlreadyExistsError, "copy", live.backup, copy)

    def test_memory_that_is_used_up_makes_room(self):
        self.create().close()
        live = self.open(delta_memory="400KiB")
        for begin in range(0, 2000, 500):
            rows = np.arange(begin, begin + 500)
            self.assertEqual(live.put(rows, self.base[rows]), 500)
        self.assertEqual(len(live), 2000)
        self.assertGreater(live.info()["merges"], 0)

    def test_damage_is_found(self):
        live = self.create()
        live.put(np.arange(300), self.base[:300])
        live.compact(progress=False)
        path = pathlib.Path(live.info()["sealed_file"])
        whole = bytearray(path.read_bytes())
        whole[len(whole) // 2] ^= 255
        os.chmod(path, 0o600)
        path.write_bytes(whole)
        self.assert_raises(hmann.DataLossError, path.name, live.verify, progress=False)
        live.close()
        path.unlink()
        self.assert_raises(hmann.DataLossError, "restore a backup", self.open)
        shutil.rmtree(self.live)


class RefusalTest(CollectionCase):
    def test_create(self):
        create, live = hmann.create_collection, self.live
        self.assert_raises(bad, "dim: expected", create, live)
        self.assert_raises(bad, "dim", create, live, dim=0)
        self.assert_raises(hmann.InvalidTypeError, "dim: expected a whole", create, live, dim=3.5)
        self.assert_raises(bad, "f64", create, live, dim=3, dtype="f64")
        self.assert_raises(bad, "l3", create, live, dim=3, metric="l3")
        self.assert_raises(bad, "m: expected 2 to 512", create, live, dim=3, m=1)
        self.assert_raises(bad, "types", create, live, dim=3, types="year:number")
        self.assert_raises(hmann.InvalidTypeError, "rows: no such", create, live, dim=3, rows=5)
        self.assert_raises(bad, "dim, m: leave out", create, live, from_=self.path, dim=128, m=8)
        self.assert_raises(hmann.NotFoundError, "nowhere", create, live, from_="nowhere")
        self.assertFalse(live.exists())
        self.assertEqual(list(live.parent.iterdir()), [])
        create(live, dim=3).close()
        self.assert_raises(hmann.AlreadyExistsError, "c.live", create, live, dim=3)

    def test_open(self):
        self.assert_raises(hmann.NotFoundError, "create_collection makes one", self.open)
        self.assert_raises(hmann.NotFoundError, "no collection", hmann.open_collection, self.path)
        live = self.create()
        held = hmann.FailedPreconditionError
        self.assert_raises(held, "or this one does: close it there first", self.open)
        code = f"import hmann; hmann.open_collection({str(self.live)!r})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertIn("FailedPreconditionError", done.stderr)
        reader = self.open(read_only=True)
        live.put(1, self.base[0])
        self.assertEqual((len(live), len(reader)), (1, 0))
        for write in (
            lambda: reader.put(2, self.base[0]),
            lambda: reader.delete([1]),
            lambda: reader.delete(all=True),
            lambda: reader.compact(progress=False),
        ):
            self.assert_raises(held, "was opened for reading", write)
        self.assert_raises(
            hmann.InvalidTypeError, "in_flight: no such", hmann.open_collection, self.live,
            in_flight=2,
        )

    def test_vectors_and_labels(self):
        live = self.create(dim=4)
        whole = np.ones((3, 4), np.float32)
        nan = whole.copy()
        nan[1, 2] = np.nan
        types = hmann.InvalidTypeError
        for labels, vectors, kind, text in (
            ([1, 2, 3], whole[:, :3], bad, "of 4 x float32 as in the collection, found 3 of 3"),
            ([1, 2], whole, bad, "vectors: expected 2 for the labels, of 4 x float32"),
            ([1, 2, 3], nan, bad, "row 1 (label 2)"),
            ([1, 2, 3], whole[None], bad, "vectors: expected shape"),
            ([1, 2, 3], whole + 1j, bad, "vectors: expected real numbers"),
            ([1, 2, 3], None, bad, "vectors"),
            ([1, -2, 3], whole, bad, "labels: expected 0 to 2^63 - 1, found -2 at 1"),
            ([1.0, 2.0, 3.0], whole, types, "labels: expected whole numbers, found 'float64'"),
            (["a", "b", 3], whole, bad, "all of them whole numbers, or all strings"),
            (["a", "", "c"], whole, bad, "0 bytes: expected 1 to 1024"),
            ([True, False, True], whole, types, "found 'bool'"),
            ([[1, 2, 3]], whole, bad, "shape (n,)"),
            (None, whole, types, "labels"),
        ):
            with self.subTest(text):
                self.assert_raises(kind, text, live.put, labels, vectors)
        self.assertEqual((len(live), live.info()["sequence"]), (0, 0))
        self.create_u8()

    def create_u8(self):
        with hmann.create_collection(self.live.parent / "u8", dim=4, dtype="u8") as live:
            self.assert_raises(bad, "expected values that uint8 holds, found 1.5 at [0, 1]",
                               live.put, [1], [[1, 1.5, 2, 3]])  # fmt: skip
            self.assert_raises(bad, "found 256", live.put, [1], [[1, 256, 2, 3]])
            live.put([1], [[1, 255.0, 2, 3]])
            self.assertEqual(live.get(1).tolist(), [1, 255, 2, 3])

    def test_attributes(self):
        live = self.create(dim=4)
        whole, types = np.ones((2, 4), np.float32), hmann.InvalidTypeError
        for attributes, kind, text in (
            ([{"a": 1}], bad, "attributes: 1 found, expected one for each of the 2 labels"),
            ([{"a": 1}, 5], types, "attributes: row 1: expected a dict or None, found 5"),
            ("year", types, "attributes: expected dicts"),
            (5, types, "attributes: expected dicts"),
            ([{"a": 1}, {"a": float("inf")}], bad, "attributes: row 1"),
            ([{"a": 1}, {"a": [1, float("nan")]}], bad, "attributes: row 1"),
            ([{"a": 1}, {"a": deep(100_000)}], bad, "attributes: row 1: expected no lists or"),
            ([{"a": 1}, {"a": deep(500)}], bad, "attributes: a: expected"),
            ([{"a": 1}, {"a": object()}], bad, "a value of type object"),
            ([{"a": 1}, {"a": "text"}], bad, "(label 2): attributes: a: expected an integer"),
            ([{"a": 1}, {"a": {"b": 1}}], bad, "found an object"),
        ):
            with self.subTest(text):
                self.assert_raises(kind, text, live.put, [1, 2], whole, attributes)
        self.assertEqual(len(live), 0)
        live.put([1, 2], whole, {"a": 1})
        self.assert_raises(hmann.NotFoundError, "label 3", live.update, [1, 3], {"a": 2})
        self.assertEqual(live.get(1, attributes=True)[1], {"a": 1})
        self.assert_raises(bad, "attributes: 0 found", live.update, [1, 2], [])

    def test_what_is_missing_is_no_value(self):
        live = self.create(dim=4)
        nat = np.datetime64("NaT")
        missing = [None, float("nan"), np.float32("nan"), nat, MissingTime(1, 1, 1)]
        rows = [{"a": value, "b": 1} for value in missing]
        labels = range(len(missing))
        self.assertEqual(live.put(labels, np.ones((5, 4)), rows), 5)
        self.assertEqual(live.get(labels, attributes=True)[1], [{"b": 1}] * 5)
        live.put(labels, np.ones((5, 4)), {"a": 0.5})
        live.update(labels, rows)
        self.assertEqual(live.get(labels, attributes=True)[1], [{"b": 1}] * 5)

    def test_times_are_times(self):
        live = self.create(dim=4)
        zone = datetime.timezone(datetime.timedelta(hours=2))
        times = [
            datetime.datetime(2026, 5, 1, 12),
            datetime.datetime(2026, 5, 1, 14, tzinfo=zone),
            np.datetime64("2026-05-01T12:00:00", "ns"),
            np.datetime64("2026-05-01T12"),
            datetime.date(2026, 5, 2),
        ]
        rows = [{"when": time} for time in times]
        live.put(range(5), np.ones((5, 4)), rows)
        found = [row["when"] for row in live.get(range(5), attributes=True)[1]]
        self.assertEqual(found, ["2026-05-01T12:00:00Z"] * 4 + ["2026-05-02T00:00:00Z"])
        for bound in ("2026-05-01T12:00:01Z", "2026-05-02", datetime.date(2026, 5, 2), times[4],
                      datetime.datetime(2026, 5, 1, 13), np.datetime64("2026-05-02")):  # fmt: skip
            given = {"filter": "when >= $t", "filter_arguments": {"t": bound}}
            self.assertEqual(live.search(np.ones(4), 2, **given).labels.tolist(), [4, -1])

    def test_searches_and_reads(self):
        live = self.create()
        live.put(np.arange(100), self.base[:100], {"a": 1})
        search, query = live.search, self.queries[0]
        self.assert_raises(bad, "as in the collection, found 100", search, query[:100])
        self.assert_raises(bad, "k: expected at least 1", search, query, 0)
        self.assert_raises(bad, "latency: a collection", search, query, latency=0.1)
        types = hmann.InvalidTypeError
        self.assert_raises(types, "in_flight: no such", search, query, in_flight=2)
        self.assert_raises(bad, "there is no field b", search, query, filter="b = 1")
        self.assert_raises(bad, "filter: column", search, query, filter="a =")
        for filter in ([1, 2], np.ones(100, bool), 5):
            text = "filter: expected a condition"
            self.assert_raises(types, text, search, query, filter=filter)
        self.assert_raises(hmann.NotFoundError, "label 100: ", live.get, [5, 100])
        self.assert_raises(bad, "found -1 at 0", live.get, [-1])
        self.assert_raises(bad, "delete: expected labels", live.delete)
        self.assert_raises(bad, "delete: expected labels", live.delete, None)
        self.assert_raises(bad, "found several", live.delete, [1], all=True)
        self.assert_raises(bad, "found several", live.delete, [1], filter="a = 1")
        self.assertEqual(len(live), 100)

    def test_what_is_closed(self):
        live = self.create()
        with live:
            live.put(1, self.base[0])
        self.assertTrue(live.closed)
        for use in (
            lambda: live.put(1, self.base[0]),
            lambda: live.update(1, {}),
            lambda: live.delete([1]),
            lambda: live.delete(all=True),
            lambda: live.search(self.queries),
            lambda: live.get(1),
            lambda: live.info(),
            lambda: live.compact(),
            lambda: live.verify(),
            lambda: live.backup(self.live.parent / "b"),
            lambda: len(live),
        ):
            self.assert_raises(hmann.FailedPreconditionError, "the collection is closed", use)
        self.assertIn("closed", repr(live))
        self.assertIn("1 vectors of 128 x uint8, l2", repr(self.open()))


class ThreadsTest(CollectionCase):
    def test_searches_see_whole_writes_while_others_write_and_merge(self):
        """Each write replaces all vectors by others, so a search must find one kind only."""
        live = self.create(dim=8)
        labels = np.arange(200)
        live.put(labels, np.full((200, 8), 0, np.float32))
        failed, ended = [], threading.Event()

        def run(work):
            try:
                work()
            except BaseException as error:  # noqa: B902
                failed.append(error)

        def search():
            turns = 0
            while not ended.is_set() or turns < 3:
                queries = np.zeros((40, 8), np.float32)
                found = live.search(queries, 200, threads=1 + turns % 3, mode="scan")
                assert len(np.unique(found.distances)) == 1, np.unique(found.distances)
                assert (np.sort(found.labels, axis=1) == labels).all()
                turns += 1

        def write():
            try:
                for value in range(1, 60):
                    live.put(labels, np.full((200, 8), value, np.float32))
                    if value % 20 == 0:
                        live.compact(progress=False)
            finally:
                ended.set()

        threads = [threading.Thread(target=run, args=(work,)) for work in (search, search, write)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        self.assertEqual((len(live), live.info()["merges"]), (200, 2))
        self.assertEqual(live.get(7).tolist(), [59] * 8)

    def test_closed_while_others_use_it(self):
        self.create().close()
        for _ in range(5):
            live = self.open()
            live.put(np.arange(100), self.base[:100])
            begun = threading.Barrier(3)
            ends = []

            def use(work):
                begun.wait()
                try:
                    while True:
                        work(live)
                except hmann.FailedPreconditionError as error:
                    ends.append(str(error))

            works = (
                lambda live: live.search(self.queries, 5),
                lambda live: live.put(1, self.base[1]),
            )
            threads = [threading.Thread(target=use, args=(work,)) for work in works]
            for thread in threads:
                thread.start()
            begun.wait()
            live.close()
            for thread in threads:
                thread.join()
            self.assertEqual(["is closed" in end for end in ends], [True] * 2, ends)

    def test_ctrl_c_stops_a_merge_and_loses_nothing(self):
        self.addCleanup(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        live = self.create(dim=64, ef_construction=1000, method="insertion")
        rows = np.random.default_rng(1).standard_normal((20_000, 64)).astype(np.float32)
        live.put(np.arange(20_000), rows)

        def interrupt(phase, done, total, unit):
            if phase.startswith("insert"):
                os.kill(os.getpid(), signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt):
            live.compact(progress=interrupt)
        self.assertEqual((len(live), live.info()["sealed_rows"]), (20_000, 0))
        np.testing.assert_array_equal(live.get([19_999]), rows[19_999:])

    def test_a_fork(self):
        live = self.create()
        live.put(np.arange(10), self.base[:10])
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                kind = hmann.FailedPreconditionError
                self.assert_raises(kind, "forked", live.search, self.queries)
                live.close()
                with hmann.open_collection(self.live, read_only=True) as own:
                    assert len(own) == 10
                os._exit(0)
            except BaseException as error:  # noqa: B902
                print("in the child:", repr(error), file=sys.stderr, flush=True)
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        live.put(11, self.base[11])
        self.assertEqual(len(live), 11)


if __name__ == "__main__":
    unittest.main()
