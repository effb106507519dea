#!/usr/bin/env bash
# The content of ./dev demo: hmann at work on the sample, step by step. Usage: tests/demo.sh BUILD_FOLDER
set -euo pipefail
build=$(readlink -f "$1")
cd "$(dirname "$(readlink -f "$0")")/.."
PATH=$build/bin:$PATH
out=$build/demo
rm -rf "$out"
mkdir -p "$out"
server=""
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true' EXIT

base=datasets/sample/base.u8bin
queries=datasets/sample/query.u8bin
truth=datasets/sample/query.gt100
index=$out/sample.hmann
params=(--k 10 --ef-l1 32 --ef-l0 48)

# show "what it means" command...
show() {
  local meaning=$1
  shift
  printf '\n\033[1m%s\033[0m\n  $ %s\n' "$meaning" "${*//$PWD\//}" | { [[ -t 1 && -z ${NO_COLOR:-} ]] && cat || sed 's/\x1b\[[0-9]*m//g'; }
  "$@" 2>&1 | sed 's/^/  | /'
}

show "The data: 10,000 SIFT descriptors of real photographs, 128 bytes each." hmann data info "$base"
show "Build: insert all, rank by degree, promote the best connected 16 % into the fast layers." \
  hmann build --base "$base" --out "$index" --m 16 --ef-construction 100 --promote 0.16
show "What the index holds; bytes compared with the paper's formulas." hmann info "$index"
show "Every checksum, every link." hmann verify "$index"
show "Search in this process; recall against exact neighbors, work per query split by kind of memory." \
  hmann search "$index" --queries "$queries" --groundtruth "$truth" "${params[@]}" --out "$out/in_process.gt"

printf '\nServe it: gRPC on a port of loopback that the system picks.\n  $ hmann serve --index sample=%s --listen 127.0.0.1:0\n' "${index#"$PWD/"}"
hmann serve --index "sample=$index" --listen 127.0.0.1:0 >"$out/serve.out" 2>"$out/serve.log" &
server=$!
address=""
for _ in $(seq 300); do
  address=$(sed -n 's/.*\(127\.0\.0\.1:[0-9]\+\).*/\1/p' "$out/serve.out" "$out/serve.log" | grep -v ':0$' | head -n 1) || true
  [[ -n $address ]] && break
  kill -0 "$server" || { cat "$out/serve.log"; exit 1; }
  sleep 0.1
done
[[ -n $address ]] || { echo "the server did not say its address" >&2; exit 1; }
show "The same queries over the wire, at the same params." \
  hmann query --server "$address" --index sample --queries "$queries" --groundtruth "$truth" "${params[@]}" --out "$out/served.gt"
cmp "$out/in_process.gt" "$out/served.gt"
printf '  The two files of answers are equal, bit for bit.\n'
printf '\nStop it: SIGTERM lets it finish what it has begun.\n  $ kill %s\n' "$server"
kill "$server"
wait "$server"
server=""

show "Measure: recall against latency, compared with hnswlib and Faiss on the same data, in interleaved runs." \
  hmann eval sweep --base "$base" --queries "$queries" --groundtruth "$truth" --out "$out/sweep"
page=$(find "$out/sweep" -name report.html | head -n 1)
[[ -n $page ]] || { echo "the sweep wrote no report.html" >&2; exit 1; }
printf '\nOpen this page in a browser; it needs no network:\n  %s\n' "$page"

python="PYTHONPATH=${build#"$PWD/"}/python /usr/bin/python3 -c \"import hmann; \
print(hmann.open('${index#"$PWD/"}').search(hmann.read_vectors('$queries', 1), k=3).labels)\""
printf '\nGo on from Python; here the three nearest of the first query:\n  $ %s\n' "$python"
bash -c "$python" | sed 's/^/  | /'
