"""TLS, certificates and tokens of both clients; their errors without a connection."""

import asyncio
import concurrent.futures
import hashlib
import os
import signal
import socket
import subprocess
import time
import unittest
from unittest import mock

import grpc
from common import FolderCase
from server import Server

import hmann
from hmann.v1 import search_pb2_grpc

TOKEN = "a-secret-token"
EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
UNTRUSTED = "the server's certificate has expired, or is of no authority that this client trusts"


def openssl(*arguments):
    command = ["/usr/bin/openssl", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True)


def ask(address, **how):
    """The name of an index, or the error: [by Client, by AsyncClient]."""

    def blocking():
        with hmann.Client(address, **how) as client:
            return client.indexes()[0]["name"]

    async def later():
        async with hmann.AsyncClient(address, **how) as client:
            return (await client.indexes())[0]["name"]

    found = []
    for call in (blocking, lambda: asyncio.run(later())):
        try:
            found.append(call())
        except hmann.Error as error:
            found.append(error)
    return found


async def ask_everything(client, query):
    """Makes all kinds of calls; the labels that the last one returns."""
    index = await client.open("sample")
    await index.get([1, 2])
    await index.search(query)
    return [answer.labels async for _, answer in index.search_stream([query])][0]


class Failing(search_pb2_grpc.SearchServicer):
    """The first List fails; later ones take long."""

    calls = 0

    def List(self, request, context):  # noqa: N802
        self.calls += 1
        if self.calls == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the first cause")
        time.sleep(1.5)


class TlsTest(FolderCase):
    rows = 200

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("ours", "foreign"):
            openssl("req", "-x509", *EC, "-keyout", cls.key(name), "-out", cls.pem(name),
                    "-subj", f"/CN={name}", "-days", "3")  # fmt: skip
        cls.sign("server", "ours")
        cls.sign("client", "ours")

    @classmethod
    def pem(cls, name):
        return cls.folder / f"{name}.pem"

    @classmethod
    def key(cls, name):
        return cls.folder / f"{name}.key"

    @classmethod
    def sign(cls, name, authority, host="IP:127.0.0.1", days=2):
        request = cls.folder / f"{name}.csr"
        openssl("req", *EC, "-keyout", cls.key(name), "-out", request, "-subj", f"/CN={name}",
                "-addext", f"subjectAltName={host}")  # fmt: skip
        openssl("x509", "-req", "-in", request, "-CA", cls.pem(authority), "-CAkey",
                cls.key(authority), "-CAcreateserial", "-copy_extensions", "copy", "-days",
                days, "-out", cls.pem(name))  # fmt: skip

    def serve(self, *options, certificate="server"):
        tls = ["--tls-cert", self.pem(certificate), "--tls-key", self.key(certificate)]
        server = Server(self.path, *(tls if certificate else []), *options)
        self.addCleanup(server.stop, signal.SIGKILL)
        return server

    def assert_refused(self, text, address, kind=hmann.UnavailableError, **how):
        """Both clients say why, soon, and nothing of gRPC's own words."""
        for retry in (False, True):
            begin = time.monotonic()
            for error in ask(address, retry=retry, timeout=10, **how):
                self.assertIsInstance(error, kind)
                self.assertIn(text, str(error))
                self.assertNotIn("addresses", str(error))
                self.assertNotIn(TOKEN, repr(error))
            self.assertLess(time.monotonic() - begin, 5)

    def test_a_client_trusts_a_server_of_its_authorities_only(self):
        address = self.serve().address
        with hmann.Client(address, ca=self.pem("ours")) as client:
            client.wait_ready("sample")
            self.assertEqual(ask(address, ca=str(self.pem("ours"))), ["sample"] * 2)
            self.assert_refused(UNTRUSTED, address, ca=self.pem("foreign"))
        system = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
        with mock.patch.dict(os.environ, {system: str(self.pem("ours"))}):
            self.assertEqual(ask(address, tls=True), ["sample"] * 2)
        with mock.patch.dict(os.environ, {system: str(self.pem("foreign"))}):
            self.assert_refused(UNTRUSTED, address, tls=True)
        with hmann.Client(address, ca=self.pem("foreign")) as client:
            begin = time.monotonic()
            error = self.assert_raises(
                hmann.UnavailableError, UNTRUSTED, client.wait_ready, "sample", timeout=30
            )
            self.assertEqual(error.reason, "TLS_REFUSED")
            self.assertLess(time.monotonic() - begin, 5)
        self.sign("expired", "ours", days=-1)
        self.sign("elsewhere", "ours", "DNS:elsewhere.example")
        ours = {"ca": self.pem("ours")}
        self.assert_refused(UNTRUSTED, self.serve(certificate="expired").address, **ours)
        other_host = "certificate is for other names than this address (Peer name 127.0.0.1 is not"
        self.assert_refused(other_host, self.serve(certificate="elsewhere").address, **ours)

    def test_one_side_uses_tls(self):
        self.assert_refused(
            "does not use TLS", self.serve(certificate=None).address, ca=self.pem("ours")
        )
        self.assert_refused("it may require TLS (ca= or tls=True)", self.serve().address)

    def test_a_server_that_requires_certificates(self):
        address = self.serve("--tls-client-ca", self.pem("ours")).address
        self.sign("stranger", "foreign")
        one, stranger = (
            {"ca": self.pem("ours"), "cert": self.pem(name), "key": self.key(name)}
            for name in ("client", "stranger")
        )
        self.assertEqual(ask(address, **one), ["sample"] * 2)
        self.assert_refused("may require a certificate of this client (cert= and key=)", address,
                            ca=self.pem("ours"))  # fmt: skip
        self.assert_refused("may not trust the certificate of this client", address, **stranger)

    def test_files_that_cannot_be_used(self):
        def refused(kind, text, **how):
            for client in (hmann.Client, hmann.AsyncClient):
                error = self.assert_raises(kind, text, client, "127.0.0.1:1", **how)
                self.assertNotIn("PRIVATE", str(error))

        bad, absent = hmann.InvalidArgumentError, hmann.NotFoundError
        pem, key, none = self.pem("client"), self.key("client"), self.folder / "none"
        locked = self.folder / "locked.key"
        openssl("ec", "-in", key, "-aes128", "-passout", "pass:x", "-out", locked)
        for one in ({"cert": pem}, {"key": key, "ca": pem}):
            refused(bad, "go together: give both cert= and key=", **one)
        refused(absent, f"ca {none}: No such file or directory", ca=none)
        refused(absent, f"cert {none}: ", cert=none, key=key)
        refused(absent, f"key {none}: ", cert=pem, key=str(none))
        refused(bad, f"ca {self.folder}: Is a directory", ca=self.folder)
        refused(bad, f"ca {key}: expected a certificate in PEM", ca=key)
        refused(bad, f"cert {self.path}: expected a certificate in PEM", cert=self.path, key=key)
        for other in (pem, self.path, locked):
            refused(bad, f"key {other}: expected a private key in PEM, without a password",
                    cert=pem, key=other)  # fmt: skip
        refused(bad, f"is not the key of the certificate in {pem}", cert=pem,
                key=self.key("server"))  # fmt: skip
        for contents in (key.read_text(), key.read_bytes(), 3):
            refused(hmann.InvalidTypeError, "key: expected the path of", cert=pem, key=contents)

    def test_a_token_is_sent_with_every_call(self):
        tokens = self.folder / "tokens"
        tokens.write_text(hashlib.sha256(TOKEN.encode()).hexdigest() + " read\n")
        query = self.queries[0]
        for certificate in ("server", None):
            server = self.serve("--tokens", tokens, certificate=certificate)
            how = {"ca": self.pem("ours")} if certificate else {}
            with hmann.Client(server.address, token=TOKEN, **how) as client:
                index = client.wait_ready("sample")
                labels = index.search(query).labels.tolist()
                index.get([1, 2])
                ((_, answer),) = index.search_stream([query])
                self.assertEqual(answer.labels.tolist(), labels)
                self.assertEqual(client.indexes()[0]["name"], "sample")
                self.assertNotIn(TOKEN, repr(client) + repr(index) + repr(vars(client)))

            async def work():
                async with hmann.AsyncClient(server.address, token=TOKEN, **how) as client:
                    self.assertNotIn(TOKEN, repr(client))
                    return await ask_everything(client, query)

            self.assertEqual(asyncio.run(work()).tolist(), labels)
            for one, text in (({}, "TOKEN_MISSING"), ({"token": TOKEN + "2"}, "TOKEN_UNKNOWN")):
                self.assert_refused(text, server.address, hmann.UnauthenticatedError, **how, **one)

    def test_a_token_is_never_sent_unencrypted_to_another_machine(self):
        bad = hmann.InvalidArgumentError
        for client in (hmann.Client, hmann.AsyncClient):
            for address in ("db.example:50051", "10.0.0.1:1", "127.evil.example:1", "dns:///x:1"):
                error = self.assert_raises(
                    bad, "unencrypted: use TLS", client, address, token=TOKEN
                )
                self.assertNotIn(TOKEN, str(error))
            for token in ("", "two words", "line\n", "\u00e4", b"bytes", 3):
                error = self.assert_raises(
                    bad, "token: expected visible ASCII", client, "127.0.0.1:1", token=token
                )
                self.assertNotIn("words", str(error))
        for address in ("unix:/none", "127.0.0.2:1", "[::1]:1", "localhost:1"):
            hmann.Client(address, token=TOKEN).close()
        hmann.Client("db.example:1", token=TOKEN, ca=self.pem("ours")).close()

    def test_no_server(self):
        self.assert_refused("no connection to 127.0.0.1:1: no server listens there (Connection "
                            "refused)", "127.0.0.1:1")  # fmt: skip
        path = self.folder / "none.sock"
        self.assert_refused("no server listens there (No such file", f"unix:{path}")
        name = 64 * "a" + ":50051"  # no domain name has parts as long: nothing is sent
        self.assert_refused(f"no connection to {name}: the name cannot be resolved", name)
        with hmann.Client("127.0.0.1:1") as client:
            self.assert_raises(
                hmann.DeadlineExceededError, "not ready: no connection to 127.0.0.1:1: no server "
                "listens there", client.wait_ready, "sample", timeout=0.3,
            )  # fmt: skip

    def test_a_server_that_does_not_answer(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            for how in ({}, {"ca": self.pem("ours")}):
                for error in ask(address, timeout=0.2, **how):
                    self.assertIsInstance(error, hmann.DeadlineExceededError)
                    self.assertIn(f"List: the time given is over; no call to {address} has "
                                  "succeeded so far", str(error))  # fmt: skip

    def test_the_time_ends_in_a_retry(self):
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
        self.addCleanup(server.stop, None)
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        failing = Failing()
        search_pb2_grpc.add_SearchServicer_to_server(failing, server)
        server.start()
        with hmann.Client(address, timeout=1) as client:
            self.assert_raises(
                hmann.DeadlineExceededError, "List: the time given is over; the last attempt: the "
                "first cause", client.indexes,
            )  # fmt: skip
            failing.calls = 0
        with hmann.Client(address, retry=False) as client:
            self.assert_raises(hmann.UnavailableError, "the first cause", client.indexes)

    def test_a_stream_without_its_server(self):
        server, gone = self.serve(), "no server listens there (Connection refused)"
        with hmann.Client(server.address, ca=self.pem("ours")) as client:
            index = client.wait_ready("sample")

            async def work():
                async with hmann.AsyncClient(server.address, ca=self.pem("ours")) as later:
                    opened = await later.open("sample")
                    server.stop(signal.SIGKILL)
                    for _ in range(2):  # the first one may notice how the connection ends
                        with self.assertRaises(hmann.UnavailableError) as caught:
                            async for _ in opened.search_stream(self.queries):
                                pass
                    self.assertIn(gone, str(caught.exception))

            asyncio.run(work())
            for _ in range(2):
                error = self.assert_raises(
                    hmann.UnavailableError, "", list, index.search_stream(self.queries)
                )
            self.assertIn(gone, str(error))


if __name__ == "__main__":
    unittest.main()
