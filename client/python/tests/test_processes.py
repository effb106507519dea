"""Ctrl-C, forks, and the interpreter's end."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import unittest

import numpy as np
from common import FolderCase

import hmann


class InterruptTest(FolderCase):
    """Works that would take many minutes: if Ctrl-C did nothing, ctest would end the test."""

    def setUp(self):
        self.addCleanup(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT))
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt_at(self, phase):
        def reported(now, done, total, unit):
            if now.startswith(phase):
                os.kill(os.getpid(), signal.SIGINT)

        return reported

    def test_a_build_is_interrupted_and_the_old_file_stays(self):
        before = self.path.read_bytes()
        vectors = np.random.default_rng(1).standard_normal((200_000, 96)).astype(np.float32)
        with self.assertRaises(KeyboardInterrupt):
            hmann.build(
                vectors, self.path, method="insertion", ef_construction=2000,
                progress=self.interrupt_at("insert"),
            )  # fmt: skip
        self.assertEqual(self.path.read_bytes(), before)
        self.assertEqual([path.name for path in self.folder.glob("*tmp*")], [])
        with hmann.open(self.path) as index:
            self.assertEqual(len(index), 2000)

    def test_exact_neighbors_are_interrupted(self):
        vectors = np.random.default_rng(1).standard_normal((300_000, 96)).astype(np.float32)
        with self.assertRaises(KeyboardInterrupt):
            hmann.exact_neighbors(
                vectors, vectors[:200_000], 10, progress=self.interrupt_at("ground truth")
            )

    def test_tuning_is_interrupted(self):
        with hmann.open(self.path) as index:
            with self.assertRaises(KeyboardInterrupt):
                index.tune(learn=2000, progress=self.interrupt_at("tune"))

    def test_a_batch_is_interrupted(self):
        many = np.broadcast_to(self.queries[0], (3_000_000, 128))
        with hmann.open(self.path) as index:
            for threads in (1, 2):
                timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
                timer.start()
                with self.assertRaises(KeyboardInterrupt):
                    index.search(many, 1, ef_l1=300, ef_l0=1900, threads=threads)
                timer.join()
            # And it goes on being of use.
            self.assertEqual(index.search(self.queries, 3).labels.shape, (len(self.queries), 3))

    def test_long_queries_are_interrupted(self):
        many = np.broadcast_to(self.queries[0], (3_000_000, 128))
        with hmann.open(self.path) as index:
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                index.search(many, 1, ef_l1=30_000, ef_l0=30_000, mode="graph", threads=1)
            timer.join()

    def test_another_handler_of_the_user_decides(self):
        class Enough(Exception):
            pass

        def handler(number, frame):
            raise Enough

        signal.signal(signal.SIGINT, handler)
        with hmann.open(self.path) as index:
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with self.assertRaises(Enough):
                index.search(np.broadcast_to(self.queries[0], (3_000_000, 128)), 1, ef_l0=1900)
            timer.join()


class ForkTest(FolderCase):
    def in_child(self, work):
        """Runs it in a forked child, which must end as a program does."""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                work()
                os._exit(0)
            except BaseException as error:  # noqa: B902
                print("in the child:", repr(error), file=sys.stderr, flush=True)
                os._exit(1)
        _, status = os.waitpid(child, 0)
        self.assertEqual(status, 0)

    def test_the_child_gets_a_named_exception_and_may_open_anew(self):
        for options in ({}, {"slow": "nvme"}):
            index = hmann.open(self.path, **options)
            expected = index.search(self.queries, 5)

            def work():
                for use in (lambda: index.search(self.queries, 5), index.info, index.placements):
                    self.assert_raises(hmann.FailedPreconditionError, "forked", use)
                index.close()
                with hmann.open(self.path, **options) as own:
                    self.assert_same(own.search(self.queries, 5), expected)

            self.in_child(work)
            self.assert_same(index.search(self.queries, 5), expected)
            index.close()

    def test_the_child_builds(self):
        out = self.folder / "by_child.hmann"
        self.in_child(lambda: hmann.build(self.base, out, progress=False))
        self.assertEqual(out.read_bytes(), self.path.read_bytes())

    def test_a_child_that_ends_with_an_open_index(self):
        code = f"""
import os, sys, hmann
index = hmann.open({str(self.path)!r}, slow="nvme")
query = hmann.read_vectors({str(self.path.parent / "q.u8bin")!r})
index.search(query, 3)
if os.fork() == 0:
    sys.exit(0)
_, status = os.wait()
sys.exit(status)
"""
        hmann.write_vectors(self.folder / "q.u8bin", self.queries)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class EndTest(FolderCase):
    def test_the_interpreter_ends_while_threads_search(self):
        code = f"""
import threading, time, numpy, hmann
index = hmann.open({str(self.path)!r})
queries = numpy.zeros((2000, 128), numpy.uint8)
def search():
    while True:
        index.search(queries, 5)
for _ in range(3):
    threading.Thread(target=search, daemon=True).start()
time.sleep(0.3)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_without_grpc_all_but_the_clients_work(self):
        package = pathlib.Path(hmann.__file__).parent.parent
        code = f"""
import sys
sys.path.insert(0, {str(package)!r})
import hmann
assert "grpc" not in sys.modules
print(hmann.__version__)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(done.stdout.strip(), hmann.__version__, done.stderr)


if __name__ == "__main__":
    unittest.main()
