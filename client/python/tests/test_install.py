"""pip installs the package into an environment of its own, with Debian's packages alone."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from common import BINARY, QUERIES, SOURCE

import hmann


class InstallTest(unittest.TestCase):
    def run_in(self, folder, *command, **more):
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            [str(part) for part in command], cwd=folder, capture_output=True, text=True,
            env={**environment, **more},
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_installed_it_searches(self):
        before = self.state_of_sources()
        with tempfile.TemporaryDirectory(prefix="hmann_venv_") as folder:
            self.run_in(folder, sys.executable, "-m", "venv", "--system-site-packages", "V")
            python = pathlib.Path(folder) / "V" / "bin" / "python"
            self.run_in(
                folder, python, "-m", "pip", "install", "--no-index", "--no-build-isolation",
                SOURCE / "client" / "python", HMANN_BUILD_DIR=str(BINARY),
            )  # fmt: skip
            said = self.run_in(
                folder, python, "-c",
                "import hmann, sys\n"
                f"queries = hmann.read_vectors({str(QUERIES)!r})\n"
                "hmann.build(queries, 'q.hmann', progress=False)\n"
                "print(hmann.open('q.hmann').search(queries[7], 1).labels[0])\n"
                "print(hmann.Client.__name__, hmann.AsyncClient.__name__)\n"
                "print(hmann.__version__, hmann.__file__)",
            )  # fmt: skip
            lines = said.split()
            self.assertEqual(lines[:4], ["7", "Client", "AsyncClient", hmann.__version__])
            self.assertTrue(lines[4].startswith(os.path.realpath(folder)), lines[4])
            listed = self.run_in(folder, python, "-m", "pip", "show", "hmann")
            self.assertIn(f"Version: {hmann.__version__}", listed)
        self.assertEqual(self.state_of_sources(), before)

    def state_of_sources(self):
        package = SOURCE / "client" / "python"
        return sorted(str(p) for p in package.rglob("*") if "__pycache__" not in p.parts)


if __name__ == "__main__":
    unittest.main()
