#include "eval/benchmark.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "datasets/ground_truth.h"
#include "datasets/recall.h"
#include "datasets/vector_file.h"
#include "eval/benchmark_data.h"
#include "eval/hardware_limit.h"
#include "eval/interleaved_runs.h"
#include "eval/memory_places.h"
#include "eval/report/environment.h"
#include "eval/results.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann::eval {

std::vector<RunShape> AllShapes(const std::vector<int>& threads,
                                const std::vector<int>& in_flight) {
  std::vector<RunShape> shapes;
  for (const int t : threads) {
    for (const int q : in_flight) shapes.push_back({t, q});
  }
  return shapes;
}

std::string Benchmark::Reference() const {
  if (!reference.empty()) return reference;
  const bool bytes = std::any_of(systems.begin(), systems.end(),
                                 [](const SystemSpec& spec) { return spec.name == "hnswlib-u8"; });
  return bytes ? "hnswlib-u8" : "hnswlib";
}

absl::Status Benchmark::Validate() const {
  if (systems.empty()) return InvalidArgument("expected at least one system, found none");
  std::set<std::string> names;
  for (const SystemSpec& spec : systems) {
    if (!names.insert(spec.name).second)
      return InvalidArgument("two systems are called '", spec.name, "'");
  }
  if (rounds < 1) return InvalidArgument("rounds: expected at least 1, found ", rounds);
  if (memory_limit && shapes.empty())
    return InvalidArgument("search threads: expected at least one number, found none");
  for (const RunShape& one : shapes) {
    if (one.threads < 1 || one.in_flight < 1) {
      return InvalidArgument(
          "search threads and queries in flight: expected numbers from 1, found ", one.threads,
          " and ", one.in_flight);
    }
  }
  if (memory_limit && clock != RunClock::kWall)
    return InvalidArgument("clock: expected wall: waiting for the disk is what is measured");
  for (const double recall : targets) {
    if (!(recall > 0 && recall <= 1))
      return InvalidArgument("targets: expected recalls in (0, 1], found ", recall);
  }
  return absl::OkStatus();
}

Json HeadLine(const Benchmark& benchmark, const Json& data) {
  const BenchmarkData& job = benchmark.job;
  Json shapes = Json::array();
  for (const RunShape& shape : benchmark.shapes) shapes.push_back({shape.threads, shape.in_flight});
  const std::string& of = job.base.empty() ? job.queries : job.base;
  return {
      {"kind", "benchmark"},
      {"version", kResultsVersion},
      {"title", absl::StrCat(benchmark.title, ": ", of.substr(of.rfind('/') + 1))},
      {"data", data},
      {"build", {{"m", job.m}, {"ef_construction", job.ef_construction}, {"threads", job.threads}}},
      {"environment", DescribeEnvironment()},
      {"options", benchmark.options},
      {"rounds", benchmark.rounds},
      {"clock", benchmark.clock == RunClock::kCpu ? "cpu" : "wall"},
      {"reference", benchmark.Reference()},
      {"targets", benchmark.targets},
      {"shapes", shapes}};
}

absl::StatusOr<std::vector<Json>> DoneBefore(const Benchmark& benchmark) {
  const std::string path = benchmark.job.folder + "/results.jsonl";
  absl::StatusOr<std::vector<Json>> lines = ReadResults(path);
  if (!lines.ok()) return std::vector<Json>();
  const Json& old = lines->front();
  Json same = HeadLine(benchmark, old["data"]);
  for (const char* of : {"cpu", "cores", "memory_bytes"}) {
    const Json &here = same["environment"][of], there = old["environment"].value(of, Json());
    if (here != there)
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": results of another machine (", of, " ", JsonText(there), ", here ",
                       JsonText(here), "): choose another --out, or remove them"));
  }
  same["environment"] = old["environment"];
  return same == old ? *std::move(lines) : std::vector<Json>();
}

absl::StatusOr<std::vector<Json>> RunBenchmark(Benchmark benchmark, Progress& progress,
                                               const Say& say) {
  HMANN_RETURN_IF_ERROR(benchmark.Validate());
  BenchmarkData& job = benchmark.job;
  if (job.work.empty()) job.work = job.folder + "/work";
  HMANN_RETURN_IF_ERROR(MakeFolders(job.folder));
  DataShape shape;
  HMANN_ASSIGN_OR_RETURN(const std::optional<VectorFile> base, OpenBase(benchmark, &shape));
  HMANN_ASSIGN_OR_RETURN(const VectorFile queries, VectorFile::Open(job.queries, job.query_rows));
  HMANN_RETURN_IF_ERROR(queries.CheckShape(shape.dim, shape.dtype, "the base"));
  job.query_count = queries.n();
  HMANN_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> matches,
                         FindMatches(&benchmark, shape.n, progress));
  HMANN_ASSIGN_OR_RETURN(const GroundTruth truth,
                         FindTruth(benchmark, base, queries, matches, progress, say));
  HMANN_RETURN_IF_ERROR(CheckTruthCovers(truth, queries.n(), job.k));
  if (benchmark.gathers.is_null()) {
    HMANN_ASSIGN_OR_RETURN(benchmark.gathers, MeasureGathers());
  }
  const Json head = HeadLine(benchmark, {{"base", job.base.empty() ? Json() : Json(job.base)},
                                         {"queries", job.queries},
                                         {"n", shape.n},
                                         {"dim", shape.dim},
                                         {"dtype", std::string(Name(shape.dtype))},
                                         {"metric", std::string(Name(job.metric))},
                                         {"k", job.k},
                                         {"query_count", queries.n()}});
  MemoryPlaces places;
  if (benchmark.memory_limit) {
    HMANN_ASSIGN_OR_RETURN(places, MemoryPlaces::Make(&benchmark, say));
  }
  absl::StatusOr<std::vector<Json>> lines =
      RunInterleaved(benchmark, truth, head, shape.n, &places, progress, say);
  if (!lines.ok()) return places.Explain(lines.status());
  return lines;
}

}  // namespace hmann::eval
