/// The C++ client of an hmann server. No gRPC or protobuf type shows here, so that a
/// user's program needs neither's headers.
///
///     using hmann::client::Client, hmann::client::Vectors;
///     absl::StatusOr<Client> client = Client::Connect("127.0.0.1:50051");
///     if (!client.ok()) return client.status();
///     auto answer = client->Search("sift", Vectors::Floats(query), {.k = 10});
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
#include "hmann/counters.h"
#include "hmann/dials.h"
#include "hmann/info.h"
#include "hmann/search_options.h"

namespace hmann::client {

// What is said of a search and of an index, what ran and what work it was are the
// engine's own types.
using hmann::Counters;
using hmann::Dials;
using hmann::DType;
using hmann::IndexInfo;
using hmann::Metric;
using hmann::Placement;
using hmann::Prefetch;
using hmann::SearchOptions;
using hmann::WalkKind;

enum class IndexState { kUnknown, kLoading, kServing, kFailed };

/// One or more query vectors, row-major; views the caller's memory.
struct Vectors {
  std::span<const std::byte> raw;  ///< in the index's dtype, of f16 in f32; little-endian
  std::span<const float> floats;   ///< for an index of integers: whole numbers of its range
  bool is_raw = true;

  static Vectors Raw(std::span<const std::byte> bytes) { return {bytes, {}, true}; }
  static Vectors Floats(std::span<const float> values) { return {{}, values, false}; }
};

/// What the server expects of dials that were not named: by its tuned table, or as they
/// were calibrated when the index was built, which says nothing of the time.
struct Prediction {
  double recall = 0;
  std::optional<double> mean_us;
};

/// ids[j], distances[j]: the j-th nearest. Smaller is nearer.
struct Answer {
  std::vector<std::uint64_t> ids;
  std::vector<float> distances;
  Dials dials;                       ///< what really ran
  std::optional<Counters> counters;  ///< of a batch: the sum
  std::optional<Prediction> predicted = {};
  bool cut_short = false;  ///< by the budget: best so far, perhaps fewer than k
};

/// Of a stream: what query `id` ended with, as a call of its own would have.
struct StreamedAnswer {
  std::uint64_t id = 0;
  absl::StatusOr<Answer> answer;
};

/// The answers one after the other: query i has counts[i] ids.
struct BatchAnswer {
  std::vector<std::uint64_t> ids;
  std::vector<float> distances;
  std::vector<std::uint32_t> counts;
  Dials dials;                       ///< what really ran
  std::optional<Counters> counters;  ///< of a batch: the sum
  std::optional<Prediction> predicted = {};
  std::uint32_t cut_short = 0;  ///< queries that the budget ended
};

/// What one request may ask for.
struct Limits {
  std::uint32_t max_batch = 0, max_k = 0, max_ef = 0, max_query_threads = 0;
  std::uint64_t max_request_bytes = 0, max_reply_bytes = 0;
};

struct IndexDescription : IndexInfo {
  std::string name;
  std::vector<Placement> placements;  ///< `where` is empty unless it was asked for
  std::string simd;                   ///< level that computes the server's distances
  std::uint32_t threads = 0;          ///< searches that the server runs side by side
  Limits limits;
};

struct IndexSummary {
  std::string name;
  IndexState state = IndexState::kUnknown;
  std::string reason;  ///< of kFailed
  std::uint64_t n = 0;
  std::uint32_t dim = 0;
  std::optional<DType> dtype;  ///< of one that serves, where this client knows it
  std::optional<Metric> metric;
};

/// Gives up a call from another thread: the call ends CANCELLED, and the server stops its
/// walk. For one call; Cancel before the call works.
class Cancellation {
 public:
  Cancellation();
  ~Cancellation();
  void Cancel();

 private:
  friend class Client;
  friend class SearchStream;
  struct State;
  class Attachment;
  std::unique_ptr<State> state_;
};

struct CallOptions {
  std::chrono::nanoseconds deadline = std::chrono::seconds(10);  ///< from the start of the call
  Cancellation* cancellation = nullptr;                          ///< not owned
  bool counters = false;  ///< of a search: have its work counted
};

struct ConnectOptions {
  bool own_connection = false;  ///< clients of one address share a connection otherwise
  /// Try again, briefly, when the server is UNAVAILABLE; searches change nothing. (What
  /// no server has seen gRPC sends again in any case.)
  bool retry = true;
  bool tls = false;          ///< encrypt, and believe the authorities of this system
  std::string ca_file = {};  ///< encrypt, and believe these authorities (PEM)
  std::string certificate_file = {}, key_file = {};  ///< this client's own (PEM)
  std::string token_file = {};  ///< holds the token that is sent with each call
};

/// One call over which many queries go; Client::OpenStream makes it. A message costs half
/// of what a call does, and the server searches for several together. Answers come in any
/// order. Whoever sends without ever receiving is held back by the server after a while,
/// for ever: bound what is under way, or receive in a thread of its own.
///
/// Thread safety: one thread may send while another receives.
class SearchStream {
 public:
  SearchStream(SearchStream&&) noexcept;
  SearchStream& operator=(SearchStream&&) noexcept;
  /// Gives up what has no answer yet.
  ~SearchStream();

  /// Blocks while the server takes no more. Errors: UNAVAILABLE when the stream has
  /// ended; Receive says why.
  absl::Status Send(std::uint64_t id, const Vectors& query);
  /// No more will be sent.
  absl::Status DoneSending();
  /// The next answer; nullopt when all have come after DoneSending. Blocks until one is
  /// there, before the first Send, too. Errors: what the stream ended with; then what has
  /// no answer gets none.
  absl::StatusOr<std::optional<StreamedAnswer>> Receive();

 private:
  friend class Client;
  struct Impl;
  explicit SearchStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Errors of every call: the server's code unchanged, its details in brackets behind its
/// message, e.g. "the queue is full: 256 requests wait [QUEUE_FULL; retry after 12 ms]",
/// and as payloads (google.rpc messages by type URL). UNAVAILABLE when no server answers.
///
/// Thread safety: all calls from any thread at once.
class Client {
 public:
  /// Does not wait for the server; see WaitReady. Errors: INVALID_ARGUMENT when `address`
  /// is not HOST:PORT, or for a token that would leave this machine unencrypted; of
  /// open(2).
  static absl::StatusOr<Client> Connect(const std::string& address,
                                        const ConnectOptions& options = {});
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  /// Errors of searches, streamed ones too: INVALID_ARGUMENT for options.matches, which
  /// only an index that is opened here can take.
  absl::StatusOr<Answer> Search(const std::string& index, const Vectors& query,
                                const SearchOptions& options, const CallOptions& call = {});
  absl::StatusOr<BatchAnswer> SearchBatch(const std::string& index, const Vectors& queries,
                                          const SearchOptions& options,
                                          const CallOptions& call = {});
  /// `call.deadline`: of all of the stream, from its first Send on. A cancellation must
  /// outlive it, as must this.
  SearchStream OpenStream(const std::string& index, const SearchOptions& options,
                          const CallOptions& call = {});
  /// Vectors by their labels, in the index's dtype, little-endian, one after the other
  /// in the order of `labels`; f32 and f16 under cosine divided by their norm. Errors
  /// also: NOT_FOUND naming a label that no vector has; FAILED_PRECONDITION for an index
  /// from before there were orders of labels.
  absl::StatusOr<std::vector<std::byte>> Get(const std::string& index,
                                             std::span<const std::uint64_t> labels,
                                             const CallOptions& call = {});
  /// `where`: placements say where, too (files and devices of the server). Errors:
  /// PERMISSION_DENIED for that, where there are tokens, without one of role admin;
  /// UNIMPLEMENTED for an index of a type or a metric that this client does not know.
  absl::StatusOr<IndexDescription> Describe(const std::string& index, const CallOptions& call = {},
                                            bool where = false);
  absl::StatusOr<std::vector<IndexSummary>> List(const CallOptions& call = {});

  /// Blocks until `index` serves; waits for a server that is not there yet, too. Errors:
  /// NOT_FOUND and FAILED_PRECONDITION (it could not be loaded) at once,
  /// DEADLINE_EXCEEDED with the last state.
  absl::Status WaitReady(const std::string& index, const CallOptions& call = {});

 private:
  friend class SearchStream;
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hmann::client
