"""A collection behind a server: what clients write is what they find, once."""

import asyncio
import pathlib
import signal
import tempfile
import threading
import unittest

import numpy as np
from common import FolderCase
from server import Server

import hmann

bad = hmann.InvalidArgumentError


class WriteCase(FolderCase):
    """A server of a new collection, under the name "sample", for each test."""

    def setUp(self):
        live = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "c.live"
        hmann.create_collection(live, dim=128, dtype="u8").close()
        self.server = Server(live, "--max-batch", 16)
        self.addCleanup(self.server.stop, signal.SIGKILL)
        self.client = hmann.Client(self.server.address)
        self.addCleanup(self.client.close)
        self.live = self.client.wait_ready("sample")


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

    def test_labels_may_be_strings(self):
        self.live.put(["cat.jpg", "dog"], self.base[:2])
        self.live.put(7, self.base[2])
        found = self.live.search(self.base[:2], 3)
        self.assertEqual(found.names[:, 0].tolist(), ["cat.jpg", "dog"])
        self.assertIn(7, found.names[0].tolist())
        np.testing.assert_array_equal(self.live.get(["dog", "cat.jpg"]), self.base[[1, 0]])
        self.assertEqual(self.live.delete("dog"), 1)

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
        """16 threads write while the server is killed and started again: what was
        acknowledged is there.
        """
        acknowledged = [set() for _ in range(4)]
        over = threading.Event()

        def write(of):
            client = hmann.Client(self.server.address, timeout=30)
            live = client.open("sample")
            number = of
            while not over.is_set():
                try:
                    live.put(number, self.base[number % 2000], timeout=0.5)
                    acknowledged[of].add(number)
                except hmann.Error:
                    pass
                number += 4
            client.close()

        threads = [threading.Thread(target=write, args=(of,)) for of in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            while not all(acknowledged):
                over.wait(0.05)
            self.server.stop(signal.SIGKILL)
            self.server = Server(self.server.path, "--max-batch", 16, port=self.server.port)
            self.client.wait_ready("sample")
            over.wait(0.3)
        over.set()
        for thread in threads:
            thread.join()
        labels = sorted(set().union(*acknowledged))
        self.assertGreater(len(labels), 12)
        found = self.client.wait_ready("sample").get(labels)
        np.testing.assert_array_equal(found, self.base[np.array(labels) % 2000])

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
