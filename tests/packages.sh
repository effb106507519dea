#!/usr/bin/env bash
# packages.sh PACKAGES TREE: installs the packages of a build into a bare Debian 12 at TREE (created by debootstrap; emptied first), uses
# them, and removes them again; before them the wheel, from PACKAGES/../wheel. Needs root and Debian's packages.
set -euo pipefail
packages=$(readlink -f "$1")
. tests/bare_tree.sh
make_tree "$2"
cp "$packages"/*.deb "$tree/root/"
cp -r datasets/sample "$tree/root/sample"
cp -r tests/consumer "$tree/root/consumer"
ours() { in_tree find /usr /etc -path '*hmann*' -not -path '*nlohmann*' | sort; }
before=$(ours)
[[ -z $before ]] || { echo "packages: the bare tree has hmann already: $before" >&2; exit 1; }

echo "the wheel, beside Python and numpy alone"
cp "$packages"/../wheel/*.whl "$tree/root/"
in_tree apt-get -q -y install --no-install-recommends python3-numpy python3-venv >>"$tree.log" 2>&1
in_tree sh -ec '
  cd /root
  python3 -m venv --system-site-packages V
  V/bin/pip -q install --no-index ./*.whl
  V/bin/python -c "
import hmann
hmann.build(\"sample/base.u8bin\", \"w.hmann\", progress=False)
found = hmann.open(\"w.hmann\").search(hmann.read_vectors(\"sample/query.u8bin\"), k=10)
print(hmann.__file__, hmann.recall(found, hmann.read_groundtruth(\"sample/query.gt100\")))" | grep "^/root/V/.* 0.9"
  rm -r V'

echo "installing"
in_tree sh -c 'apt-get -q -y install --no-install-recommends /root/*.deb g++ pkg-config' >>"$tree.log" 2>&1 ||
  { tail -20 "$tree.log" >&2; exit 1; }

echo "the program"
in_tree sh -ec '
  cd /root
  hmann build --base sample/base.u8bin --out a.hmann --json >build.json
  hmann search a.hmann --queries sample/query.u8bin --groundtruth sample/query.gt100 --json | grep "\"recall\": 0.9"
  hmann serve --index sample=a.hmann --listen unix:/tmp/hmann.socket 2>serve.log & server=$!
  hmann query --server unix:/tmp/hmann.socket --index sample --queries sample/query.u8bin --json | grep "\"qps\""
  kill $server; wait $server
  mkdir -p /srv/hmann; cp a.hmann /srv/hmann/main.hmann
  hmann serve --config /etc/hmann/serve.toml 2>serve.log & server=$!
  hmann query --server 127.0.0.1:50051 --index main --queries sample/query.u8bin --json | grep "\"qps\""
  kill $server; wait $server
  rm -r /srv/hmann
  test -s /usr/share/man/man1/hmann-serve.1 -a -s /usr/share/bash-completion/completions/hmann -a -s /usr/lib/systemd/system/hmann.service'

echo "what comes with it"
in_tree sh -ec '
  grep -qx /etc/hmann/serve.toml /var/lib/dpkg/info/hmann.conffiles
  for package in hmann hmann-eval libhmann-dev python3-hmann; do test -s /usr/share/doc/$package/copyright; done
  cd /usr/share/doc/hmann; test -s changelog
  for page in $(grep -o "](doc/[^)]*\|]([A-Z]*\.md" README.md | cut -c3-); do test -s $page; done'

echo "the measurements"
in_tree sh -ec '
  cd /root
  hmann eval sweep --index a.hmann --queries sample/query.u8bin --groundtruth sample/query.gt100 --rounds 1 --out sweep 2>sweep.log
  rm sweep/report.html; hmann eval report sweep/results.jsonl 2>>sweep.log; test -s sweep/report.html'

echo "the library"
in_tree sh -ec '
  cd /root
  g++ -std=c++20 consumer/main.cc $(pkg-config --cflags --libs --static hmann) -o by_pkg_config
  ./by_pkg_config sample/base.u8bin b.hmann | grep "^nearest [0-9]* at "
  test -s /usr/share/hmann/proto/hmann/v1/search.proto -a -s /usr/share/hmann/proto/hmann/v1/admin.proto'

echo "the Python package"
in_tree python3 -c '
import hmann
queries = hmann.read_vectors("/root/sample/query.u8bin")
labels, distances = hmann.open("/root/a.hmann").search(queries, k=10)
assert labels.shape == (len(queries), 10) and (distances[:, 0] <= distances[:, 9]).all()
print(labels.shape)'

echo "removing"
in_tree apt-get -q -y purge hmann hmann-eval libhmann-dev python3-hmann >>"$tree.log" 2>&1
left=$(ours)
[[ -z $left ]] || { echo "packages: left behind: $left" >&2; exit 1; }
echo "nothing is left"
