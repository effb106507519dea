"""A real `hmann serve` on a port that it picks, and test cases with one."""

import json
import signal
import subprocess

from common import PROGRAM, FolderCase

import hmann

#: The time is over; or the server says beforehand that it will be.
TOO_LATE = (hmann.DeadlineExceededError, hmann.ResourceExhaustedError)


class Server:
    """Serves an index as "sample" until it is stopped."""

    def __init__(self, path, *options, port=0):
        self.path = path
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--index", f"sample={path}", "--listen", f"127.0.0.1:{port}",
             "--json", *map(str, options)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        said = ""
        while not said.strip().endswith("}"):
            line = self.process.stdout.readline()
            assert line, "the server ended"
            said += line
        self.port = json.loads(said)["port"]
        self.address = f"127.0.0.1:{self.port}"

    def stop(self, how=signal.SIGTERM):
        """And waits for its end."""
        self.process.send_signal(how)
        self.process.wait()
        self.process.stdout.close()


class ServedCase(FolderCase):
    """A server of the sample index, which is opened here too."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.path, "--max-batch", 16, "--max-k", 500)
        cls.addClassCleanup(cls.server.stop, signal.SIGKILL)
        cls.local = hmann.open(cls.path)
        cls.addClassCleanup(cls.local.close)
        with hmann.Client(cls.server.address) as client:
            client.wait_ready("sample")


class OpenedCase(ServedCase):
    """With a client of each test's own, by which the index is open."""

    def setUp(self):
        self.client = hmann.Client(self.server.address)
        self.addCleanup(self.client.close)
        self.index = self.client.open("sample")
