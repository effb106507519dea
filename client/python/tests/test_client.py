"""The clients, beside the index itself, over loopback from a real server."""

import asyncio
import os
import signal
import sys
import threading
import unittest

import numpy as np
from common import FolderCase
from server import TOO_LATE, OpenedCase, ServedCase, Server

import hmann
from hmann import _wire


class ClientTest(OpenedCase):
    def test_it_has_the_face_of_the_index(self):
        self.assertEqual(len(self.index), len(self.local))
        for name in ("dim", "dtype", "metric"):
            self.assertEqual(getattr(self.index, name), getattr(self.local, name))
        info, expected = self.index.info(), self.local.info()
        self.assertGreater(len(expected.pop("calibration")["expected"]), 0)
        self.assertEqual({key: info[key] for key in expected}, expected)
        self.assertIn("l0", [line["structure"] for line in self.index.placements()])
        self.assertEqual(self.index.limits["max_batch"], 16)
        self.assertIn("2000 vectors of 128 x uint8", repr(self.index))
        (summary,) = self.client.indexes()
        self.assertEqual((summary["name"], summary["state"]), ("sample", "serving"))
        self.assertEqual((summary["n"], summary["dtype"]), (2000, "uint8"))

    def test_arguments_of_filters_keep_their_types(self):
        given = {"some": ["x", 1, np.int64(2), 2.5, True], "one": "it"}
        options = _wire.to_options(3, False, {"filter": "a in $some", "filter_arguments": given})
        some = options.filter_arguments["some"]
        self.assertEqual((list(some.texts), list(some.integers)), (["x"], [1, 2]))
        self.assertEqual((list(some.numbers), list(some.flags)), ([2.5], [True]))
        self.assertEqual(list(options.filter_arguments["one"].texts), ["it"])
        for wrong, error in (
            (5, hmann.errors.InvalidTypeError),
            ({"some": [object()]}, hmann.errors.InvalidTypeError),
            ({"some": 2**63}, hmann.errors.InvalidArgumentError),
        ):
            with self.assertRaises(error):
                self.index.search(self.queries, 3, filter="a in $some", filter_arguments=wrong)

    def test_an_answer_in_parts_begins_anew_when_the_file_is_swapped(self):
        generations = iter([1, 1, 2, 2, 2, 2] + [2] * 20)
        call = self.client._call

        def swapped(*arguments):
            response = call(*arguments)
            response.generation = next(generations)
            return response

        expected = self.index.search(self.queries[:48], 6)  # in three requests
        self.client._call = swapped
        found = self.index.search(self.queries[:48], 6, details=True)
        self.assert_same(found, expected)
        self.assertEqual(found.details["generation"], 2)
        self.assertEqual(len(list(generations)), 20, "six requests were made")

    def test_answers_are_those_of_the_index(self):
        for params in ({}, {"ef_l1": 20, "ef_l0": 30}, {"mode": "graph", "epsilon": 0.2},
                      {"mode": "upper"}, {"nprobe": 16, "mode": "quantized"}):  # fmt: skip
            expected = self.local.search(self.queries, 6, details=True, **params)
            found = self.index.search(self.queries, 6, details=True, **params)  # in 13 requests
            self.assert_same(found, expected)
            self.assertEqual((found.labels.dtype, found.distances.dtype), (np.int64, np.float32))
            for name, value in expected.details["params"].items():
                self.assertAlmostEqual(found.details["params"][name], value, 5) if isinstance(
                    value, float
                ) else self.assertEqual(found.details["params"][name], value)
            self.assertEqual(found.details["counters"], expected.details["counters"])
            self.assert_same(
                self.index.search(self.queries[3], 6, **params),
                self.local.search(self.queries[3], 6, **params),
            )
        self.assertEqual(self.index.search(self.queries[:0], 6).labels.shape, (0, 6))
        fortran = np.asfortranarray(self.queries)
        self.assert_same(self.index.search(fortran, 6), self.local.search(self.queries, 6))

    def test_vectors_by_label(self):
        rows = np.random.default_rng(2).permutation(2000)[:100]
        np.testing.assert_array_equal(self.index.get(rows), self.base[rows])  # in 7 requests
        self.assertEqual(self.index.get(rows).dtype, np.uint8)
        np.testing.assert_array_equal(self.index.get(7), self.base[7])
        self.assertEqual(self.index.get([]).shape, (0, 128))
        get, bad = self.index.get, hmann.InvalidArgumentError
        error = self.assert_raises(
            hmann.NotFoundError, "label 2000: no vector of the index has it", get, [3, 2000]
        )
        self.assertEqual(error.code, "NOT_FOUND")
        self.assert_raises(bad, "expected 0 to 2^63 - 1, found -1 at 1", get, [3, -1])
        self.assert_raises(bad, "labels: expected one, or shape (n,)", get, [[3]])
        self.assert_raises(hmann.InvalidTypeError, "labels: expected whole", get, [1.5])
        self.assert_raises(hmann.InvalidTypeError, "labels: expected whole", get, "3")
        self.assert_raises(TOO_LATE, "", get, np.tile(rows, 2000), timeout=0.02)

    def test_what_is_wrong(self):
        search, query = self.index.search, self.queries[0]
        bad, no_such = hmann.InvalidArgumentError, hmann.InvalidTypeError
        self.assert_raises(bad, "found 64 x uint8", search, query[:64])
        self.assert_raises(bad, "shape", search, np.zeros((1, 1, 128), np.uint8))
        self.assert_raises(bad, "k", search, query, 2001)
        self.assert_raises(bad, "[field options.k]", search, query, 501)
        self.assert_raises(bad, "k", search, query, 0)
        self.assert_raises(bad, "k:", search, query, -1)
        self.assert_raises(no_such, "k: expected a number", search, query, "ten")
        self.assert_raises(no_such, "hue: no such option; there are", search, query, hue=3)
        self.assert_raises(no_such, "latency_us: no such", search, query, latency_us=3)
        self.assert_raises(bad, "mode: expected one of multi-start", search, query, mode="x")
        self.assert_raises(bad, "ef_l1", search, query, ef_l1=0)
        self.assert_raises(bad, "budget", search, query, budget=-3)
        self.assert_raises(bad, "[field options.latency_us]", search, query, latency=1e-6)
        error = self.assert_raises(
            hmann.NotFoundError, "[index nothing]", self.client.open, "nothing"
        )
        self.assertEqual(error.code, "NOT_FOUND")

    def test_addresses(self):
        for address in ("localhost", ":50051", "localhost:", None):
            self.assert_raises(
                hmann.InvalidArgumentError, "expected HOST:PORT", hmann.Client, address
            )
        nobody = hmann.Client("127.0.0.1:1", timeout=5)
        self.assert_raises(hmann.UnavailableError, "", nobody.open, "sample")
        self.assert_raises(ConnectionError, "", nobody.indexes)
        self.assert_raises(
            hmann.DeadlineExceededError, "", nobody.wait_ready, "sample", timeout=0.2
        )
        nobody.close()

    def test_a_timeout_is_kept(self):
        many = np.broadcast_to(self.queries[0], (20_000, 128))
        self.assert_raises(TOO_LATE, "", self.index.search, many, 100, ef_l0=1900, timeout=0.05)

    def test_closed_and_forked(self):
        self.client.close()
        self.client.close()
        self.assert_raises(
            hmann.FailedPreconditionError, "the client is closed", self.index.search,
            self.queries,
        )  # fmt: skip
        client = hmann.Client(self.server.address)
        index = client.open("sample")
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                self.assert_raises(
                    hmann.FailedPreconditionError, "forked", index.search, self.queries
                )
                os._exit(0)
            except BaseException:  # noqa: B902
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assert_same(index.search(self.queries, 5), self.local.search(self.queries, 5))
        client.close()

    def test_threads_share_a_client(self):
        expected = self.local.search(self.queries, 5)
        failed = []

        def search():
            try:
                for _ in range(5):
                    self.assert_same(self.index.search(self.queries, 5), expected)
            except BaseException as error:  # noqa: B902
                failed.append(error)

        threads = [threading.Thread(target=search) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])

    def test_ctrl_c(self):
        self.addCleanup(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        many = np.broadcast_to(self.queries[0], (2_000_000, 128))
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            self.index.search(many, 1, ef_l0=1900, timeout=3600)
        timer.join()


class OverloadTest(FolderCase):
    def test_a_full_server_says_when_to_come_back_and_the_client_does(self):
        server = Server(self.path, "--threads", 1, "--queue", 1)
        self.addCleanup(server.stop, signal.SIGKILL)
        patient = hmann.Client(server.address, timeout=60)
        self.addCleanup(patient.close)
        patient.wait_ready("sample")
        impatient = hmann.Client(server.address, timeout=60, retry=False)
        self.addCleanup(impatient.close)
        refused, answered = [], []

        def search(client):
            index = client.open("sample")
            for _ in range(10):
                try:
                    index.search(np.tile(self.queries, (4, 1))[:600], 10, ef_l0=1000)
                    answered.append(client)
                except hmann.ResourceExhaustedError as error:
                    refused.append(error)

        threads = [threading.Thread(target=search, args=(impatient,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertGreater(len(refused), 0)
        self.assertEqual(refused[0].reason, "QUEUE_FULL")
        self.assertGreater(refused[0].retry_after, 0)
        self.assertIn("QUEUE_FULL; retry after", str(refused[0]))


class ServerThatGoesAwayTest(FolderCase):
    def test_a_named_exception_and_back_again(self):
        server = Server(self.path)
        client = hmann.Client(server.address, timeout=5)
        self.addCleanup(client.close)
        index = client.wait_ready("sample")
        expected = index.search(self.queries, 5)
        server.stop(signal.SIGKILL)
        error = self.assert_raises(hmann.Error, "", index.search, self.queries, 5)
        self.assertIsInstance(error, (hmann.UnavailableError, hmann.DeadlineExceededError))
        again = Server(self.path, port=server.port)
        self.addCleanup(again.stop, signal.SIGKILL)
        self.assert_same(client.wait_ready("sample").search(self.queries, 5), expected)

    def test_while_it_answers(self):
        server = Server(self.path)
        client = hmann.Client(server.address, timeout=30)
        self.addCleanup(client.close)
        index = client.wait_ready("sample")
        timer = threading.Timer(0.3, server.stop, (signal.SIGKILL,))
        timer.start()
        many = np.broadcast_to(self.queries[0], (2_000_000, 128))
        error = self.assert_raises(hmann.Error, "", index.search, many, 1, ef_l0=1900)
        self.assertIsInstance(error, (hmann.UnavailableError, hmann.DeadlineExceededError))
        timer.join()


class OddInputsTest(OpenedCase):
    def test_masked_entries_and_odd_names(self):
        bad = hmann.InvalidArgumentError
        masked = np.ma.masked_equal(self.queries, self.queries[0, 0])
        self.assert_raises(bad, "queries: expected an array without", self.index.search, masked)
        self.assert_raises(bad, "labels: ", self.index.get, np.ma.masked_equal([1, 2], 2))
        large = np.array([5, 2**64 - 7], np.uint64)
        self.assert_raises(bad, f"found {2**64 - 7} at 1", self.index.get, large)
        for name in ("a\udcff", 3):
            self.assert_raises(
                hmann.InvalidTypeError, "index: expected UTF-8", self.client.open, name
            )
        self.assert_raises(bad, "server: expected UTF-8", hmann.Client, "unix:/tmp/a\udcff")

    def test_labels_beyond_int64(self):
        labels, out = self.folder / "labels.u64", self.folder / "large.hmann"
        np.arange(2**64 - 2001, 2**64 - 1, dtype=np.uint64).tofile(labels)
        hmann.build(self.base, out, labels=labels, progress=False)
        server = Server(out)
        self.addCleanup(server.stop, signal.SIGKILL)
        with hmann.Client(server.address) as client:
            index = client.wait_ready("sample")
            self.assert_raises(
                hmann.OutOfRangeError, "label 184467", index.search, self.queries[0], 3
            )


class AsyncTest(ServedCase):
    def test_searches_side_by_side(self):
        async def work():
            async with hmann.AsyncClient(self.server.address) as client:
                index = await client.open("sample")
                self.assertEqual((index.dim, len(index)), (128, 2000))
                self.assertEqual((await client.indexes())[0]["name"], "sample")
                found = await asyncio.gather(
                    *[index.search(self.queries, 5, ef_l0=20 + i) for i in range(6)]
                )
                one = await index.search(self.queries[0], 5)
                with self.assertRaises(hmann.InvalidArgumentError):
                    await index.search(self.queries[0], 5, ef_l1=0)
                with self.assertRaises(hmann.NotFoundError):
                    await client.open("nothing")
            with self.assertRaises(hmann.FailedPreconditionError):
                await index.search(self.queries[0])
            return found, one

        found, one = asyncio.run(work())
        for i, answer in enumerate(found):
            self.assert_same(answer, self.local.search(self.queries, 5, ef_l0=20 + i))
        self.assert_same(one, self.local.search(self.queries[0], 5))

    def test_vectors_by_label(self):
        async def work():
            async with hmann.AsyncClient(self.server.address) as client:
                index = await client.open("sample")
                with self.assertRaises(hmann.NotFoundError):
                    await index.get([1, 5000])
                with self.assertRaises(hmann.InvalidArgumentError):
                    await index.get(-1)
                return await index.get(np.arange(1000, 1200)), await index.get(3)

        many, one = asyncio.run(work())
        np.testing.assert_array_equal(many, self.base[1000:1200])
        np.testing.assert_array_equal(one, self.base[3])

    def test_a_timeout_and_a_cancellation(self):
        many = np.broadcast_to(self.queries[0], (20_000, 128))

        async def work():
            async with hmann.AsyncClient(self.server.address) as client:
                index = await client.open("sample")
                with self.assertRaises(TOO_LATE):
                    await index.search(many, 100, ef_l0=1900, timeout=0.05)
                task = asyncio.ensure_future(index.search(many, 100, ef_l0=1900, timeout=600))
                await asyncio.sleep(0.1)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                return await index.search(self.queries[0], 5)

        self.assertEqual(asyncio.run(work()).labels.shape, (5,))


if __name__ == "__main__":
    unittest.main()
