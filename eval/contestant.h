#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/adapters/latency.h"
#include "eval/child_process.h"
#include "hmann/distance.h"
#include "nlohmann/json.hpp"

namespace hmann::eval {

using Json = nlohmann::ordered_json;

/// What every contestant of a sweep gets (adapters/PROTOCOL.md).
struct ContestantJob {
  std::string base, queries;
  std::uint64_t rows = 0, query_rows = 0;
  Metric metric = Metric::kL2;
  std::uint32_t m = 16, ef_construction = 100, k = 10;
  int threads = 1;
  std::uint64_t query_count = 0;  ///< queries that are answered: the shape of the answers
  std::string work;               ///< of built indexes
  std::string folder;             ///< of logs and answers
  std::chrono::milliseconds build_timeout{0};  ///< 0: waits for ever
  std::chrono::milliseconds run_timeout = std::chrono::hours(1);
  const std::atomic<bool>* cancelled = nullptr;  ///< not owned
};

/// A line of the table: those settings of a contestant that have all of `match`.
struct CurveSpec {
  std::string name;  ///< says what is emulated and what a model
  Json match = Json::object();
  std::string kind = "measured";  ///< or "emulated", "model"
  bool aside = false;             ///< no line of the table, and not drawn unless asked for
  /// Curves that it is held against, in the same round and of as many threads: of
  /// "reference" (absent: the benchmark's), "dram", "zero" or "again" (the same in
  /// another process: what differs is noise).
  std::map<std::string, std::string> beside = {};
};

// NOLINTNEXTLINE(bugprone-exception-escape): moving json throws in assertions only.
struct ContestantSpec {
  std::string name;  ///< in tables and charts; unique
  std::vector<std::string>
      command;                  ///< program and leading arguments; those of the job come behind
  Json build = Json::object();  ///< the library's own build settings
  Json settings;                ///< array; null: what the program offers
  bool keeps_several = false;   ///< queries of a thread in flight, if a setting says so
  bool by_walk = false;         ///< its curves are those of its walks alone
  std::string memory_group;  ///< cgroup.procs file of the cgroup that the program enters before it
                             ///< starts; "": ours
  std::string again_of;      ///< the contestant that this is once more; it has its settings
  std::vector<CurveSpec> curves;  ///< {}: one of all settings, and one of each walk aside
  Json told = Json::object();     ///< what else its line of results.jsonl says: how it was built
};

// NOLINTNEXTLINE(bugprone-exception-escape): moving json throws in assertions only.
struct RunAnswer {
  double seconds = 0, cpu_seconds = 0;  ///< 0 in a counted run
  Json counters;                        ///< null in a timed one
  std::optional<LatencyUs>
      latency;  ///< of single queries, where the setting says "threads" or "in_flight"
  std::uint64_t read_bytes =
      0;  ///< that the kernel read from disks for the program meanwhile (/proc/PID/io)
  std::vector<std::uint64_t> ids;  ///< queries x k
};

/// A library under test: a program that keeps an index and answers all queries whenever
/// told to. Move-only; the program ends with it.
///
/// Every error names the contestant and quotes the end of its log.
class Contestant {
 public:
  /// Starts the program and waits until its index stands.
  static absl::StatusOr<Contestant> Start(ContestantSpec spec, const ContestantJob& job);

  const std::string& name() const { return spec_.name; }
  const ContestantSpec& spec() const { return spec_; }
  /// Its first line, in which what a program may leave out is filled in, by null where
  /// nothing is known: `library`, `index_bytes`, `index_file`, `cached`, `finished` (it
  /// stood before: nobody knows what its build took), `counts`, `waits` (for more than
  /// the CPU), `settings`, and of the build `build_seconds`, `build_cpu_seconds`,
  /// `build_threads`, `phases`, `peak_anonymous_bytes`, `work_bytes`.
  const Json& ready() const { return ready_; }

  /// Runs all queries at one setting. `count`: with counters, not timed; only if
  /// ready()["counts"].
  absl::StatusOr<RunAnswer> Run(const Json& setting, bool count);

  /// Lets it answer the last `queries` queries at a setting, for what that does to
  /// caches.
  absl::Status WarmUp(const Json& setting, std::uint64_t queries);

  pid_t pid() const { return process_.pid(); }

  /// Asks the program to leave. Errors: INTERNAL when it does not, or not with exit code
  /// 0.
  absl::Status Stop();

 private:
  absl::StatusOr<Json> Ask(const Json& command);
  absl::StatusOr<Json> Receive(std::chrono::milliseconds timeout);
  absl::Status Error(const absl::Status& status) const;

  ContestantSpec spec_;
  ContestantJob job_;
  ChildProcess process_;
  std::string log_, answers_;
  Json ready_;
};

}  // namespace hmann::eval
