"""Build, open, search, tune, plan, promote: what they give, beside the C++ program."""

import functools
import pathlib
import shutil
import unittest
import warnings

import numpy as np
from common import BASE, QUERIES, FolderCase, program, program_json

import hmann


class BuildTest(FolderCase):
    def test_an_array_gives_the_bytes_that_its_file_gives(self):
        path = self.folder / "by_program.hmann"
        program("build", "--base", BASE, "--rows", 2000, "--out", path)
        self.assertEqual(path.read_bytes(), self.path.read_bytes())
        of_file = self.folder / "of_file.hmann"
        hmann.build(BASE, of_file, rows=2000, threads=1, progress=False)
        self.assertEqual(of_file.read_bytes(), self.path.read_bytes())

    def test_rows_that_are_not_side_by_side_are_read_in_place(self):
        wide = np.zeros((2000, 150), np.uint8)
        wide[:, 7:135] = self.base
        out = self.folder / "strided.hmann"
        for view in (wide[:, 7:135], np.asfortranarray(self.base), self.base[::-1].copy()[::-1]):
            hmann.build(view, out, progress=False)
            self.assertEqual(out.read_bytes(), self.path.read_bytes())

    def test_the_report_and_the_header_are_those_of_the_program(self):
        self.assertEqual(hmann.info(self.path), program_json("info", self.path))
        self.assertEqual(self.report["n"], 2000)
        self.assertIn("join", " ".join(self.report["seconds"]) + " join")
        self.assertGreater(self.report["peak_rss_bytes"], 0)

    def test_progress_tells_phases(self):
        seen = []
        hmann.build(
            self.base, self.folder / "told.hmann", progress=lambda *now: seen.append(now)
        )
        self.assertEqual((seen[-1][0], seen[-1][3]), ("calibrate", "settings"))
        for _, done, total, _ in seen:  # total 0: nobody knows
            self.assertTrue(total == 0 or done <= total)

    def test_what_progress_raises_ends_the_build_and_leaves_the_old_file(self):
        def fail(*now):
            raise ZeroDivisionError(now[0])

        before = self.path.read_bytes()
        with self.assertRaises(ZeroDivisionError):
            hmann.build(np.tile(self.base, (20, 1)), self.path, method="insertion", progress=fail)
        self.assertEqual(self.path.read_bytes(), before)
        self.assertEqual(list(self.folder.glob("*.tmp*")), [])

    def test_labels_of_ones_own(self):
        out = self.folder / "labeled.hmann"
        labels = np.arange(2000, dtype=np.int64) * 10**15 + 7
        hmann.build(self.base, out, labels=labels, progress=False)
        with hmann.open(out) as index, hmann.open(self.path) as plain:
            found, rows = index.search(self.queries[0], 5), plain.search(self.queries[0], 5)
            np.testing.assert_array_equal(found.labels, labels[rows.labels])

    def test_cosine_of_floats(self):
        vectors = np.random.default_rng(1).standard_normal((500, 24)).astype(np.float32)
        out = self.folder / "cosine.hmann"
        hmann.build(vectors, out, metric="cosine", promote=0.3, bits=0, progress=False)
        with hmann.open(out) as index:
            self.assertEqual((index.metric, index.dtype, index.dim), ("cosine", np.float32, 24))
            found = index.search(3 * vectors[:50], 1, ef_l0=100)
            np.testing.assert_array_equal(found.labels[:, 0], np.arange(50))
            np.testing.assert_allclose(found.distances, 0, atol=1e-6)

    def test_planned_for_fast_memory(self):
        report = hmann.build(
            self.base, self.folder / "planned.hmann", fast_memory="2MiB", progress=False
        )
        planned = program_json(
            "build", "--base", BASE, "--rows", 2000, "--fast-memory", "2MiB",
            "--out", self.folder / "p.hmann",
        )  # fmt: skip
        self.assertEqual(report["promote"], planned["promote"])

    def test_plan_is_that_of_the_program(self):
        options = ("--rows", 10**6, "--dim", 128, "--fast-memory", "100MiB", "--threads", 2)
        expected = program_json("plan", *options)
        planned = hmann.plan(rows=10**6, dim=128, fast_memory="100MiB", threads=2)
        self.assertEqual(planned, expected)


class GetTest(FolderCase):
    def test_vectors_by_label(self):
        for slow in ("mapped", "dram", "nvme"):
            with hmann.open(self.path, slow=slow) as index:
                rows = np.random.default_rng(2).permutation(2000)
                got = index.get(rows)
                self.assertEqual((got.dtype, got.shape), (np.uint8, (2000, 128)))
                np.testing.assert_array_equal(got, self.base[rows])
                np.testing.assert_array_equal(index.get([7, 7, 3]), self.base[[7, 7, 3]])
                for one in (5, np.int64(5), np.uint8(5), np.array(5)):
                    np.testing.assert_array_equal(index.get(one), self.base[5])
                for none in ([], np.zeros(0, np.int64), rows[:0]):
                    self.assertEqual(index.get(none).shape, (0, 128))
                strided = np.arange(0, 100, 3, dtype=np.int32)[::-2]
                np.testing.assert_array_equal(index.get(strided), self.base[strided])
                labels = index.search(self.queries[0], 5).labels
                np.testing.assert_array_equal(index.get(labels), self.base[labels])

    def test_cosine_gives_normalized_floats_and_labels_may_be_ones_own(self):
        vectors = np.random.default_rng(1).standard_normal((500, 24)).astype(np.float32)
        labels = np.arange(500, dtype=np.int64)[::-1] * 10**15 + 7
        out = self.folder / "own.hmann"
        hmann.build(vectors, out, labels=labels, metric="cosine", progress=False)
        with hmann.open(out) as index:
            unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            np.testing.assert_allclose(index.get(labels), unit, rtol=0, atol=1e-6)
            self.assert_raises(
                hmann.NotFoundError, "label 8: no vector of the index", index.get, [7, 8, 9]
            )
            self.assert_raises(hmann.NotFoundError, "label 6", index.get, 6)
        hmann.build(vectors, out, labels=labels // 10**16, metric="cosine", progress=False)
        with hmann.open(out) as index:  # ten vectors have each label
            got = index.get(labels // 10**16)
            for i in range(500):
                np.testing.assert_array_equal(got[i], got[i - i % 10 if i else 0])
                near = np.abs(unit - got[i]).max(axis=1) < 1e-6
                self.assertEqual((labels // 10**16)[near].tolist(), [labels[i] // 10**16])

    def test_what_is_no_label(self):
        with hmann.open(self.path) as index:
            bad = hmann.InvalidArgumentError
            self.assert_raises(bad, "expected 0 to 2^63 - 1, found -1 at 1", index.get, [3, -1])
            self.assert_raises(bad, "expected one, or shape (n,), found (1, 2)", index.get,
                               [[1, 2]])  # fmt: skip
            for value in ("3", None, [1.5], 2.0, True, [None], {}):
                self.assert_raises(hmann.InvalidTypeError, "labels: expected", index.get, value)
            self.assert_raises(bad, "labels", index.get, np.array([2**63], np.uint64))
            self.assert_raises(hmann.NotFoundError, "label 2000:", index.get, [1999, 2000])
        self.assert_raises(hmann.FailedPreconditionError, "the index is closed", index.get, 1)

    def test_the_program_gives_the_same(self):
        said = program_json("get", self.path, "--labels", "17,3")
        self.assertEqual((said["dtype"], said["dim"]), ("u8", 128))
        self.assertEqual([one["label"] for one in said["vectors"]], [17, 3])
        vectors = [one["vector"] for one in said["vectors"]]
        np.testing.assert_array_equal(vectors, self.base[[17, 3]])
        out = self.folder / "got.u8bin"
        program("get", self.path, "--labels", 5, 6, 1999, "--out", out)
        np.testing.assert_array_equal(hmann.read_vectors(out), self.base[[5, 6, 1999]])


class SearchTest(FolderCase):
    def setUp(self):
        self.index = hmann.open(self.path)
        self.addCleanup(self.index.close)

    def test_shapes_and_types(self):
        labels, distances = self.index.search(self.queries[0], 3)
        self.assertEqual((labels.shape, labels.dtype), ((3,), np.int64))
        self.assertEqual((distances.shape, distances.dtype), ((3,), np.float32))
        answer = self.index.search(self.queries, 3)
        self.assertEqual(answer.labels.shape, (len(self.queries), 3))
        self.assertEqual(answer.distances.shape, (len(self.queries), 3))
        self.assertIsNone(answer.details)
        self.assertEqual(self.index.search(self.queries[:0], 3).labels.shape, (0, 3))
        self.assertEqual(self.index.search(self.queries[:1], 3).labels.shape, (1, 3))

    def test_answers_are_those_of_the_program(self):
        out = self.folder / "answers.gt"
        program(
            "search", self.path, "--queries", QUERIES, "--k", 10, "--ef-l1", 20, "--ef-l0", 30,
            "--out", out,
        )  # fmt: skip
        expected = hmann.read_groundtruth(out)
        for threads in (None, 1, 2, 5):
            for in_flight in (None, 1, 16):
                found = self.index.search(
                    self.queries, 10, ef_l1=20, ef_l0=30, threads=threads, in_flight=in_flight
                )
                self.assert_same(found, expected)
        one_by_one = [self.index.search(query, 10, ef_l1=20, ef_l0=30) for query in self.queries]
        for i, found in enumerate(one_by_one):
            np.testing.assert_array_equal(found.labels, expected.labels[i])

    def test_recall(self):
        truth = hmann.exact_neighbors(self.base, self.queries, 10, progress=False)
        self.assertGreater(hmann.recall(self.index.search(self.queries, 10), truth), 0.9)
        wide = self.index.search(self.queries, 10, ef_l1=200, ef_l0=400)
        narrow = self.index.search(self.queries, 10, mode="upper", ef_l1=10)
        self.assertGreater(hmann.recall(wide, truth), 0.98)
        self.assertLess(hmann.recall(narrow, truth), hmann.recall(wide, truth))

    def test_every_layout_of_queries_gives_the_same(self):
        expected = self.index.search(self.queries, 4)
        wide = np.zeros((len(self.queries), 300), np.uint8)
        wide[:, 3:131] = self.queries
        frozen = self.queries.copy()
        frozen.flags.writeable = False
        backwards = self.queries[::-1].copy()[::-1]
        for view in (wide[:, 3:131], np.asfortranarray(self.queries), frozen, backwards):
            self.assert_same(self.index.search(view, 4), expected)
        self.assert_same(self.index.search([list(map(np.uint8, self.queries[0]))], 4),
                         self.index.search(self.queries[:1], 4))  # fmt: skip

    def test_every_param_is_taken(self):
        for mode, params in {
            "multi-start": {"ef_l1": 8, "ef_l0": 4, "query_threads": 2},
            "graph": {"ef_l1": 8, "ef_l0": 40, "epsilon": 0.2, "beam_width": 2},
            "quantized": {"ef_l1": 8, "ef_l0": 40, "nprobe": 16, "error_bound": 1.5},
            "upper": {"ef_l1": 40, "prefetch": "off"},
        }.items():
            ran = self.index.search(self.queries, 5, mode=mode, details=True, **params).details
            for name, value in {"mode": mode, "k": 5, **params}.items():
                self.assertAlmostEqual(ran["params"][name], value, 5) if isinstance(
                    value, float
                ) else self.assertEqual(ran["params"][name], value)
            self.assertEqual(self.index.resolve(5, mode=mode, **params)["params"], ran["params"])
            self.assertGreater(ran["counters"]["distances_fast"], 0)

    def test_a_filter_is_a_mask_or_labels(self):
        mask = np.zeros(len(self.base), bool)
        mask[::7] = True
        labels = np.flatnonzero(mask)
        some = hmann.exact_neighbors(self.base[labels], self.queries, 10, progress=False)
        truth = hmann.Answer(labels[some.labels], some.distances)
        found = self.index.search(self.queries, 10, filter=mask, details=True)
        self.assertTrue(mask[found.labels].all())
        self.assertGreater(hmann.recall(found, truth), 0.9)
        matches = self.index.matching(labels)
        self.assertEqual(len(matches), len(labels))
        for filter in (labels, list(labels), matches, mask[: labels[-1] + 1]):
            self.assert_same(self.index.search(self.queries, 10, filter=filter), found)
        two = self.index.search(self.queries[0], 4, filter=[5, 9, 10**12])
        self.assertEqual(set(two.labels[:2]), {5, 9})
        np.testing.assert_array_equal(two.labels[2:], [-1, -1])
        self.assertTrue(np.isinf(two.distances[2:]).all())
        self.assertEqual(len(self.index.matching([])), 0)

    def test_filters_select_by_attributes(self):
        path, rows = self.folder / "attrs.hmann", self.folder / "rows.ndjson"
        shutil.copy(self.path, path)
        lines = [f'{{"third": {"true" if i % 3 == 0 else "false"}}}\n' for i in range(2000)]
        rows.write_text("".join(lines))
        program("attrs", path, "--from", rows)
        with hmann.open(path) as index:
            found = index.search(self.queries, 10, filter="third")
            self.assertTrue((found.labels % 3 == 0).all())
            self.assertEqual(len(index.matching("not third")), 1333)
            with self.assertRaisesRegex(hmann.InvalidArgumentError, "there is no field fourth"):
                index.search(self.queries, filter="fourth = 1")

    def test_arguments_stand_in_for_values(self):
        path, rows = self.folder / "arguments.hmann", self.folder / "arguments.ndjson"
        shutil.copy(self.path, path)
        rows.write_text(
            "".join(
                f'{{"row": {i}, "half": {i / 2:.1f}, "even": {"true" if i % 2 == 0 else "false"}, '
                f'"tag": ["it\'s {i % 5}"]}}\n'
                for i in range(2000)
            )
        )
        program("attrs", path, "--from", rows)
        with hmann.open(path) as index:
            for text, same, arguments in (
                ("row < $most", "row < 700", {"most": np.int64(700)}),
                ("half < $most and even = $is", "half < 2.5 and even", {"most": 2.5, "is": True}),
                ("tag in $tags", """tag in ("it's 1", "it's 2")""", {"tags": ["it's 1", "it's 2"]}),
                ("row in $rows", "row in (3, 5, 7)", {"rows": np.array([7, 5, 3])}),
            ):
                found = index.search(
                    self.queries, 5, filter=text, filter_arguments=arguments, details=True
                )
                self.assert_same(found, index.search(self.queries, 5, filter=same))
                self.assertEqual(found.details["matches"], len(index.matching(same)))
                self.assertEqual(len(index.matching(text, arguments)), len(index.matching(same)))
                self.assertGreater(len(index.matching(same)), 0)
            for filter, arguments, kind, message in (
                ("row < $x", {}, hmann.InvalidArgumentError, "no argument is given for '\\$x'"),
                ("row in $x", {"x": []}, hmann.InvalidArgumentError, "at least one value"),
                ("row < $x", {"x": 2**63}, hmann.InvalidArgumentError, "filter_arguments: "),
                ("row < $x", {"x": object()}, hmann.InvalidTypeError, "filter_arguments: x: "),
                ("row < $x", 5, hmann.InvalidTypeError, "filter_arguments: expected names"),
                ([1, 2], {"x": 1}, hmann.InvalidArgumentError, "expected a filter that names"),
                (None, {"x": 1}, hmann.InvalidArgumentError, "expected a filter that names"),
            ):
                with self.subTest(message), self.assertRaisesRegex(kind, message):
                    index.search(self.queries, filter=filter, filter_arguments=arguments)

    def test_what_is_no_filter(self):
        for filter, kind, text in (
            (np.zeros((2, 2), bool), hmann.InvalidArgumentError, "mask of one dimension"),
            ([-1], hmann.InvalidArgumentError, "filter: expected 0 to 2^63 - 1, found -1 at 0"),
            ([0.5], hmann.InvalidTypeError, "filter: expected whole numbers, found 'float64'"),
            (hmann.open(self.path).matching([1]), hmann.InvalidArgumentError, "another index"),
        ):
            with self.subTest(text):
                self.assert_raises(kind, text, self.index.search, self.queries, filter=filter)

    def test_a_budget_cuts_short_and_fills_up(self):
        found = self.index.search(self.queries, 100, ef_l0=1900, budget=1e-9, details=True)
        self.assertGreater(found.details["cut_short"], 0)
        short = found.labels == -1
        np.testing.assert_array_equal(short, np.isinf(found.distances))

    def test_a_call_keeps_its_own_state_while_others_run(self):
        # Converting an argument runs Python code. What other threads do then, these do.
        class Meanwhile:
            def __init__(self, value, other):
                self.value, self.other = value, other

            def __array__(self, *args, **kwargs):
                self.other()
                return self.value

            def __index__(self):
                self.other()
                return self.value

        expected = self.index.search(self.queries, 100, ef_l0=1900, details=True)
        budget = {"ef_l0": 1900, "budget": 1e-9}
        for name, act in (
            ("a budget", lambda index: index.search(self.queries, 100, **budget)),
            ("a filter", lambda index: index.search(self.queries, 5, filter=[1])),
            ("resolve", lambda index: index.resolve(3, nprobe=7, mode="quantized")),
            ("promote", lambda index: index.promote(progress=False, bits=2)),
            ("close", lambda index: index.close()),
        ):
            for place in ("queries", "k", "ef_l0", "threads", "in_flight"):
                with self.subTest(f"{name}, while {place} is converted"):
                    copy = self.folder / "meanwhile.hmann"
                    copy.write_bytes(self.path.read_bytes())
                    index = hmann.open(copy)
                    given = {"queries": self.queries, "k": 100, "ef_l0": 1900}
                    given |= {"threads": 2, "in_flight": 1}
                    given[place] = Meanwhile(given[place], lambda: act(index))
                    found = index.search(details=True, **given)
                    self.assert_same(found, expected)
                    self.assertEqual(found.details["cut_short"], 0)
                    self.assertEqual(found.details["params"], expected.details["params"])
                    self.assertEqual(index.closed, name == "close")

        index = hmann.open(self.path)
        array = Meanwhile(np.arange(5), index.close)
        np.testing.assert_array_equal(index.get(array), self.base[:5])
        index = hmann.open(self.path)
        params = index.resolve(Meanwhile(100, index.close), ef_l0=1900)["params"]
        self.assertEqual(params, expected.details["params"])

    def test_an_equal_option_of_another_type_is_no_repetition(self):
        for one, name in ((1, "beam_width"), (16, "ef_l0"), (1, "query_threads")):
            for call in (functools.partial(self.index.search, self.queries), self.index.resolve):
                call(**{name: one})
                for equal in (complex(one), True)[: 1 + (one == 1)]:
                    with self.subTest(f"{name}={equal!r}"):
                        self.assert_raises(
                            hmann.InvalidTypeError, f"{name}: expected", call, **{name: equal}
                        )
        # An object that changes is read again.
        width = np.array(1)
        self.index.resolve(beam_width=width)
        width[()] = 3
        self.assertEqual(self.index.resolve(beam_width=width)["params"]["beam_width"], 3)

    def test_signatures_come_of_the_tables(self):
        import inspect

        named = inspect.signature(hmann.Index.search).parameters
        self.assertIsNone(named["ef_l1"].default)
        self.assertIn("beam_width", hmann.Index.search.__doc__)
        self.assertEqual(inspect.signature(hmann.build).parameters["ef_construction"].default, 100)
        self.assertEqual(inspect.signature(hmann.build).parameters["alpha"].default, 1.2)
        self.assertNotIn("{options}", hmann.build.__doc__)

    def test_info_placements_and_face(self):
        self.assertEqual(self.index.info(), hmann.info(self.path))
        self.assertIn("l0", [line["structure"] for line in self.index.placements()])
        self.assertEqual((len(self.index), self.index.path), (2000, str(self.path)))
        self.assertIn("2000 vectors of 128 x uint8, l2", repr(self.index))
        self.index.warm()

    def test_every_tier_gives_the_same(self):
        # All of them: what is left out depends on the tier.
        params = {"mode": "quantized", "ef_l1": 20, "ef_l0": 30, "nprobe": 16, "beam_width": 8,
                 "error_bound": 1.5, "epsilon": -1}  # fmt: skip
        expected = self.index.search(self.queries, 10, **params)
        for options in (
            {"slow": "dram"},
            {"slow": "nvme"},
            {"slow": "nvme", "cache": "dynamic", "cache_size": "1MiB"},
            {"slow": "emulated:lat=300ns", "fast": "mapped"},
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", hmann.OpenWarning)
                index = hmann.open(self.path, **options)
            with index:
                self.assert_same(index.search(self.queries, 10, **params), expected)


class TuneTest(FolderCase):
    def test_tune_then_recall(self):
        with hmann.open(self.path) as index:
            truth = hmann.exact_neighbors(self.base, self.queries, 10, progress=False)
            tuned = index.tune(
                k=10,
                recall=0.9,
                queries=self.queries,
                query_threads=1,
                accept_noise=True,
                progress=False,
            )
            self.assertEqual(tuned[0]["k"], 10)
            found = index.search(self.queries, 10, recall=0.9, details=True)
            self.assertGreater(found.details["predicted"]["recall"], 0.89)
            self.assertIn("queries like", found.details["predicted"]["predicted_for"])
            self.assertGreater(hmann.recall(found, truth), 0.88)
            self.assertEqual(
                index.resolve(10, recall=0.9)["params"], found.details["params"]
            )
            self.assert_raises(
                hmann.OutOfRangeError, "", index.search, self.queries, 10, latency="1ns"
            )

    def test_promote(self):
        index = hmann.open(self.path)
        self.addCleanup(index.close)
        out = self.folder / "promoted.hmann"
        index.promote(out, promote=0.3, progress=False)
        self.assertAlmostEqual(hmann.info(out)["promote"], 0.3, 3)
        self.assertAlmostEqual(index.info()["promote"], 0.16, 3)
        own = hmann.open(out)
        self.addCleanup(own.close)
        own.promote(promote=0.2, bits=0, progress=False)
        self.assertAlmostEqual(own.info()["promote"], 0.2, 3)
        self.assertEqual(own.search(self.queries, 3).labels.shape, (len(self.queries), 3))
        self.assertIn("promote", own.plan(fast_memory="2MiB"))


class PackageTest(unittest.TestCase):
    def test_it_is_typed_and_says_its_version(self):
        folder = pathlib.Path(hmann.__file__).parent
        self.assertTrue((folder / "py.typed").exists())
        self.assertRegex(hmann.__version__, r"^\d+\.\d+\.\d+$")

    def test_every_public_name_has_a_docstring(self):
        for name in hmann.__all__:
            self.assertTrue(getattr(hmann, name).__doc__, name)


if __name__ == "__main__":
    unittest.main()
