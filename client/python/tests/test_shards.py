"""Shards with the largest labels, from a split to answers: files, the index, a server."""

import json
import signal

import numpy as np
from common import FolderCase, program
from server import Server

import hmann

LARGEST = 2**63 - 1
SHARDS = 3


class ShardsTest(FolderCase):
    def test_the_largest_labels_come_back(self):
        base, queries, given = (self.folder / name for name in ("b.u8bin", "q.u8bin", "labels"))
        hmann.write_vectors(base, self.base)
        hmann.write_vectors(queries, self.queries)
        (LARGEST - np.arange(len(self.base), dtype=np.uint64)).tofile(given)
        shards = self.folder / "shards"
        program("data", "split", base, "--shards", SHARDS, "--labels", given, "--out", shards)
        parts = [shards / f"shard-{s}" for s in range(SHARDS)]
        whole, merged = self.folder / "whole.gt", self.folder / "merged.gt"
        exact = ["data", "groundtruth", "--queries", queries, "--k", 10]
        program(*exact, "--base", base, "--labels", given, "--out", whole)
        bases, labels = ([f"{part}{suffix}" for part in parts] for suffix in (".u8bin", ".labels"))
        program(*exact, "--base", *bases, "--labels", *labels, "--out", merged)
        truth, of_parts = hmann.read_groundtruth(whole), hmann.read_groundtruth(merged)
        np.testing.assert_array_equal(truth.distances, of_parts.distances)
        self.assertEqual(hmann.recall(of_parts, truth), 1)
        rows = LARGEST - truth.labels
        self.assertTrue((0 <= rows).all() and (rows < len(self.base)).all())
        answers = []
        for part in parts:
            index = f"{part}.hmann"
            program("build", "--base", f"{part}.u8bin", "--labels", f"{part}.labels",
                             "--out", index, "--no-calibrate")  # fmt: skip
            scan = [index, "--queries", queries, "--k", 10, "--mode", "scan"]
            for suffix in (".gt", ".jsonl"):
                program("search", *scan, "--out", f"{part}.answers{suffix}")
            found = hmann.read_groundtruth(f"{part}.answers.gt")
            lines = [json.loads(line) for line in open(f"{part}.answers.jsonl", encoding="utf8")]
            np.testing.assert_array_equal(found.labels, [line["ids"] for line in lines])
            with hmann.open(index) as opened:
                self.assert_same(opened.search(self.queries, 10, mode="scan"), found)
            server = Server(index)
            self.addCleanup(server.stop, signal.SIGKILL)
            with hmann.Client(server.address) as client:
                client.wait_ready("sample")
                self.assert_same(client.open("sample").search(self.queries, 10, mode="scan"), found)
            answers.append(found)
        distances = np.concatenate([answer.distances for answer in answers], axis=1)
        np.testing.assert_array_equal(np.sort(distances)[:, :10], truth.distances)
        self.assertIn(LARGEST, np.fromfile(f"{parts[0]}.labels", np.uint64))
        with hmann.open(f"{parts[0]}.hmann") as opened:
            nearest = opened.search(self.base[0], 1)
            self.assertEqual((int(nearest.labels[0]), float(nearest.distances[0])), (LARGEST, 0))
