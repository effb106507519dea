/// The baseline's side of the protocol (PROTOCOL.md), shared by all adapters in C++. A
/// library supplies five functions. Arguments, build cache, pinning, clock and answers
/// are the same for all.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datasets/vector_file.h"
#include "hmann/distance.h"
#include "index/base/clock.h"
#include "index/base/json_reader.h"

namespace hmann::eval {

/// What the program must build and answer.
// NOLINTNEXTLINE(bugprone-exception-escape): moving json throws in assertions only.
struct AdapterInput {
  std::string base, queries;     ///< vector files
  std::uint64_t rows = 0;        ///< use only the first rows of base; 0: all
  std::uint64_t query_rows = 0;  ///< likewise for queries
  Metric metric = Metric::kL2;
  std::uint32_t m = 16, ef_construction = 100, k = 10;
  int threads = 1;       ///< for the build
  std::string mask;      ///< file with a bit for each row of base, for Restrict; "": none
  nlohmann::json build;  ///< the library's own build settings, an object
  std::string work;      ///< folder of the build cache; "": no cache
};

/// Figures of a build: `index_bytes`, and optionally `phases` (seconds by name, in
/// order), `peak_anonymous_bytes` and `work_bytes`. RunAdapter adds `build_seconds`,
/// `build_cpu_seconds` and `build_threads`. They are stored next to a kept index and
/// appear in the program's first line.
using BuildFigures = nlohmann::ordered_json;

/// How the queries of a run are distributed.
struct RunShape {
  int threads = 1;    ///< search concurrently, each in a closed loop
  int in_flight = 1;  ///< queries that each thread keeps in flight
};

/// One thread's part of a run.
struct RunShare {
  int thread = 0;                    ///< in [0, RunShape::threads)
  std::uint64_t begin = 0, end = 0;  ///< queries
  std::uint32_t k = 0;
  /// For the whole run: queries x k ids, nearest first, filled with kNoId beforehand.
  std::uint32_t* ids = nullptr;
  /// For the whole run: one value per query, from its start to its answer. nullptr: not
  /// wanted.
  float* seconds = nullptr;
};

/// Stores one query's time into RunShare::seconds: from here to the end of its scope.
class QueryTimer {
 public:
  QueryTimer(const RunShare& share, std::uint64_t query)
      : seconds_(share.seconds == nullptr ? nullptr : share.seconds + query) {
    if (seconds_ != nullptr) start_ = std::chrono::steady_clock::now();
  }
  ~QueryTimer() {
    if (seconds_ != nullptr) *seconds_ = static_cast<float>(SecondsSince(start_));
  }
  QueryTimer(const QueryTimer&) = delete;
  QueryTimer& operator=(const QueryTimer&) = delete;

 private:
  float* seconds_;
  std::chrono::steady_clock::time_point start_;
};

/// A library under test. Functions other than Search are called from one thread, in the
/// order in which they are declared. No function may let an exception escape.
class Adapter {
 public:
  virtual ~Adapter() = default;

  /// Name and version of the library, and what sets this run apart: "hnswlib 0.6.2,
  /// float".
  virtual std::string Describe() const = 0;
  /// Settings that give a whole curve. They apply when the caller brings none.
  virtual nlohmann::json DefaultSettings() const = 0;

  /// Opens the finished index that job.build names. Check, Build and Load are then not
  /// called, and job.base may be "". Returns `index_bytes` and, if there is a file,
  /// `index_file`. nullopt, the default: job.build names no index.
  virtual absl::StatusOr<std::optional<BuildFigures>> OpenFinished(const AdapterInput& /*job*/) {
    return std::nullopt;
  }
  /// Whether a search waits for anything but the CPU. If so, the CPU time of its threads
  /// is not its cost.
  virtual bool Waits() const { return false; }

  /// Rejects what cannot work (a metric, a dtype, a meaningless build setting) before any
  /// work. Adapters that build indexes implement Check, Build and Load.
  virtual absl::Status Check(const AdapterInput&, const VectorFile&) { return OnlyFinished(); }
  /// Builds with job.threads threads and fills `figures`. A library that can only build
  /// into a file may write to `path`. RunAdapter chooses it so that Load finds the file.
  virtual absl::Status Build(const AdapterInput& /*job*/, const VectorFile& /*base*/,
                             const std::string& /*path*/, BuildFigures* /*figures*/) {
    return OnlyFinished();
  }
  /// Writes the index, unless Build has already written it.
  virtual absl::Status Save(const std::string& /*path*/) { return absl::OkStatus(); }
  virtual absl::Status Load(const AdapterInput& /*job*/, const VectorFile& /*base*/,
                            const std::string& /*path*/) {
    return OnlyFinished();
  }
  /// Bytes that a search needs and that each start creates anew, in addition to the kept
  /// index.
  virtual std::uint64_t BytesMadeAtLoad() const { return 0; }
  /// Lets searches answer only rows whose bit in the mask is set: row i has bit i % 8 of
  /// byte i / 8. Errors: INVALID_ARGUMENT, the default, if the library cannot filter.
  virtual absl::Status Restrict(const std::string& mask);
  /// Converts the queries to the library's own form. Not timed: its users hold them in
  /// that form.
  virtual absl::Status Prepare(const VectorFile& queries) = 0;

  /// Applies a setting; not timed.
  virtual absl::Status Set(const nlohmann::json& setting) = 0;
  /// Prepares for runs of this shape; not timed. Errors: INVALID_ARGUMENT for a shape
  /// that the library cannot run. The default accepts one thread and one query.
  virtual absl::Status SetShape(const RunShape& shape);
  /// Answers the queries of a share in order, on the calling thread, and one at a time if
  /// in_flight is 1. With several threads, all of them call it concurrently. The clock
  /// measures this call.
  virtual absl::Status Search(const RunShare& share) = 0;
  /// Answers all queries as one share with the library's counters on. Returns means per
  /// query, or null if the library has no counters. Not timed.
  virtual absl::StatusOr<nlohmann::json> Count(const RunShare& all);
  virtual bool CanCount() const { return false; }

  /// Names of build settings that only control how a built index is loaded. Indexes that
  /// differ in nothing else share one kept file.
  virtual std::vector<std::string> LoadSettings() const { return {}; }
  /// Whether a built index must be loaded from its file before a search.
  virtual bool ServesFromFile() const { return false; }

 private:
  absl::Status OnlyFinished() const;
};

constexpr std::uint32_t kNoId = 0xffffffffu;

/// main() of an adapter. Returns 0 at the end of stdin or after {"quit"}, 1 after
/// printing {"error": ...}, 2 for wrong usage.
int RunAdapter(int argc, char** argv, Adapter& adapter);

/// Reads an unsigned number from a setting, for Adapter::Set. Errors: INVALID_ARGUMENT
/// naming the key if it is missing, not a whole number, or outside [least, most].
absl::StatusOr<std::uint64_t> NumberIn(const nlohmann::json& object, const char* key,
                                       std::uint64_t least, std::uint64_t most);

/// INVALID_ARGUMENT naming the first key of `object` that is not in `known`, so that a
/// misspelled setting does not pass for a default.
absl::Status CheckKeys(const nlohmann::json& object, const std::vector<std::string>& known);

/// Copies all rows of a file into contiguous memory.
std::vector<std::byte> CopyRows(const VectorFile& file);

/// Row i of a file of any dtype as floats. `normalize` scales it to length 1; a zero
/// vector stays as it is.
void ToFloats(const VectorFile& file, std::uint64_t i, bool normalize, float* out);

}  // namespace hmann::eval
