/// The C++ client of an hmann server. No gRPC or protobuf type shows here, so that a user's program needs neither's headers.
///
///     HMANN_ASSIGN_OR_RETURN(auto client, hmann::client::Client::Connect("127.0.0.1:50051"));
///     HMANN_RETURN_IF_ERROR(client.WaitReady("sift"));
///     HMANN_ASSIGN_OR_RETURN(auto answer, client.Search("sift", hmann::client::Vectors::Floats(query), {.k = 10}));
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hmann::client {

enum class DType { kUnknown, kF32, kU8, kI8 };
enum class Metric { kUnknown, kL2, kInnerProduct, kCosine };
enum class Walk { kDefault, kBeams, kPool, kGated };
enum class Promotion { kUnknown, kDegree, kInDegree, kOutDegree, kRandom };
enum class IndexState { kUnknown, kLoading, kServing, kFailed };

/// One or more query vectors, row-major; views the caller's memory.
struct Vectors {
  std::span<const std::byte> raw;  ///< in the index's dtype, little-endian
  std::span<const float> floats;   ///< for an index of integers: whole numbers of its range
  bool is_raw = true;

  static Vectors Raw(std::span<const std::byte> bytes) { return {bytes, {}, true}; }
  static Vectors Floats(std::span<const float> values) { return {{}, values, false}; }
};

/// The dials of a query, and in an answer what really ran.
struct SearchOptions {
  std::uint32_t k = 10;
  std::uint32_t ef_l1 = 0;                  ///< 0: a default for k
  std::optional<std::uint32_t> ef_l0 = {};  ///< absent: a default for k; 0 answers from L1
  Walk walk = Walk::kDefault;
  std::uint32_t query_threads = 1;
  std::optional<std::uint32_t> cells = {}, width = {};  ///< of the gated walk; absent: a default
  std::optional<float> stop = {};
  std::optional<float> reach = {};  ///< pool, gated: nothing is expanded beyond reach x the kth best; 0: no end; absent: a default
  bool counters = false;            ///< count the work

  /// Instead of dials, on a tuned index: the mean recall to reach, in (0, 1], or the mean time of a query to keep.
  std::optional<double> recall = {};
  std::optional<std::chrono::microseconds> latency = {};
  /// Of each query: then its answer is the best so far. Unlike the deadline, past which nothing arrives.
  std::optional<std::chrono::microseconds> budget = {};
};

/// What the server's tuned table says of the dials that a target chose.
struct Prediction {
  double recall = 0;
  double mean_us = 0;
};

/// Work of a query, or the sum over a batch; names as `hmann search --json` prints them.
struct Counters {
  std::uint64_t distances_fast = 0, distances_slow = 0, sketches = 0;
  std::uint64_t slow_reads = 0, slow_touches = 0, slow_bytes = 0, rounds = 0;
  std::uint64_t migrated = 0, migrated_used = 0, migrated_late = 0, io_reads = 0, io_bytes = 0, cache_hits = 0;
  std::uint64_t expanded_l1 = 0, expanded_l0 = 0;
};

/// ids[j], distances[j]: the j-th nearest. Smaller is nearer.
struct Answer {
  std::vector<std::uint64_t> ids;
  std::vector<float> distances;
  SearchOptions dials;
  std::optional<Counters> counters;
  std::optional<Prediction> predicted = {};
  bool cut_short = false;  ///< by the budget: best so far, perhaps fewer than k
};

/// The answers one after the other: query i has counts[i] ids.
struct BatchAnswer {
  std::vector<std::uint64_t> ids;
  std::vector<float> distances;
  std::vector<std::uint32_t> counts;
  SearchOptions dials;
  std::optional<Counters> counters;
  std::optional<Prediction> predicted = {};
  std::uint32_t cut_short = 0;  ///< queries that the budget ended
};

struct Layer {
  std::uint64_t nodes = 0;
  std::uint32_t max_degree = 0;
  double mean_degree = 0;
};

struct Structure {
  std::string name, tier;
  std::uint64_t bytes = 0;
  std::uint64_t formula = 0;  ///< of the paper; 0: none
};

struct Placement {
  std::string structure, tier, where;
  std::uint64_t bytes = 0;
};

/// What one request may ask for.
struct Limits {
  std::uint32_t max_batch = 0, max_k = 0, max_ef = 0, max_query_threads = 0;
  std::uint64_t max_request_bytes = 0, max_reply_bytes = 0;
};

struct IndexDescription {
  std::string name;
  std::uint64_t n = 0;
  std::uint32_t dim = 0;
  DType dtype = DType::kUnknown;
  Metric metric = Metric::kUnknown;
  std::uint32_t m = 0, ef_construction = 0;
  std::vector<Layer> layers;  ///< [0] is L0
  Promotion promotion = Promotion::kUnknown;
  double promote = 0;  ///< N_1 / N
  std::vector<Structure> bytes;
  std::uint64_t content_hash = 0, seed = 0;
  std::string version;  ///< of the file format
  std::uint64_t file_bytes = 0;
  bool user_labels = false;
  std::optional<float> alpha;  ///< that links were chosen with; absent: not recorded
  std::vector<Placement> placements;
  std::string simd;           ///< level that computes the server's distances
  std::uint32_t threads = 0;  ///< searches that the server runs side by side
  Limits limits;
};

struct IndexSummary {
  std::string name;
  IndexState state = IndexState::kUnknown;
  std::string reason;  ///< of kFailed
  std::uint64_t n = 0;
  std::uint32_t dim = 0;
  DType dtype = DType::kUnknown;
  Metric metric = Metric::kUnknown;
};

/// Gives up a call from another thread: the call ends CANCELLED, and the server stops its walk. For one call; Cancel before the call works.
class Cancellation {
 public:
  Cancellation();
  ~Cancellation();
  void Cancel();

 private:
  friend class Client;
  struct State;
  std::unique_ptr<State> state_;
};

struct CallOptions {
  std::chrono::nanoseconds deadline = std::chrono::seconds(10);  ///< from the start of the call
  Cancellation* cancellation = nullptr;                          ///< not owned
};

struct ConnectOptions {
  bool own_connection = false;  ///< clients of one address share a connection otherwise
  bool retry = true;            ///< try again, briefly, when the server is UNAVAILABLE; searches change nothing
};

/// Errors of every call: the server's code unchanged, its details in brackets behind its message, e.g. "the queue is full: 256 requests
/// wait [QUEUE_FULL; retry after 12 ms]", and as payloads (google.rpc messages by type URL). UNAVAILABLE when no server answers.
///
/// Thread safety: all calls from any thread at once.
class Client {
 public:
  /// Does not wait for the server; see WaitReady. Errors: INVALID_ARGUMENT when `address` is not HOST:PORT.
  static absl::StatusOr<Client> Connect(const std::string& address, const ConnectOptions& options = {});
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  absl::StatusOr<Answer> Search(const std::string& index, const Vectors& query, const SearchOptions& options, const CallOptions& call = {});
  absl::StatusOr<BatchAnswer> SearchBatch(const std::string& index, const Vectors& queries, const SearchOptions& options,
                                          const CallOptions& call = {});
  absl::StatusOr<IndexDescription> Describe(const std::string& index, const CallOptions& call = {});
  absl::StatusOr<std::vector<IndexSummary>> List(const CallOptions& call = {});

  /// Blocks until `index` serves; waits for a server that is not there yet, too. Errors: NOT_FOUND and FAILED_PRECONDITION (it could not be
  /// loaded) at once, DEADLINE_EXCEEDED with the last state.
  absl::Status WaitReady(const std::string& index, const CallOptions& call = {});

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hmann::client
