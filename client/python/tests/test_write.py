"""A collection behind a server: what clients write is what they find, once."""

import asyncio
import os
import pathlib
import random
import signal
import tempfile
import threading
import time
import unittest

import numpy as np
from common import FolderCase
from server import TOO_LATE, Server
from test_collection import columns_of

import hmann

bad = hmann.InvalidArgumentError


class WriteCase(FolderCase):
    """A server of a new collection, under the name "sample", for each test."""

    def setUp(self):
        live = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "c.live"
        hmann.create_collection(live, dim=128, dtype="u8").close()
        self.server = Server(live, "--max-batch", 16)
        self.addCleanup(lambda: self.server.stop(signal.SIGKILL))  # the last one
        self.client = hmann.Client(self.server.address)
        self.addCleanup(self.client.close)
        self.live = self.client.wait_ready("sample")


class Writer:
    """Changes labels of its own, and knows what each may be."""

    def __init__(self, case, number):
        self.case = case
        self.random = random.Random(number)
        self.over = False
        self.acknowledged = self.attempts = self.found = 0
        self.labels = [number * 1_000_000 + i for i in range(40)]  # in use
        #: By label: rows of the base that it may have now; None: no vector.
        self.may_be = {label: {None} for label in self.labels}

    def run(self):
        """Writes until it is over."""
        with hmann.Client(self.case.server.address) as client:
            live = client.wait_ready("sample")
            while not self.over:
                place = self.random.randrange(len(self.labels))
                label = self.labels[place]
                row = self.random.randrange(2000) if self.random.random() < 0.8 else None
                self.attempts += 1
                self.may_be[label].add(row)
                try:
                    # Some calls end before their answer.
                    timeout = 0.002 if self.random.random() < 0.1 else 20
                    if row is None:
                        live.delete(label, timeout=timeout)
                    else:
                        live.put(label, self.case.base[row], timeout=timeout)
                except (hmann.UnavailableError, hmann.DeadlineExceededError):
                    # It may happen now, later or not at all, so the label is not used again.
                    self.labels[place] = max(self.may_be) + 1
                    self.may_be[self.labels[place]] = {None}
                    continue
                self.may_be[label] = {row}
                self.acknowledged += 1

    def search(self):
        """Searches until it is over."""
        with hmann.Client(self.case.server.address, timeout=0.5) as client:
            live = client.wait_ready("sample")
            while not self.over:
                try:
                    live.search(self.case.base[0], 5)
                    self.found += 1
                except (hmann.UnavailableError, *TOO_LATE):
                    time.sleep(0.01)

    def check(self, live):
        """Each label is what it may be."""
        for label, rows in self.may_be.items():
            try:
                found = live.get(label)
            except hmann.NotFoundError:
                self.case.assertIn(None, rows, label)
                continue
            self.case.assertTrue(
                any(r is not None and (found == self.case.base[r]).all() for r in rows), label
            )


class WriteTest(WriteCase):
    def test_what_is_written_is_found(self):
        labels = np.arange(100) * 3
        years = [{"year": 1990 + i} for i in range(100)]
        self.assertEqual(self.live.put(labels, self.base[:100], years), 100)
        found = self.live.search(self.base[[0, 99]], 5, details=True)
        self.assertEqual(found.labels[:, 0].tolist(), [0, 297])
        self.assertEqual(found.details["sequence"], 7)  # of 16 rows each
        np.testing.assert_array_equal(self.live.get(labels), self.base[:100])
        self.assertEqual(self.live.put(3, self.base[500], {"year": 2000}), 1)
        np.testing.assert_array_equal(self.live.get([3]), self.base[[500]])
        self.assertEqual(self.live.update([0, 3], {"year": 1800}), 2)
        self.assertEqual(self.live.delete(filter="year < 1900"), 2)
        self.assertEqual(self.live.delete(labels[:50]), 48)
        self.live.compact()
        with self.assertRaisesRegex(hmann.NotFoundError, "label 3"):
            self.live.get(3)
        self.assertEqual(len(self.client.open("sample")), 50)
        kept = self.live.search(self.base[60], 1, filter="year = 2050")
        self.assertEqual(kept.labels.tolist(), [180])
        self.assertEqual(self.live.delete(all=True), 50)
        self.assertEqual(self.live.search(self.base[0], 2).labels.tolist(), [-1, -1])

    def test_batches_stream_in(self):
        def batches():
            for begin in range(0, 120, 40):  # more than the server takes at once
                yield range(begin, begin + 40), self.base[begin : begin + 40]
            yield "last", self.base[200], {"year": 2000}

        self.assertEqual(self.live.put_stream(batches()), 121)
        np.testing.assert_array_equal(self.live.get(range(120)), self.base[:120])
        found = self.live.search(self.base[200], 1, filter="year = 2000", details=True)
        self.assertEqual(found.names.tolist(), ["last"])
        self.assertEqual(found.details["sequence"], 10)  # three of 16, 16 and 8, and one
        self.assertEqual(self.live.put_stream([]), 0)

        def breaks():
            yield 500, self.base[0]
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            self.live.put_stream(breaks())
        self.live.get(500)
        with self.assertRaisesRegex(bad, "128"):
            self.live.put_stream([([1], self.base[:1, :5])])
        with self.assertRaisesRegex(bad, "label 8"):
            self.live.put_stream([(8, self.base[0], {"year": "x"}), (9, self.base[0])])
        with self.assertRaises(hmann.DeadlineExceededError):
            self.live.put_stream(iter(lambda: time.sleep(0.1) or (1, self.base[0]), 0), timeout=1)

    def test_a_stream_outlives_a_kill(self):
        def batches():
            for i in range(60):
                if i % 20 == 10:
                    self.server.stop(signal.SIGKILL)
                    self.server = Server(self.server.path, "--max-batch", 16, port=self.server.port)
                yield range(5 * i, 5 * i + 5), self.base[5 * i : 5 * i + 5]

        async def of_asyncio():
            async with hmann.AsyncClient(self.server.address) as client:
                return await (await client.open("sample")).put_stream(batches())

        def writes():
            return self.live.search(self.base[0], 1, details=True).details.get("sequence", 0)

        for write in (lambda: self.live.put_stream(batches()), lambda: asyncio.run(of_asyncio())):
            before = writes()
            self.assertEqual(write(), 300)
            np.testing.assert_array_equal(self.live.get(range(300)), self.base[:300])
            self.assertEqual(writes() - before, 60)  # none twice

    def test_labels_may_be_strings(self):
        self.live.put(["cat.jpg", "dog"], self.base[:2])
        self.live.put(7, self.base[2])
        found = self.live.search(self.base[:2], 3)
        self.assertEqual(found.names[:, 0].tolist(), ["cat.jpg", "dog"])
        self.assertIn(7, found.names[0].tolist())
        np.testing.assert_array_equal(self.live.get(["dog", "cat.jpg"]), self.base[[1, 0]])
        self.assertEqual(self.live.delete("dog"), 1)

    def test_labels_may_be_columns_of_strings(self):
        names = ["cat.jpg", "dog"]
        for form in columns_of(names):
            self.live.put(form, self.base[:2])
            np.testing.assert_array_equal(self.live.get(form), self.base[:2])
            self.assertEqual(self.live.delete(form), 2)
        for mixed in (["a", 3], np.array([3, "a"], object)):
            with self.assertRaisesRegex(bad, "or all strings; found"):
                self.live.put(mixed, self.base[:2])

    def test_a_blank_filter_is_no_wish_for_all_vectors(self):
        self.live.put(np.arange(10), self.base[:10], {"a": 1})

        async def ask(blank):
            async with hmann.AsyncClient(self.server.address) as client:
                await (await client.open("sample")).search(self.base[0], 3, filter=blank)

        with hmann.open_collection(self.server.path, read_only=True) as local:
            for blank in ("", " ", "\t\n"):
                for call in (
                    lambda: local.search(self.base[0], 3, filter=blank),
                    lambda: self.live.search(self.base[0], 3, filter=blank),
                    lambda: self.live.search(self.base[:2], 3, filter=blank),
                    lambda: list(self.live.search_stream(self.base[:1], 3, filter=blank)),
                    lambda: asyncio.run(ask(blank)),
                    lambda: self.live.delete(filter=blank),
                    lambda: self.live.delete(filter=blank, all=True),
                ):
                    with self.assertRaisesRegex(bad, "filter"):
                        call()
        self.assertEqual(self.live.search(self.base[0], 3, filter="a = 1").labels[0], 0)
        self.assertEqual(self.live.search(self.base[0], 3, filter=None).labels[0], 0)
        self.assertEqual(self.client.open("sample").delete(all=True), 10)

    def test_what_is_wrong_is_named(self):
        with self.assertRaisesRegex(bad, "vectors: expected 2"):
            self.live.put([1, 2], self.base[:3])
        with self.assertRaisesRegex(bad, "128"):
            self.live.put([1], self.base[:1, :5])
        with self.assertRaisesRegex(bad, "attributes: expected 1"):
            self.live.put([1], self.base[:1], [{}, {}])
        with self.assertRaisesRegex(bad, "labels"):
            self.live.delete()
        with self.assertRaisesRegex(hmann.NotFoundError, "label 5"):
            self.live.update(5, {"a": 1})
        self.live.put(1, self.base[0], {"a": 1})
        with self.assertRaisesRegex(bad, "all"):
            self.live.delete(filter="a = 1")
        self.assertEqual(self.live.delete(filter="a = 1", all=True), 1)

    def test_writes_outlive_a_kill(self):
        """Threads put, replace and delete, each labels of its own, and others search, while
        the server is killed and started again. What was acknowledged is there, what was not
        is there or not, and nothing was written twice.
        """
        soak = "HMANN_SOAK" in os.environ
        kills, count = (200, 16) if soak else (3, 4)
        writers = [Writer(self, number) for number in range(count)]
        threads = [threading.Thread(target=writer.run) for writer in writers]
        threads += [threading.Thread(target=writers[i].search) for i in range(count)]
        for thread in threads:
            thread.start()
        pause = random.Random(5)
        for _ in range(kills):
            before = [writer.acknowledged for writer in writers]
            while not all(w.acknowledged > b for w, b in zip(writers, before)):
                time.sleep(0.01)
            time.sleep(pause.random() / 5)
            self.server.stop(signal.SIGKILL)
            self.server = Server(self.server.path, "--max-batch", 16, port=self.server.port)
        self.client.wait_ready("sample")
        for writer in writers:
            writer.over = True
        for thread in threads:
            thread.join()
        live = self.client.wait_ready("sample")
        for writer in writers:
            writer.check(live)
        attempts = sum(writer.attempts for writer in writers)
        if soak:
            acknowledged = sum(writer.acknowledged for writer in writers)
            print(f"{kills} kills, {attempts} writes, {acknowledged} of them acknowledged")
        found = live.search(self.base[0], 1, details=True)
        self.assertLessEqual(found.details["sequence"], attempts)

    def test_asyncio(self):
        async def run():
            async with hmann.AsyncClient(self.server.address) as client:
                live = await client.open("sample")
                self.assertEqual(await live.put(range(40), self.base[:40]), 40)
                self.assertEqual(await live.update([1, 2], {"a": 1}), 2)
                self.assertEqual(await live.delete(filter="a = 1"), 2)
                self.assertEqual(await live.delete([0, 1, 5]), 2)
                await live.compact()
                return (await live.search(self.base[[5, 6]], 1)).labels.tolist()

        first, second = asyncio.run(run())
        self.assertNotEqual(first, [5])
        self.assertEqual(second, [6])


class LoneIndexTest(FolderCase):
    def test_an_index_does_not_change(self):
        server = Server(self.path)
        self.addCleanup(server.stop, signal.SIGKILL)
        with hmann.Client(server.address) as client:
            index = client.wait_ready("sample")
            with self.assertRaises(hmann.FailedPreconditionError) as refused:
                index.put([1], self.base[:1])
            self.assertEqual(refused.exception.reason, "NOT_A_COLLECTION")
            self.assertIn("create --from", str(refused.exception))


if __name__ == "__main__":
    unittest.main()
