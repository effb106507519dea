/// A benchmark runs systems, each with its settings, in a place, over data, in
/// interleaved rounds. All commands of `hmann eval` run one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/figures.h"
#include "eval/system.h"
#include "hmann/hmann.h"
#include "hmann/progress.h"

namespace hmann::eval {

using Say = std::function<void(const std::string&)>;

/// The shape of the indexed vectors.
struct DataShape {
  std::uint64_t n = 0;
  std::uint32_t dim = 0;
  DType dtype = DType::kF32;
};

struct Benchmark {
  std::string title = "Recall against speed";
  /// `folder` takes all output. `work` lies in it unless given. query_count is filled in.
  /// `base` may be "" if `shape` and `groundtruth` are given.
  BenchmarkData job;
  std::string groundtruth;         ///< "": computed once and kept in the folder
  std::optional<DataShape> shape;  ///< of finished indexes; a base must have the same
  bool synthetic = false;          ///< the vectors are synthetic
  /// Only rows whose attributes satisfy the filter may be answers. "": all.
  std::string filter;
  MakeAttributesOptions attrs;  ///< of the rows of `base`, for the filter
  std::vector<SystemSpec> systems;
  int rounds = 3;
  std::vector<double> targets = {0.9, 0.95, 0.99};
  /// The system that ratios refer to. "": hnswlib-u8 if it takes part, which computes on
  /// the same bytes as hmann, otherwise hnswlib. One that does not take part gives no
  /// ratios.
  std::string reference;
  RunClock clock = RunClock::kWall;
  /// Search threads, and queries that each keeps in flight (in systems that can). Every
  /// setting runs in every shape and gives one row per shape. {}: one thread, without
  /// latencies.
  std::vector<RunShape> shapes;
  /// Bytes of memory, page cache included, of each system's own cgroup; a drive is
  /// measured by itself first. 0: a quarter of the first system's index file plus 64 MiB.
  std::optional<std::uint64_t> memory_limit;
  /// Queries answered untimed at a setting before each timed run of it, so that caches
  /// hold what that system's runs leave in them. 0: none, for programs that do not know
  /// the command.
  std::uint64_t warm_up_queries = 0;
  Json gathers;                   ///< of the machine's DRAM (MeasureGathers); null: measured here
  Json options = Json::object();  ///< further options, for the first line

  std::string Reference() const;
  /// Errors: INVALID_ARGUMENT for no system, duplicate names, no round, a target outside
  /// (0, 1], or a shape without threads or queries.
  absl::Status Validate() const;
};

/// Every number of threads with each number of queries in flight.
std::vector<RunShape> AllShapes(const std::vector<int>& threads, const std::vector<int>& in_flight);

/// Builds (or loads) every system, one after the other, then runs them in turns: all stay
/// alive, one works at a time. A disturbed run is repeated. Writes every event as a line
/// of <folder>/results.jsonl (results.h) and returns the lines. Under a memory limit, it
/// first builds the indexes without the limit and drops their files from the page cache.
/// `say` occasionally gets a human-readable line.
///
/// Errors: of files; those of MemoryGroup::Create and MeasureDrive; CANCELLED. A failing
/// system ends the benchmark, and the lines so far stay in results.jsonl.part. The error
/// says so if the kernel killed the system for its memory.
absl::StatusOr<std::vector<Json>> RunBenchmark(Benchmark benchmark, Progress& progress,
                                               const Say& say);

/// The lines of an earlier run of this benchmark in its folder; {}: there is none, or it
/// was another benchmark, by its first line without `data`. So what systems and data
/// depend on belongs into `options`. Errors: FAILED_PRECONDITION if another machine made
/// them.
absl::StatusOr<std::vector<Json>> DoneBefore(const Benchmark& benchmark);

/// The first line of results.jsonl. Other code reads `query_count` and `k` of `data`.
Json HeadLine(const Benchmark& benchmark, const Json& data);

}  // namespace hmann::eval
