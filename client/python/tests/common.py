"""What the tests share: the sample, a folder of one's own, the program of this build."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

import hmann

SOURCE = pathlib.Path(os.environ["HMANN_SOURCE_DIR"])
BINARY = pathlib.Path(os.environ["HMANN_BINARY_DIR"])
SAMPLE = SOURCE / "datasets" / "sample"
BASE, QUERIES, TRUTH = SAMPLE / "base.u8bin", SAMPLE / "query.u8bin", SAMPLE / "query.gt100"
PROGRAM = BINARY / "bin" / "hmann"


def program(*arguments):
    """Runs `hmann`, which must succeed; its stdout."""
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def program_json(*arguments):
    """The one JSON object that `hmann ... --json` prints."""
    return json.loads(program(*arguments, "--json"))


class FolderCase(unittest.TestCase):
    """A test case with a folder, and a sample index of ``rows`` vectors in it."""

    rows = 2000

    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory(prefix="hmann_python_")
        cls.addClassCleanup(cls._folder.cleanup)
        cls.folder = pathlib.Path(cls._folder.name)
        cls.base = hmann.read_vectors(BASE, cls.rows)
        cls.queries = hmann.read_vectors(QUERIES)
        cls.path = cls.folder / "sample.hmann"
        cls.report = hmann.build(cls.base, cls.path, progress=False)

    def assert_same(self, one, other):
        """Two answers are the same, bit by bit."""
        np.testing.assert_array_equal(one.labels, other.labels)
        np.testing.assert_array_equal(one.distances, other.distances)

    def assert_raises(self, kind, text, function, *arguments, **named):
        """It raises that kind of hmann.Error, whose message contains the text."""
        with self.assertRaises(kind) as caught:
            function(*arguments, **named)
        self.assertIsInstance(caught.exception, hmann.Error)
        self.assertIn(text, str(caught.exception))
        return caught.exception
