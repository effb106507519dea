"""Many queries over one call, beside the index itself."""

import asyncio
import threading
import time
import unittest

import numpy as np
from server import TOO_LATE, OpenedCase, ServedCase

import hmann


class StreamTest(OpenedCase):
    def test_a_stream_answers_each_query(self):
        expected = self.local.search(self.queries, 6, ef_l0=40, details=True)
        found = {}
        for number, answer in self.index.search_stream(
            self.queries, 6, ef_l0=40, in_flight=5, details=True
        ):
            self.assertNotIn(number, found)
            found[number] = answer
        self.assertEqual(sorted(found), list(range(len(self.queries))))
        counters = {}
        for number, answer in found.items():
            self.assertEqual(answer.labels.tolist(), expected.labels[number].tolist())
            self.assertEqual(answer.distances.tolist(), expected.distances[number].tolist())
            for name, count in answer.details["counters"].items():
                counters[name] = counters.get(name, 0) + count
        self.assertEqual(counters, expected.details["counters"])
        self.assertEqual(list(self.index.search_stream([], 6)), [])

    def test_a_stream_asks_no_further_than_in_flight(self):
        requested = 0

        def endless():
            nonlocal requested
            while True:
                requested += 1
                yield self.queries[requested % len(self.queries)]

        stream = self.index.search_stream(endless(), 5, in_flight=3)
        for taken in range(1, 51):
            next(stream)
            self.assertLessEqual(requested, taken + 4)  # one more waits to be sent
        stream.close()
        threads = threading.active_count()
        for _ in range(100):
            if threading.active_count() < threads:
                break
            time.sleep(0.01)
        before = requested
        self.assertEqual(next(self.index.search_stream(self.queries[:1], 5))[0], 0)
        self.assertEqual(requested, before)

    def test_what_is_wrong_with_a_stream(self):
        bad = hmann.InvalidArgumentError

        def all_of(*args, **params):
            return list(self.index.search_stream(*args, **params))

        self.assert_raises(bad, "in_flight", self.index.search_stream, self.queries, in_flight=0)
        self.assert_raises(
            hmann.InvalidTypeError, "no such option", self.index.search_stream, self.queries, e=1
        )
        self.assert_raises(bad, "[field options.k]", all_of, self.queries, 501)
        self.assert_raises(bad, "shape (dim,)", all_of, [self.queries], 5)

        def breaks():
            yield self.queries[0]
            raise KeyError("mine")

        numbers = []
        with self.assertRaisesRegex(KeyError, "mine"):
            for number, _ in self.index.search_stream(breaks(), 5):
                numbers.append(number)
        self.assertEqual(numbers, [0])
        failed = all_of(self.queries[:7], 5, ef_l1=0, return_exceptions=True)
        self.assertEqual(sorted(number for number, _ in failed), list(range(7)))
        for _, error in failed:
            self.assertIsInstance(error, bad)
            self.assertIn("ef_l1", str(error))
        self.assert_raises(
            TOO_LATE, "", all_of, np.broadcast_to(self.queries[0], (20_000, 128)), 100,
            ef_l0=1900, timeout=0.05,
        )  # fmt: skip
        self.client.close()
        self.assert_raises(hmann.FailedPreconditionError, "closed", all_of, self.queries)


class AsyncStreamTest(ServedCase):
    def test_a_stream(self):
        async def slowly():
            for query in self.queries:
                await asyncio.sleep(0)
                yield query

        async def breaks():
            yield self.queries[0]
            raise KeyError("mine")

        async def work():
            async with hmann.AsyncClient(self.server.address) as client:
                index = await client.open("sample")
                for queries in (self.queries, slowly()):
                    found = {}
                    async for number, answer in index.search_stream(queries, 5, in_flight=4):
                        found[number] = answer.labels.tolist()
                    expected = self.local.search(self.queries, 5).labels.tolist()
                    self.assertEqual([found[i] for i in sorted(found)], expected)
                with self.assertRaisesRegex(KeyError, "mine"):
                    async for number, _ in index.search_stream(breaks(), 5):
                        self.assertEqual(number, 0)
                with self.assertRaises(hmann.InvalidArgumentError):
                    async for _ in index.search_stream(self.queries, 5, ef_l1=0):
                        self.fail("an answer")
                failed = [
                    error
                    async for _, error in index.search_stream(
                        self.queries[:3], 5, ef_l1=0, return_exceptions=True
                    )
                ]
                self.assertEqual(len(failed), 3)
                stream = index.search_stream(slowly(), 5)
                await stream.__anext__()
                await stream.aclose()
                return await index.search(self.queries[0], 5)

        self.assertEqual(asyncio.run(work()).labels.shape, (5,))


if __name__ == "__main__":
    unittest.main()
