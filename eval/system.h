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
#include "index/base/json_reader.h"

namespace hmann::eval {

using Json = nlohmann::ordered_json;

/// What every system of a sweep receives (adapters/PROTOCOL.md).
struct BenchmarkData {
  std::string base, queries;
  std::uint64_t rows = 0, query_rows = 0;
  Metric metric = Metric::kL2;
  std::uint32_t m = 16, ef_construction = 100, k = 10;
  int threads = 1;
  std::uint64_t query_count = 0;               ///< answered queries, the shape of the answers
  std::string mask;                            ///< of the rows that match; "": all
  std::string work;                            ///< folder of built indexes
  std::string folder;                          ///< folder of logs and answers
  std::chrono::milliseconds build_timeout{0};  ///< 0: waits forever
  std::chrono::milliseconds run_timeout = std::chrono::hours(1);
  const std::atomic<bool>* cancelled = nullptr;  ///< not owned
};

/// A row of the table: the settings of a system that have all of `match`.
struct CurveSpec {
  std::string name;  ///< says what is emulated and what is a model
  Json match = Json::object();
  std::string kind = "measured";  ///< or "emulated", "model"
  bool aside = false;             ///< not in the table, and drawn only on request
  /// Curves that this one is compared with, in the same round and with as many threads:
  /// "reference" (if absent: the benchmark's), "dram", "zero", or "again" (the same in
  /// another process; the difference is noise).
  std::map<std::string, std::string> beside = {};
};

// NOLINTNEXTLINE(bugprone-exception-escape): moving json throws in assertions only.
struct SystemSpec {
  std::string name;                  ///< in tables and charts; unique
  std::vector<std::string> command;  ///< program and leading arguments, before the job's
  Json build = Json::object();       ///< the library's own build settings
  Json settings;                     ///< array; null: the program's own
  bool keeps_several = false;        ///< queries of a thread in flight, if a setting says so
  bool by_mode = false;              ///< only the curves of its modes
  /// The cgroup.procs file of the cgroup that the program enters before it starts; "":
  /// ours.
  std::string memory_group;
  std::string again_of;            ///< the system that this one repeats, with its settings
  std::vector<CurveSpec> curves;   ///< {}: one of all settings, and one per mode aside
  Json reported = Json::object();  ///< how it was built, for its line of results.jsonl
};

// NOLINTNEXTLINE(bugprone-exception-escape): moving json throws in assertions only.
struct RunAnswer {
  double seconds = 0, cpu_seconds = 0;  ///< 0 in a counted run
  Json counters;                        ///< null in a timed one
  /// Latency of single queries, if the setting has "threads" or "in_flight".
  std::optional<LatencyUs> latency;
  /// Bytes that the kernel read from disks for the program during the run
  /// (/proc/PID/io).
  std::uint64_t read_bytes = 0;
  std::vector<std::uint64_t> ids;  ///< queries x k
};

/// A library under test: a program that keeps an index and answers all queries on
/// request. Move-only; the program ends with the object.
///
/// Every error names the system and quotes the end of its log.
class System {
 public:
  /// Starts the program and waits until its index is ready.
  static absl::StatusOr<System> Start(SystemSpec spec, const BenchmarkData& job);

  const std::string& name() const { return spec_.name; }
  const SystemSpec& spec() const { return spec_; }
  /// The program's first line, with every optional key filled in, by null if unknown:
  /// `library`, `index_bytes`, `index_file`, `cached`, `finished` (the index existed
  /// before, so its build cost is unknown), `counts`, `waits` (for more than the CPU),
  /// `settings`. About the build: `build_seconds`, `build_cpu_seconds`, `build_threads`,
  /// `phases`, `peak_anonymous_bytes`, `work_bytes`.
  const Json& ready() const { return ready_; }

  /// Runs all queries at one setting. `count`: with counters and untimed; requires
  /// ready()["counts"].
  absl::StatusOr<RunAnswer> Run(const Json& setting, bool count);

  /// Answers the last `queries` queries at a setting, to warm up caches.
  absl::Status WarmUp(const Json& setting, std::uint64_t queries);

  pid_t pid() const { return process_.pid(); }

  /// Asks the program to exit. Errors: INTERNAL if it does not, or exits with a code
  /// other than 0.
  absl::Status Stop();

 private:
  absl::StatusOr<Json> Call(const Json& command);
  absl::StatusOr<Json> Receive(std::chrono::milliseconds timeout);
  absl::Status Error(const absl::Status& status) const;

  SystemSpec spec_;
  BenchmarkData job_;
  ChildProcess process_;
  std::string log_, answers_;
  Json ready_;
};

}  // namespace hmann::eval
