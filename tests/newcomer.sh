#!/usr/bin/env bash
# newcomer.sh TREE: follows doc/python.md as a newcomer, in a bare Debian 12 at TREE (created by debootstrap; emptied first). Prints minutes
# and commands from a clone to the first search in Python. Needs root and Debian's packages.
set -euo pipefail
. tests/bare_tree.sh
make_tree "$1"
mkdir "$tree/root/hmann"
git archive HEAD | tar -x -C "$tree/root/hmann"
started=$SECONDS commands=0
as_told() {
  local begin=$SECONDS
  in_tree sh -ec "cd /root/hmann; $1" >>"$tree.log" 2>&1 || { tail -20 "$tree.log" >&2; exit 1; }
  commands=$((commands + 1))
  printf '%4d s  %s\n' $((SECONDS - begin)) "${1%%$'\n'*}"
}
as_told './dev setup'
as_told 'python3 -m venv --system-site-packages V'
as_told 'V/bin/pip install --no-index --no-build-isolation client/python'
as_told 'V/bin/python -c "
import hmann, numpy
vectors = numpy.random.default_rng(1).standard_normal((10000, 64), dtype=numpy.float32)
hmann.build(vectors, \"my.hmann\", metric=\"cosine\")
labels, distances = hmann.open(\"my.hmann\").search(vectors[:100], k=10)
assert (labels[:, 0] == numpy.arange(100)).mean() > 0.95, labels"'
printf '%d commands, %d min %d s, on %d cores\n' "$commands" $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60)) "$(nproc)"
