#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/contestant.h"
#include "eval/figures.h"
#include "index/base/progress.h"
#include "index/tune/tune.h"

namespace hmann {

/// What an index is of.
struct DataShape {
  std::uint64_t n = 0;
  std::uint32_t dim = 0;
  DType dtype = DType::kF32;
};

struct SweepOptions {
  /// `folder` is where everything goes; query_count is filled in; `base` may be "" where
  /// `shape` and `groundtruth` are given.
  ContestantJob job;
  std::string groundtruth;         ///< "": computed once and kept in the folder
  std::optional<DataShape> shape;  ///< of indexes that stand; a base must be of the same
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
  /// Of the machine's DRAM, what figures in memory are held against; {}: nobody measured.
  std::vector<LoadsInFlight> memory;
  bool counters = true;  ///< of those that can count: one more run for all settings of equal dials,
                         ///< before the first round
  /// Queries that are answered untimed at a setting before each timed run of it, so that
  /// caches hold what that contestant's runs leave in them. 0: none, which programs that
  /// do not know the command need.
  std::uint64_t warm_up_queries = 0;
  std::function<absl::Status(std::size_t contestant, pid_t pid)>
      started;              ///< may be empty; called when a contestant's index stands
  std::vector<Json> notes;  ///< lines of results.jsonl of the caller's own, behind the first

  /// Errors: INVALID_ARGUMENT for no contestant, two of one name, no round, a target
  /// outside (0, 1].
  absl::Status Validate() const;
};

/// Every number of threads with each number of queries in flight.
std::vector<RunShape> AllShapes(const std::vector<int>& threads, const std::vector<int>& in_flight);
/// The threads of shapes, each number once, in their order.
std::vector<int> ThreadsOf(const std::vector<RunShape>& shapes);

/// Errors: INVALID_ARGUMENT for a recall outside (0, 1], ...
absl::Status CheckRecalls(const char* what, const std::vector<double>& recalls);
/// ... for no width of a beam, or one below 1.
absl::Status CheckWidths(const std::vector<int>& widths);

// NOLINTNEXTLINE(bugprone-exception-escape): moving json throws in assertions only.
struct SweepResult {
  Json data;         ///< base (null: none), queries, n, dim, dtype, metric, k, query_count
  Json build;        ///< m, ef_construction, threads
  Json environment;  ///< DescribeEnvironment, before the first run
  int rounds = 0;
  std::vector<int> search_threads;  ///< of the shapes, each once; {}: one
  Reading reading;
  std::vector<LoadsInFlight> memory;  ///< as SweepOptions has it
  std::vector<ContestantRuns> runs;
};

/// Builds (or loads) every contestant, one after the other, then lets them run in turns:
/// all are alive at once, one works at a time. Each run is a line of
/// <folder>/results.jsonl, whose first line is the sweep and its environment, with a line
/// for each contestant. `say` gets a line for the eye now and then. Errors: of files; a
/// contestant that fails ends the sweep (the lines so far stay in results.jsonl.part);
/// CANCELLED.
absl::StatusOr<SweepResult> RunSweep(SweepOptions options, Progress& progress,
                                     const std::function<void(const std::string&)>& say);

}  // namespace hmann
