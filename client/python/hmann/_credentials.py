"""TLS and tokens of both clients: the rules of client/cpp/credentials.cc."""

from __future__ import annotations

import os
import re
import ssl
from typing import Optional, Tuple, Union

import grpc

from hmann import errors

Path = Union[str, "os.PathLike[str]"]
_THIS_MACHINE = re.compile(r"unix:.*|(localhost|\[::1\]|127\.[0-9.]*):[^:]*")


class Credentials:
    """What a client presents to a server; the arguments are those of ``hmann.Client``.

    Attributes:
        channel: for a channel with TLS; None: plaintext.
        metadata: of each call.
        why_closed: why a server may close a connection with such credentials.
    """

    def __init__(
        self,
        address: str,
        tls: bool,
        ca: Optional[Path],
        cert: Optional[Path],
        key: Optional[Path],
        token: Optional[str],
    ) -> None:
        if (cert is None) != (key is None):
            raise errors.InvalidArgumentError(
                "a client's certificate and its key go together: give both cert= and key="
            )
        tls = tls or ca is not None or cert is not None
        self.metadata: Tuple[Tuple[str, str], ...] = ()
        if token is not None:
            self.metadata = (("authorization", _authorization(address, tls, token)),)
        self.channel: Optional[grpc.ChannelCredentials] = None
        self.why_closed = "it may require TLS (ca= or tls=True)"
        if not tls:
            return
        if ca is None:  # gRPC's own list is used only if the system has none
            named = os.environ.get("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")
            ca = named or ssl.get_default_verify_paths().cafile
        roots = None if ca is None else _certificates("ca", ca)
        self.why_closed = "it may require a certificate of this client (cert= and key=)"
        own_cert = own_key = None
        if cert is not None and key is not None:
            own_cert, own_key = _certificates("cert", cert), _key(key, cert)
            self.why_closed = "it may not trust the certificate of this client (cert=)"
        self.channel = grpc.ssl_channel_credentials(roots, own_key, own_cert)


def _authorization(address: str, tls: bool, token: str) -> str:
    if not isinstance(token, str) or not re.fullmatch("[!-~]+", token):
        raise errors.InvalidArgumentError(
            "token: expected visible ASCII characters without spaces (read from a file: "
            ".strip()); it is not shown here"
        )
    if not tls and not _THIS_MACHINE.fullmatch(address):
        raise errors.InvalidArgumentError(
            f"the token would go to {address} unencrypted: use TLS (ca=, or tls=True for the "
            "system's authorities)"
        )
    return f"Bearer {token}"


def _read(option: str, path: Path) -> bytes:
    if not isinstance(path, (str, os.PathLike)) or "-----BEGIN" in str(path):
        raise errors.InvalidTypeError(
            f"{option}: expected the path of a file in PEM; what was found is not shown here"
        )
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        kinds = {FileNotFoundError: "NOT_FOUND", PermissionError: "PERMISSION_DENIED"}
        code = kinds.get(type(error), "INVALID_ARGUMENT")
        message = f"{option} {path}: {error.strerror}: expected a file in PEM"
        raise errors.from_status(code, message) from None


def _certificates(option: str, path: Path) -> bytes:
    contents = _read(option, path)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError:
        raise errors.InvalidArgumentError(
            f"{option} {path}: expected a certificate in PEM, found none"
        ) from None
    return contents


def _key(path: Path, cert: Path) -> bytes:
    contents = _read("key", path)
    try:
        # Never prompts on a terminal: a key with a password is rejected.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert, path, lambda: b"")
    except ssl.SSLError as error:
        other = error.reason == "KEY_VALUES_MISMATCH"
        problem = f"is not the key of the certificate in {cert}: give the one that belongs to it"
        wanted = "expected a private key in PEM, without a password"
        raise errors.InvalidArgumentError(f"key {path}: {problem if other else wanted}") from None
    return contents
