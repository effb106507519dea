# %% [markdown]
# A tour: build an index of an array, search it, say what you want of a search.

# %%
import os
import tempfile

import numpy as np

import hmann

folder = tempfile.mkdtemp(prefix="hmann_tour_")
path = os.path.join(folder, "tour.hmann")

# %% Five thousand vectors around two hundred centers, and queries of the same kind.
random = np.random.default_rng(7)
centers = random.standard_normal((200, 64))


def sample(n):
    near = centers[random.integers(0, len(centers), n)]
    return (near + 0.6 * random.standard_normal((n, 64))).astype(np.float32)


vectors, queries = sample(5000), sample(200)

# %% Build. 16 % of the vectors are promoted to fast memory; codes of the others lie there too.
report = hmann.build(vectors, path, promote=0.16, progress=False)
print(f"{report['n']} vectors in {report['seconds']['total']:.2f} s, {report['file_bytes']} bytes")

# %% Open and search: one query gives arrays of shape (k,), several of shape (n, k).
index = hmann.open(path)
print(index)
labels, distances = index.search(queries[0], k=5)
print("nearest to the first query:", labels, distances)
found = index.search(queries, k=10)
print("all of them:", found.labels.shape, found.distances.dtype)

# %% How good is that? Beside the exact neighbors.
truth = hmann.exact_neighbors(vectors, queries, k=10, progress=False)
print("recall@10, defaults:", hmann.recall(found, truth))
for ef_l0 in (10, 30, 100):
    wide = index.search(queries, k=10, ef_l1=ef_l0, ef_l0=ef_l0)
    print(f"recall@10, ef_l1 = ef_l0 = {ef_l0}:", hmann.recall(wide, truth))

# %% Or say what you want, and let it find the parameters.
index.tune(k=10, recall=0.95, queries=queries, query_threads=1, progress=False,
           accept_noise=True)  # else nothing is stored while other programs run
found = index.search(queries, k=10, recall=0.95, details=True)
print("params for recall 0.95:", found.details["params"])
print("recall@10:", hmann.recall(found, truth))
assert hmann.recall(found, truth) >= 0.94

# %% Lists and other dtypes are taken; what is wrong says so.
same = index.search(queries.astype(np.float64).tolist())
assert (same.labels == index.search(queries).labels).all()
try:
    index.search(queries[:, :60])
except hmann.InvalidArgumentError as error:
    print("refused:", error)

# %%
index.close()
