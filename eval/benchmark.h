/// A benchmark: systems, each with its settings, in a place, over data, in interleaved
/// rounds. What all commands of `hmann eval` run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/contestant.h"
#include "eval/figures.h"
#include "hmann/progress.h"

namespace hmann::eval {

using Say = std::function<void(const std::string&)>;

/// What an index is of.
struct DataShape {
  std::uint64_t n = 0;
  std::uint32_t dim = 0;
  DType dtype = DType::kF32;
};

struct Benchmark {
  std::string title = "Recall against speed";
  /// `folder` is where everything goes; `work` lies there unless it is given; query_count
  /// is filled in; `base` may be "" where `shape` and `groundtruth` are given.
  ContestantJob job;
  std::string groundtruth;         ///< "": computed once and kept in the folder
  std::optional<DataShape> shape;  ///< of indexes that stand; a base must be of the same
  bool made_up = false;            ///< the vectors
  std::vector<ContestantSpec> contestants;
  int rounds = 3;
  std::vector<double> targets = {0.9, 0.95, 0.99};
  std::string reference =
      "hnswlib";  ///< contestant that ratios are to; one that does not take part gives none
  RunClock clock = RunClock::kWall;
  /// Threads that search side by side, and queries that each keeps in flight (of those
  /// who can): every setting in every shape, a row of the result each. {}: on one thread,
  /// and nobody asks for latencies.
  std::vector<RunShape> shapes;
  /// Each contestant runs inside a memory cgroup of its own, over a drive that is
  /// measured by itself: of so many bytes, page cache included; 0: of a quarter of the
  /// first one's index file and 64 MiB.
  std::optional<std::uint64_t> memory_limit;
  /// Queries that are answered untimed at a setting before each timed run of it, so that
  /// caches hold what that contestant's runs leave in them. 0: none, which programs that
  /// do not know the command need.
  std::uint64_t warm_up_queries = 0;
  Json gathers;                   ///< of the machine's DRAM (MeasureGathers); null: it is measured
  Json options = Json::object();  ///< for the first line: what else it follows from

  /// Errors: INVALID_ARGUMENT for no contestant, two of one name, no round, a target
  /// outside (0, 1], a shape without threads or queries.
  absl::Status Validate() const;
};

/// Every number of threads with each number of queries in flight.
std::vector<RunShape> AllShapes(const std::vector<int>& threads, const std::vector<int>& in_flight);

/// Builds (or loads) every contestant, one after the other, then lets them run in turns:
/// all are alive at once, one works at a time. A run that others disturbed is run once
/// more. Everything is a line of <folder>/results.jsonl (results.h); gives the lines.
/// Under a memory limit indexes are built without it first, and the page cache of their
/// files is emptied. `say` gets a line for the eye now and then.
///
/// Errors: of files; a contestant that fails ends the benchmark (the lines so far stay in
/// results.jsonl.part), and where it was ended for its memory, that is said; those of
/// MemoryGroup::Create and MeasureDrive; CANCELLED.
absl::StatusOr<std::vector<Json>> RunBenchmark(Benchmark benchmark, Progress& progress,
                                               const Say& say);

/// The first line of results.jsonl. Of `data`, `query_count` and `k` are read by others.
Json HeadLine(const Benchmark& benchmark, const Json& data);

}  // namespace hmann::eval
