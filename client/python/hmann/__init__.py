"""hmann: nearest-neighbor search over more vectors than fast memory holds.

>>> import hmann
>>> hmann.build(vectors, "my.hmann", metric="cosine")      # an array, or a vector file
>>> index = hmann.open("my.hmann")
>>> labels, distances = index.search(queries, k=10)        # (n, 10) each
>>> index.tune(k=10)                                       # then state a target:
>>> labels, distances = index.search(queries, k=10, recall=0.95)

``hmann.create_collection("my.live", dim=64)`` makes a folder of vectors that come and go.
``hmann.Client("host:port").open("name")`` is an index of a server, with the same interface.
"""

from __future__ import annotations

from typing import Any, List

from hmann import errors
from hmann._answer import Answer
from hmann._collection import Collection, create_collection, open_collection
from hmann._core import version as __version__
from hmann._index import Index, build, info, open, plan
from hmann._vectors import (
    exact_neighbors,
    read_groundtruth,
    read_vectors,
    recall,
    write_vectors,
)
from hmann.errors import *  # noqa: F401,F403
from hmann.errors import Error

_CLIENTS = {"Client": "hmann._client", "AsyncClient": "hmann._async_client"}

__all__ = [
    "Answer",
    "Collection",
    "Index",
    "build",
    "create_collection",
    "errors",
    "exact_neighbors",
    "info",
    "open",
    "open_collection",
    "plan",
    "read_groundtruth",
    "read_vectors",
    "recall",
    "write_vectors",
]
__all__ += errors.__all__


def __getattr__(name: str) -> Any:
    # gRPC is loaded, and must be installed, only if it is used.
    if name in _CLIENTS:
        import importlib
        import os

        # gRPC's fork handlers may wait forever in os.fork(). A client is not used after a
        # fork anyway.
        os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
        try:
            return getattr(importlib.import_module(_CLIENTS[name]), name)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"hmann.{name} needs grpcio and protobuf: pip install 'hmann[client]'"
            ) from error
    raise AttributeError(f"module 'hmann' has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted([*globals(), *_CLIENTS])
