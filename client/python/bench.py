"""What Python costs: one call, a batch of 1,000, two threads, a build from an array.

    ./dev bench-python [OPTIONS]

Each round runs the same searches by the C++ program, from Python, and by the program again; what
its two runs differ by is what the machine adds. Figures are medians over the rounds.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import hmann

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SAMPLE = SOURCE / "datasets" / "sample"
K, BATCH = 10, 1000
DIALS = {"mode": "quantized", "ef_l1": 32, "ef_l0": 48, "beam_width": 8, "nprobe": 16}


def program(options, index, queries, *more):
    """The JSON object of `hmann search`."""
    params = [x for name, value in DIALS.items() for x in (f"--{name.replace('_', '-')}", value)]
    command = [options.program, "search", index, "--queries", queries, "--k", K, "--json"]
    done = subprocess.run(
        [str(part) for part in [*command, "--slow", "dram", *params, *more]],
        capture_output=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def per_query_us(figures):
    return 1e6 / figures["qps"]


def one_by_one(index, queries):
    """Microseconds a query, in a loop of calls."""
    search = index.search
    start = time.perf_counter()
    for query in queries:
        search(query, K, **DIALS)
    return (time.perf_counter() - start) / len(queries) * 1e6


def in_batches(index, queries, **how):
    start = time.perf_counter()
    for begin in range(0, len(queries), BATCH):
        index.search(queries[begin : begin + BATCH], K, **how, **DIALS)
    return (time.perf_counter() - start) / len(queries) * 1e6


def by_threads(index, queries, count):
    """Microseconds a query of `count` threads that each make calls of their own."""
    threads = [threading.Thread(target=one_by_one, args=(index, queries)) for _ in range(count)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.perf_counter() - start) / (count * len(queries)) * 1e6


def compare(name, options, cpp, python):
    """Rounds of the program, Python, and the program again, in turning order."""
    runs = {"cpp": [], "python": [], "again": []}
    works = {"cpp": cpp, "python": python, "again": cpp}
    for turn in range(options.rounds):
        order = list(works)
        for what in order[turn % 3 :] + order[: turn % 3]:
            runs[what].append(works[what]())
    cpp_us, python_us, again_us = (statistics.median(runs[what]) for what in works)
    return {
        "case": name,
        "cpp_us": round(cpp_us, 2),
        "python_us": round(python_us, 2),
        "overhead_us": round(python_us - cpp_us, 2),
        "overhead_percent": round(100 * (python_us / cpp_us - 1), 2),
        "cpp_again_percent": round(100 * (again_us / cpp_us - 1), 2),
    }


def speedups(options, index, queries, path, file):
    """How much faster two threads are than one, from Python and in the program."""
    ratios = {"calls": [], "batches": [], "cpp": []}
    for _ in range(options.rounds):
        ratios["calls"].append(by_threads(index, queries, 1) / by_threads(index, queries, 2))
        batches = [in_batches(index, queries, threads=t, in_flight=1) for t in (1, 2)]
        ratios["batches"].append(batches[0] / batches[1])
        runs = [program(options, path, file, "--threads", t)["qps"] for t in (1, 2)]
        ratios["cpp"].append(runs[1] / runs[0])
    return {"case": "two threads over one", **{
        name: round(statistics.median(values), 2) for name, values in ratios.items()
    }}  # fmt: skip


BUILD = """
import json, sys, numpy, hmann
base = hmann.read_vectors(sys.argv[1]).copy() if sys.argv[3] == "array" else sys.argv[1]
report = hmann.build(base, sys.argv[2], progress=False)
print(json.dumps([getattr(base, "nbytes", 0), report["peak_rss_bytes"],
                  report["peak_anonymous_bytes"], report["seconds"]["total"]]))
"""


def build_memory(base, folder):
    """Peak memory of a build, of an array and of its file, in processes of their own."""
    details = {"case": "build"}
    for kind in ("array", "file"):
        done = subprocess.run(
            [sys.executable, "-c", BUILD, str(base), os.path.join(folder, kind), kind],
            capture_output=True, check=True,
        )  # fmt: skip
        array, rss, anonymous, seconds = json.loads(done.stdout)
        details[f"of_{kind}"] = {
            "array_mib": round(array / 2**20, 1),
            "peak_rss_mib": round(rss / 2**20, 1),
            "peak_anonymous_mib": round(anonymous / 2**20, 1),
            "seconds": round(seconds, 2),
        }
    return details


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", default=SAMPLE / "base.u8bin")
    parser.add_argument("--queries", default=SAMPLE / "query.u8bin")
    parser.add_argument("--program", default=SOURCE / "build" / "release" / "bin" / "hmann")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=10_000, help="queries of a run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hmann_bench_") as folder:
        path = os.path.join(folder, "bench.hmann")
        hmann.build(options.base, path)
        few = hmann.read_vectors(options.queries)
        queries = np.tile(few, (-(-options.calls // len(few)), 1))[: options.calls].copy()
        file = os.path.join(folder, "queries" + pathlib.Path(options.queries).suffix)
        hmann.write_vectors(file, queries)
        index = hmann.open(path, slow="dram")
        one_by_one(index, queries[:1000])  # a searcher is made, and kept

        def show(line):
            print(json.dumps(line), flush=True)

        show(compare("a call", options,
                     lambda: program(options, path, file)["mean_us"],
                     lambda: one_by_one(index, queries)))  # fmt: skip
        for in_flight in (1, 4):
            how = {"threads": 1, "in_flight": in_flight}
            more = ("--in-flight", in_flight)
            show(compare(f"a query of a batch of 1,000, {in_flight} in flight", options,
                         lambda: per_query_us(program(options, path, file, *more)),
                         lambda: in_batches(index, queries, **how)))  # fmt: skip
        show(speedups(options, index, queries, path, file))
        show(build_memory(options.base, folder))


if __name__ == "__main__":
    main()
