"""Every example runs to its end; what it claims, it asserts."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from common import SOURCE

EXAMPLES = SOURCE / "client" / "python" / "examples"


class ExamplesTest(unittest.TestCase):
    def run_example(self, name):
        with tempfile.TemporaryDirectory(prefix="hmann_example_") as folder:
            done = subprocess.run(
                [sys.executable, EXAMPLES / name], capture_output=True, text=True, cwd=folder,
                env={**os.environ, "TMPDIR": folder},
            )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_tour(self):
        said = self.run_example("tour.py")
        self.assertIn("refused: queries: expected vectors of 64 x float32", said)

    def test_text_embeddings(self):
        self.assertIn("recall@10 of", self.run_example("text_embeddings.py"))

    def test_nvme(self):
        self.assertIn("reads and", self.run_example("nvme.py"))

    def test_filter(self):
        self.assertIn("match; the nearest cost", self.run_example("filter.py"))

    def test_none_is_forgotten(self):
        tested = {"filter.py", "tour.py", "text_embeddings.py", "nvme.py"}
        self.assertEqual({path.name for path in pathlib.Path(EXAMPLES).glob("*.py")}, tested)


if __name__ == "__main__":
    unittest.main()
