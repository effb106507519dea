"""The lock of a collection is its process's: children neither have nor keep it."""

import multiprocessing
import os
import signal
import subprocess
import sys
import unittest

import numpy as np
from common import program
from test_collection import CollectionCase

import hmann


class ForkTest(CollectionCase):
    def test_a_child_that_lives_on_has_no_lock(self):
        live = self.create()
        live.put(np.arange(10), self.base[:10])
        sys.stdout.flush()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)  # until the parent ends it
            os._exit(0)
        try:
            self.assert_raises(  # the parent still has it
                hmann.FailedPreconditionError, "writes to it", hmann.open_collection, self.live
            )
            live.close()
            program("delete", self.live, 1)
            with hmann.open_collection(self.live, merges=False) as again:
                self.assertEqual(again.delete([2, 3]), 2)
                self.assertEqual(len(again), 7)
        finally:
            os.close(writing)
            os.close(reading)
            os.waitpid(child, 0)

    def test_a_child_that_ends_leaves_the_lock(self):
        live = self.create()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            self.assertEqual(pool.map(len, ["a", "bc"]), [1, 2])
        subprocess.run([sys.executable, "-c", "pass"], check=True, close_fds=False)
        self.assert_raises(
            hmann.FailedPreconditionError, "writes to it", hmann.open_collection, self.live
        )
        live.put(1, self.base[1])
        self.assertEqual(len(live), 1)

    def test_children_outlive_their_killed_parent(self):
        self.create().close()
        code = f"""
import multiprocessing, os, signal, subprocess, sys, hmann
live = hmann.open_collection({str(self.live)!r})
pool = multiprocessing.get_context("fork").Pool(2)
pool.map(len, ["a", "b"])
other = subprocess.Popen(["sleep", "60"], close_fds=False)
print(other.pid, *(worker.pid for worker in pool._pool), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
        done = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
        )  # whose children keep the pipe open
        children = done.stdout.readline().split()
        try:
            self.assertEqual(done.wait(), -signal.SIGKILL)
            self.assertEqual(len(children), 3)
            with hmann.open_collection(self.live) as live:
                self.assertEqual(live.put(1, self.base[1]), 1)
        finally:
            for pid in children:
                os.kill(int(pid), signal.SIGKILL)
            done.stdout.close()


if __name__ == "__main__":
    unittest.main()
