# %% [markdown]
# Search from a drive: L0 stays on it, and is read past the page cache (O_DIRECT).
#
#     python nvme.py [FOLDER]        a folder on the drive; default: here

# %%
import os
import shutil
import sys
import tempfile
import time

import numpy as np

import hmann

where = sys.argv[1] if len(sys.argv) > 1 else os.getcwd()
folder = tempfile.mkdtemp(prefix="hmann_nvme_", dir=where)
path = os.path.join(folder, "nvme.hmann")

# %% Twenty thousand vectors of bytes.
random = np.random.default_rng(5)
centers = random.integers(40, 216, (300, 96))


def sample(n):
    near = centers[random.integers(0, len(centers), n)]
    return np.clip(near + random.normal(0, 18, (n, 96)), 0, 255).astype(np.uint8)


vectors, queries = sample(20_000), sample(300)
hmann.build(vectors, path, progress=False)

# %% In fast memory: upper layers, promoted vectors, codes. On the drive: the rest.
index = hmann.open(path, slow="nvme")
for line in index.placements():
    print(f"{line['structure']:16} {line['tier']:8} {line['bytes']:10}  {line['where']}")

# %% The codes say what is worth a read.
truth = hmann.exact_neighbors(vectors, queries, k=10, progress=False)
for ef_l0 in (10, 20, 40):
    start = time.perf_counter()
    found = index.search(queries, k=10, ef_l1=32, ef_l0=ef_l0, threads=1, details=True)
    us = (time.perf_counter() - start) / len(queries) * 1e6
    reads = found.details["counters"]["io_reads"] / len(queries)
    print(
        f"ef_l0 {ef_l0:3}: recall@10 {hmann.recall(found, truth):.3f}, "
        f"{reads:5.1f} reads and {us:6.0f} us a query, eight in flight"
    )
assert found.details["counters"]["io_reads"] > 0
assert hmann.recall(found, truth) >= 0.9

# %% The same answers, bit by bit, as from memory.
with hmann.open(path, slow="dram") as in_memory:
    params = {"mode": "quantized", "ef_l1": 32, "ef_l0": 40, "nprobe": 32, "beam_width": 8}
    params.update(error_bound=1.5, epsilon=-1)  # all of them: defaults depend on the tier
    on_drive = index.search(queries, k=10, **params)
    assert np.array_equal(in_memory.search(queries, k=10, **params).labels, on_drive.labels)

# %%
index.close()
shutil.rmtree(folder)
