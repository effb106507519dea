# %% [markdown]
# Search among texts: lines of this project's own documents, as vectors under cosine.
#
# The embedding is a small one, made on the spot: each run of three characters adds a fixed
# random direction. Put your model in the place of `embed`; all else stays.

# %%
import glob
import os
import tempfile
import zlib

import numpy as np

import hmann

DIM = 128
source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")

# %%
directions = np.random.default_rng(1).standard_normal((4096, DIM))


def embed(text):
    text = f" {text.lower()} "
    grams = [zlib.crc32(text[i : i + 3].encode()) % 4096 for i in range(len(text) - 2)]
    return directions[grams].sum(axis=0)


texts = []
for path in sorted(glob.glob(os.path.join(source, "doc", "*.md"))):
    with open(path, encoding="utf-8") as file:
        texts += [line.strip() for line in file if len(line.strip()) > 40]
texts = sorted(set(texts))
vectors = np.stack([embed(text) for text in texts]).astype(np.float32)
print(f"{len(texts)} lines, {DIM} dimensions")

# %% Build under cosine; labels are the places of the texts.
folder = tempfile.mkdtemp(prefix="hmann_text_")
path = os.path.join(folder, "text.hmann")
hmann.build(vectors, path, metric="cosine", progress=False)
index = hmann.open(path)

# %%
for question in ("how much fast memory does an index need", "which parameters reach a recall"):
    labels, distances = index.search(embed(question).astype(np.float32), k=3)
    print(f"\n{question}?")
    for label, distance in zip(labels, distances):
        print(f"  {distance:.3f}  {texts[label][:90]}")

# %% Recall, checked: the lines themselves with every fifth word left out.
requested = [" ".join(w for i, w in enumerate(t.split()) if i % 5 != 2) for t in texts[::7]]
queries = np.stack([embed(text) for text in requested]).astype(np.float32)
truth = hmann.exact_neighbors(vectors, queries, k=10, metric="cosine", progress=False)
index.tune(k=10, recall=0.95, queries=queries, query_threads=1, progress=False,
           accept_noise=True)  # else nothing is stored while other programs run
recall = hmann.recall(index.search(queries, k=10, recall=0.95), truth)
print(f"\nrecall@10 of {len(queries)} queries: {recall:.3f}")
assert recall >= 0.94

# %%
index.close()
