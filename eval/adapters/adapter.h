/// The rival's side of the protocol (PROTOCOL.md), written once for the adapters in C++:
/// a library supplies five functions, and arguments, build cache, pinning, the clock and
/// the answers are the same for all.
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
#include "nlohmann/json.hpp"

namespace hmann::eval {

/// What the program was asked to build and answer.
// NOLINTNEXTLINE(bugprone-exception-escape): moving json throws in assertions only.
struct AdapterJob {
  std::string base, queries;     ///< vector files
  std::uint64_t rows = 0;        ///< first vectors of base only; 0: all
  std::uint64_t query_rows = 0;  ///< likewise of queries
  Metric metric = Metric::kL2;
  std::uint32_t m = 16, ef_construction = 100, k = 10;
  int threads = 1;       ///< of the build
  nlohmann::json build;  ///< settings of the library's own, an object
  std::string work;      ///< folder of the build cache; "" builds each time
};

/// What a build took and gave: `index_bytes`, and optional `phases` (seconds by name, in
/// order), `peak_anonymous_bytes`, `work_bytes`. RunAdapter adds `build_seconds`,
/// `build_cpu_seconds` and `build_threads`. They are kept beside an index, and stand in
/// the program's first line.
using BuildFigures = nlohmann::ordered_json;

/// How a run's queries are spread.
struct RunShape {
  int threads = 1;    ///< that search side by side, each in a closed loop
  int in_flight = 1;  ///< queries that each of them keeps under way at once
};

/// The part of a run that one thread does.
struct RunShare {
  int thread = 0;                    ///< in [0, RunShape::threads)
  std::uint64_t begin = 0, end = 0;  ///< queries
  std::uint32_t k = 0;
  std::uint32_t* ids =
      nullptr;  ///< of the whole run, queries x k, nearest first; filled with kNoId beforehand
  float* seconds = nullptr;  ///< of the whole run, one a query, from its start to its answer;
                             ///< nullptr: nobody asks
};

/// Stores into RunShare::seconds what one query takes from here to the end of its scope.
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

/// A library under test. But for Search, functions are called from one thread, in the
/// order in which they stand here. No exception may leave any.
class Adapter {
 public:
  virtual ~Adapter() = default;

  /// Name and version of the library, with what sets this run apart: "hnswlib 0.6.2,
  /// float".
  virtual std::string Describe() const = 0;
  /// Settings that give a whole curve, used when the caller brings none.
  virtual nlohmann::json DefaultSettings() const = 0;

  /// Opens the finished index that job.build names; then neither Check nor Build nor Load
  /// is called, and job.base may be "". Gives `index_bytes` and, where there is one,
  /// `index_file`; nullopt, as here: it names none.
  virtual absl::StatusOr<std::optional<BuildFigures>> OpenFinished(const AdapterJob& /*job*/) {
    return std::nullopt;
  }
  /// Whether a search waits for more than the CPU: then the CPU time of its threads is
  /// not its cost.
  virtual bool Waits() const { return false; }

  /// Checks what cannot work (a metric, a dtype, a build setting of no meaning) before
  /// any work. Check, Build and Load: of one that builds indexes.
  virtual absl::Status Check(const AdapterJob&, const VectorFile&) { return OnlyFinished(); }
  /// Builds with job.threads threads and fills `figures`. `path`: where a
  /// library that can only build into a file may write; RunAdapter has chosen it so that
  /// Load finds it.
  virtual absl::Status Build(const AdapterJob& /*job*/, const VectorFile& /*base*/,
                             const std::string& /*path*/, BuildFigures* /*figures*/) {
    return OnlyFinished();
  }
  /// Of an index that Build has not written itself.
  virtual absl::Status Save(const std::string& /*path*/) { return absl::OkStatus(); }
  virtual absl::Status Load(const AdapterJob& /*job*/, const VectorFile& /*base*/,
                            const std::string& /*path*/) {
    return OnlyFinished();
  }
  /// Of what a search needs: bytes that each start makes anew, beside the index that is
  /// kept.
  virtual std::uint64_t BytesMadeAtLoad() const { return 0; }
  /// Converts the queries to the form that the library takes; not timed, as its users
  /// hold them in that form.
  virtual absl::Status Prepare(const VectorFile& queries) = 0;

  /// Takes a setting over; not timed.
  virtual absl::Status Set(const nlohmann::json& setting) = 0;
  /// Makes ready for such runs; not timed. Errors: INVALID_ARGUMENT for what the library
  /// cannot; this one takes one thread, one query.
  virtual absl::Status SetShape(const RunShape& shape);
  /// Answers a share's queries in order, on the calling thread; with in_flight 1 one
  /// after the other. With several threads it is called on all of them at once. This is
  /// what the clock measures.
  virtual absl::Status Search(const RunShare& share) = 0;
  /// All queries, in one share, with the library's counters on, as means per query; null
  /// when it has none. Not for the clock.
  virtual absl::StatusOr<nlohmann::json> Count(const RunShare& all);
  virtual bool CanCount() const { return false; }

  /// Names of build settings that only say how a built index is loaded: indexes that
  /// differ in nothing else are kept as one.
  virtual std::vector<std::string> LoadSettings() const { return {}; }
  /// Whether a built index must be loaded from its file before it is searched.
  virtual bool ServesFromFile() const { return false; }

 private:
  absl::Status OnlyFinished() const;
};

constexpr std::uint32_t kNoId = 0xffffffffu;

/// main() of an adapter. 0 at the end of stdin or after {"quit"}, 1 after printing
/// {"error": ...}, 2 for wrong usage.
int RunAdapter(int argc, char** argv, Adapter& adapter);

/// An unsigned number out of a setting, for Adapter::Set. Errors: INVALID_ARGUMENT naming
/// the key when it is missing, no whole number, or outside [least, most].
absl::StatusOr<std::uint64_t> NumberIn(const nlohmann::json& object, const char* key,
                                       std::uint64_t least, std::uint64_t most);

/// INVALID_ARGUMENT naming the first key of `object` that is not among `known`: a
/// misspelt setting must not pass for a default.
absl::Status CheckKeys(const nlohmann::json& object, const std::vector<std::string>& known);

/// All rows of a file, one behind the other.
std::vector<std::byte> CopyRows(const VectorFile& file);

/// Row i of a file of any dtype as floats; `normalise`: scaled to length 1 (a zero vector
/// stays as it is).
void ToFloats(const VectorFile& file, std::uint64_t i, bool normalise, float* out);

}  // namespace hmann::eval
