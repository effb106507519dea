"""Indexes of float16: made, searched here and through a server, and what is refused."""

import signal

import numpy as np
from common import FolderCase, program, program_json
from server import Server

import hmann


class HalfTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random = np.random.default_rng(7)
        centers = random.standard_normal((20, 24))
        points = centers[random.integers(0, 20, 1540)] + 0.3 * random.standard_normal((1540, 24))
        cls.floats = points[:1500].astype(np.float32)
        cls.requested = points[1500:].astype(np.float32)
        cls.half = cls.folder / "half.hmann"
        hmann.build(cls.floats, cls.half, metric="cosine", dtype="f16", progress=False)

    def test_floats_or_the_halves_they_round_to_give_one_index(self):
        of_floats, of_halves = self.folder / "floats.hmann", self.folder / "halves.hmann"
        hmann.build(self.floats, of_floats, dtype="f16", progress=False)
        hmann.build(self.floats.astype(np.float16), of_halves, progress=False)
        self.assertEqual(of_floats.read_bytes(), of_halves.read_bytes())
        of_file = self.folder / "of_file.hmann"
        hmann.write_vectors(self.folder / "base.fbin", self.floats)
        program("build", "--base", self.folder / "base.fbin", "--dtype", "f16", "--out", of_file)
        self.assertEqual(of_file.read_bytes(), of_floats.read_bytes())
        self.assertEqual(hmann.info(of_file)["dtype"], "f16")
        with hmann.open(of_halves) as index:
            self.assertEqual(index.dtype, np.float16)
            own = index.search(self.floats[:50].astype(np.float16), 1, ef_l0=100)
            np.testing.assert_array_equal(own.labels[:, 0], np.arange(50))
            np.testing.assert_array_equal(own.distances, 0)

    def test_answers_are_near_those_of_floats(self):
        truth = hmann.exact_neighbors(
            self.floats, self.requested, 10, metric="cosine", progress=False
        )
        with hmann.open(self.half) as index:
            found = index.search(self.requested, 10, ef_l1=100, ef_l0=200)
        self.assertGreater(hmann.recall(found, truth), 0.97)
        np.testing.assert_allclose(found.distances[:, 0], truth.distances[:, 0], atol=1e-3)

    def test_a_server_answers_as_the_index_does(self):
        server = Server(self.half)
        self.addCleanup(server.stop, signal.SIGKILL)
        with hmann.open(self.half) as local, hmann.Client(server.address) as client:
            client.wait_ready("sample")
            served = client.open("sample")
            self.assertEqual((served.dtype, served.info()["dtype"]), (np.float16, "f16"))
            halves = self.requested.astype(np.float16)
            for queries in (self.requested, halves, 1e20 * self.requested):
                self.assert_same(served.search(queries, 5), local.search(queries, 5))
            self.assert_raises(
                hmann.InvalidArgumentError, "24 x float16", served.search, np.ones(23, np.int8)
            )
            expected = local.search(self.requested.astype(np.float16), 5)
        for name in ("asked.fbin", "asked.f16bin"):
            hmann.write_vectors(self.folder / name, self.requested.astype(np.float16))
            for command in (("search", self.half), ("query", "--server", server.address,
                                                    "--index", "sample")):  # fmt: skip
                out = self.folder / "found.gt"
                program(*command, "--queries", self.folder / name, "--k", 5, "--out", out)
                self.assert_same(hmann.read_groundtruth(out), expected)

    def test_vectors_by_label_are_halves(self):
        norms = np.linalg.norm(self.floats[:3], axis=1, keepdims=True)
        expected = (self.floats[:3] / norms).astype(np.float16)
        with hmann.open(self.half) as index:
            found = index.get([0, 1, 2])
        self.assertEqual(found.dtype, np.float16)
        np.testing.assert_allclose(found.astype(np.float32), expected, rtol=1e-3)
        program("get", self.half, "--labels", "0,1,2", "--out", self.folder / "got.f16bin")
        np.testing.assert_array_equal(hmann.read_vectors(self.folder / "got.f16bin"), found)

    def test_it_is_tuned_planned_and_promoted(self):
        hmann.write_vectors(self.folder / "learn.f16bin", self.requested)
        path = self.folder / "tuned.hmann"
        path.write_bytes(self.half.read_bytes())
        tuned = program_json(
            *("tune", path, "--queries", self.folder / "learn.f16bin", "--k", 5, "--recall", 0.9),
            "--accept-noise",
        )
        self.assertEqual(len(tuned["tuned"]), 1)
        with hmann.open(path) as index:
            answer = index.search(self.requested, 5, recall=0.9, details=True)
            self.assertIsNotNone(answer.details["predicted"]["mean_us"])
            index.promote(promote=0.3, progress=False)
            self.assertEqual((index.dtype, index.info()["promote"]), (np.float16, 0.3))
        halves = hmann.plan(rows=10**6, dim=768, dtype="f16", fast_memory="2GiB")
        floats = hmann.plan(rows=10**6, dim=768, dtype="f32", fast_memory="2GiB")
        self.assertLess(halves["build"]["file_bytes"], 0.7 * floats["build"]["file_bytes"])

    def test_files_and_exact_neighbors(self):
        path = self.folder / "halves.f16bin"
        hmann.write_vectors(path, self.floats)
        halves = hmann.read_vectors(path)
        self.assertEqual(halves.dtype, np.float16)
        np.testing.assert_array_equal(halves, self.floats.astype(np.float16))
        exact = [
            hmann.exact_neighbors(base, queries, 5, progress=False)
            for base, queries in (
                (path, self.requested.astype(np.float16)),
                (halves, self.requested.astype(np.float16).astype(np.float32)),
                (halves.astype(np.float32), self.requested.astype(np.float16).astype(np.float32)),
            )
        ]
        self.assert_same(exact[1], exact[0])
        self.assert_same(exact[2], exact[0])

    def test_what_is_wrong(self):
        bad, out = hmann.InvalidArgumentError, self.folder / "bad.hmann"

        def build(base, **options):
            hmann.build(base, out, progress=False, **options)

        large = self.floats.copy()
        large[7, 3] = 70000
        self.assert_raises(bad, "vector 7: component 3", build, large, dtype="f16")
        with np.errstate(over="ignore"):
            infinite = large.astype(np.float16)
        self.assert_raises(bad, "found Inf", build, infinite)
        self.assert_raises(bad, "too small", build, 1e-9 * self.floats, dtype="f16")
        self.assert_raises(bad, "f16 asked for", build, self.base, dtype="f16")
        self.assert_raises(bad, "bf16", build, self.floats, dtype="bf16")
        self.assertFalse(out.exists())
        with hmann.open(self.half) as index:
            self.assert_raises(
                bad, "24 x float16 as in the index", index.search, self.requested[:, :20]
            )
            self.assert_raises(bad, "zero vector", index.search, np.zeros(24, np.float16))
