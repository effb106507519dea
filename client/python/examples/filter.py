# %% [markdown]
# The nearest of some: a mask or a set of labels says which vectors may be answers.

# %%
import os
import tempfile

import numpy as np

import hmann

random = np.random.default_rng(7)
vectors = random.standard_normal((5000, 32), dtype=np.float32)
prices = random.uniform(0, 100, len(vectors))
path = os.path.join(tempfile.mkdtemp(prefix="hmann_filter_"), "shop.hmann")
hmann.build(vectors, path, progress=False)

# %% Cheap ones, told by a mask over labels: the search modes through the others.
with hmann.open(path) as index:
    cheap = index.matching(prices < 20)
    found = index.search(vectors[:100], k=5, filter=cheap)
    assert (prices[found.labels] < 20).all()
    print(f"{len(cheap)} match; the nearest cost {prices[found.labels[0]].round(1)}")
# %%
