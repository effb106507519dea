/// The C++ client of an hmann server. It exposes no gRPC or protobuf types, so that a
/// user's program needs the headers of neither.
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
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/counters.h"
#include "hmann/filter_arguments.h"
#include "hmann/info.h"
#include "hmann/resolved_params.h"
#include "hmann/search_params.h"

namespace hmann::client {

// The client uses the engine's own types for parameters, index metadata and counters.
using hmann::Counters;
using hmann::DType;
using hmann::IndexInfo;
using hmann::Metric;
using hmann::Placement;
using hmann::Prefetch;
using hmann::ResolvedParams;
using hmann::SearchMode;
using hmann::SearchParams;

enum class IndexState { kUnknown, kLoading, kServing, kFailed };

/// One or more query vectors, row-major. A view of memory that the caller owns.
struct Vectors {
  /// In the index's dtype (f32 for an f16 index), little-endian.
  std::span<const std::byte> raw;
  std::span<const float> floats;  ///< for an integer index: whole numbers in its range
  bool is_raw = true;
  std::uint32_t count = 0;  ///< of raw vectors; SearchBatch needs it

  static Vectors Raw(std::span<const std::byte> bytes, std::size_t count = 0) {
    return {bytes, {}, true, static_cast<std::uint32_t>(count)};
  }
  static Vectors Floats(std::span<const float> values) { return {{}, values, false}; }
};

/// The result that the server expects from parameters that the caller left open. It comes
/// from the tuned table, or from the calibration at build time, which includes no times.
struct Prediction {
  double recall = 0;
  std::optional<double> mean_us;
  /// The queries that it holds for: "vectors like the index", or "queries like NAME", a
  /// file. Empty: all.
  std::string predicted_for = {};
};

/// ids[j] and distances[j] belong to the j-th nearest vector. Smaller distances are
/// nearer.
struct Answer {
  std::vector<std::uint64_t> ids;
  std::vector<float> distances;
  /// If labels are strings: names[j] of ids[j], empty for a number. Otherwise none.
  std::vector<std::string> names = {};
  ResolvedParams params = {};             ///< the parameters that ran
  std::optional<Counters> counters = {};  ///< if CallOptions::counters
  std::optional<Prediction> predicted = {};
  /// The budget ended the query: best result so far, possibly fewer than k.
  bool cut_short = false;
  std::optional<std::uint64_t> matches = {};  ///< of a filter: how many vectors it selects
  /// The file that answered: a number that grows from one file of the index to the next.
  std::uint64_t generation = 0;
  std::uint64_t sequence = 0;  ///< of a collection: the write after which it answered
};

/// The outcome of query `id` of a stream: the same answer or error that a call of its own
/// would return.
struct StreamedAnswer {
  std::uint64_t id = 0;
  absl::StatusOr<Answer> answer;
};

/// The answers, concatenated: query i has counts[i] ids.
struct BatchAnswer {
  std::vector<std::uint64_t> ids;
  std::vector<float> distances;
  std::vector<std::uint32_t> counts;
  std::vector<std::string> names = {};  ///< as in Answer
  ResolvedParams params;                ///< the parameters that ran
  std::optional<Counters> counters;     ///< the sum over the batch
  std::optional<Prediction> predicted = {};
  std::uint32_t cut_short = 0;                ///< number of queries that the budget ended
  std::optional<std::uint64_t> matches = {};  ///< of a filter: how many vectors it selects
  std::uint64_t generation = 0;               ///< the file that answered all of them
  std::uint64_t sequence = 0;                 ///< as in Answer
};

/// Limits of one request.
struct Limits {
  std::uint32_t max_batch = 0, max_k = 0, max_ef = 0, max_query_threads = 0;
  std::uint64_t max_request_bytes = 0, max_reply_bytes = 0;
};

/// What a collection has besides its index.
struct CollectionFacts {
  std::uint64_t sequence = 0, covered = 0;        ///< of the last write, and that the index has
  std::uint64_t delta_rows = 0, delta_bytes = 0;  ///< vectors that are not merged
  std::uint64_t dead_rows = 0;                    ///< vectors of the index that are gone
  std::uint64_t journal_bytes = 0;
  /// Since the last merge began, or it was opened; 0: all rows are merged.
  double unmerged_seconds = 0;
  std::uint64_t merges = 0;
  double merge_seconds = 0;  ///< that the last one took
  /// The merge that runs: since it began, and what is done of a phase. Empty: none.
  double merging_seconds = 0;
  std::string merge_phase;
  std::uint64_t merge_done = 0, merge_total = 0;
  std::string last_error;  ///< of a merge; empty: none
  /// If the server follows what another process writes: since it last had all of it.
  std::optional<double> behind_seconds;
};

struct IndexDescription : IndexInfo {
  std::string name;
  std::vector<Placement> placements;  ///< `where` is empty unless requested
  std::string simd;                   ///< SIMD level of the distance kernels on the server
  std::uint32_t threads = 0;          ///< searches that the server runs concurrently
  Limits limits;
  std::uint64_t generation = 0;
  std::optional<CollectionFacts> collection;  ///< absent: an index, which does not change
};

struct IndexSummary {
  std::string name;
  IndexState state = IndexState::kUnknown;
  std::string reason;  ///< why the state is kFailed
  std::uint64_t n = 0;
  std::uint32_t dim = 0;
  std::optional<DType> dtype;  ///< if the index serves and this client knows the type
  std::optional<Metric> metric;
  std::uint64_t generation = 0;  ///< if the index serves
};

/// Where Client::Load places an index; what is absent is as the server was started with.
struct LoadOptions {
  std::string fast = {}, slow = {}, cache = {};  ///< as in OpenOptions
  std::uint64_t cache_bytes = 0;
  std::optional<std::uint32_t> sq_bits = {};
};

/// Queries with known neighbors, which a file has to find before it is served. Paths are
/// those of the server. No queries: no probe.
struct Probe {
  std::string queries = {}, groundtruth = {};
  std::uint32_t k = 10;
  double recall = 0;                ///< the least mean recall@k by default parameters
  std::chrono::nanoseconds p99{0};  ///< the most for 99 of 100 queries; 0: any
};

/// A file that is served now.
struct Loaded {
  std::uint64_t generation = 0, content_hash = 0;
  double seconds = 0;  ///< what loading it took
};

/// A load that runs. Of its phase, `done` of `total` (0: unknown) are done.
struct LoadProgress {
  std::string path, phase, unit;
  double seconds = 0;  ///< since it began
  std::uint64_t done = 0, total = 0;
  double share = 0;  ///< of the bytes of the file, those that were read
};

struct IndexStatus : IndexSummary {
  std::string path;  ///< on the server
  std::uint64_t content_hash = 0;
  double load_seconds = 0;
  std::uint64_t swaps = 0, refused_loads = 0;
  std::string refusal;  ///< why the last load was refused; empty: it was not
  std::optional<LoadProgress> loading;
  std::optional<CollectionFacts> collection;  ///< absent: an index, which does not change
};

/// What names the rows of a write: numbers, and for those after them strings of 1 to
/// 1,024 bytes. A view of memory that the caller owns.
struct Rows {
  std::span<const std::uint64_t> labels = {};
  std::span<const std::string> names = {};
};

/// What a gateway of Vald has of its agents, or an agent of its own index.
struct ValdIndex {
  std::uint64_t vectors = 0;
  std::set<std::string> shapes;  ///< that differ, "128 x Uint8, L2"
  std::string id;                ///< of one of the vectors; empty: there is none
};

/// What a write did.
struct Written {
  std::uint64_t sequence = 0;  ///< the first moment that has it
  std::uint64_t rows = 0;      ///< put, updated, or deleted and there before
  std::uint64_t generation = 0;
};

/// Cancels a call from another thread: the call ends CANCELLED, and the server stops the
/// search. For one call; Cancel may also come before the call.
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

/// The outcome of write `id` of a stream.
struct StreamedWrite {
  std::uint64_t id = 0;
  absl::StatusOr<Written> written;
};

struct CallOptions {
  /// Measured from the start of the call.
  std::chrono::nanoseconds deadline = std::chrono::seconds(10);
  Cancellation* cancellation = nullptr;  ///< not owned
  bool counters = false;                 ///< for searches: count the work and return it
  /// For searches: only vectors whose attributes satisfy it may be answers
  /// (doc/filters.md). Absent: all; an empty text is an error.
  std::optional<std::string> filter = {};
  /// The values that it names as $name.
  FilterArguments filter_arguments = {};
  /// For writes: a name that no other write has, at most 64 bytes, which makes it safe to
  /// send again after an error. Empty: one that is drawn for the call.
  std::string operation = {};
};

struct ConnectOptions {
  bool own_connection = false;  ///< otherwise clients of one address share a connection
  /// Retry briefly when the server is UNAVAILABLE: searches change nothing, and a write
  /// that is sent again happens once. (gRPC resends calls that no server has seen in any
  /// case.)
  bool retry = true;
  bool tls = false;                                  ///< encrypt; trust the CAs of this system
  std::string ca_file = {};                          ///< encrypt; trust these CAs (PEM)
  std::string certificate_file = {}, key_file = {};  ///< of this client (PEM)
  std::string token_file = {};  ///< file with the token that is sent with each call
};

/// One call that carries many queries; Client::OpenStream creates it. A message costs
/// half of what a call does, and the server processes several queries together. Answers
/// arrive in any order.
///
/// A caller that sends without ever receiving is eventually blocked by the server,
/// indefinitely: limit the queries in flight, or receive in a separate thread.
///
/// Thread safety: one thread may send while another receives.
class SearchStream {
 public:
  SearchStream(SearchStream&&) noexcept;
  SearchStream& operator=(SearchStream&&) noexcept;
  /// Cancels the queries that have no answer yet.
  ~SearchStream();

  /// Blocks while the server accepts no more. Errors: UNAVAILABLE if the stream has
  /// ended; Receive returns the reason.
  absl::Status Send(std::uint64_t id, const Vectors& query);
  /// Declares that no more queries will be sent.
  absl::Status DoneSending();
  /// The next answer; nullopt when all have arrived after DoneSending. Blocks until there
  /// is one, even before the first Send. Errors: the status that ended the stream;
  /// queries without an answer then get none.
  absl::StatusOr<std::optional<StreamedAnswer>> Receive();

 private:
  friend class Client;
  struct Impl;
  explicit SearchStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// One call that carries writes of a collection; Client::OpenWrites creates it. They
/// happen in their order; what each did, or its error, arrives in that order, too. Where
/// a call would be COLLECTION_FULL, a stream waits until merges have made room. A caller
/// that sends without ever receiving is eventually blocked, as with SearchStream.
///
/// `operation`: as in CallOptions; with one, a write whose answer was lost with the
/// stream can be sent again on another.
///
/// Thread safety: one thread may send while another receives.
class WriteStream {
 public:
  WriteStream(WriteStream&&) noexcept;
  WriteStream& operator=(WriteStream&&) noexcept;
  /// Ends the call; writes that have no answer yet may have happened.
  ~WriteStream();

  /// As Client::Put, Delete and Update. Block while the server accepts no more. Errors:
  /// UNAVAILABLE if the stream has ended; Receive returns the reason.
  absl::Status Put(std::uint64_t id, const Rows& rows, const Vectors& vectors,
                   std::span<const std::string> attributes = {}, const std::string& operation = {});
  absl::Status Delete(std::uint64_t id, const Rows& rows, const std::string& operation = {});
  absl::Status Update(std::uint64_t id, const Rows& rows, std::span<const std::string> attributes,
                      const std::string& operation = {});
  /// Declares that no more writes will be sent.
  absl::Status DoneSending();
  /// As SearchStream::Receive.
  absl::StatusOr<std::optional<StreamedWrite>> Receive();

 private:
  friend class Client;
  struct Impl;
  explicit WriteStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Errors of every call: the server's code unchanged. The details follow the message in
/// brackets, e.g. "the queue is full: 256 requests wait [QUEUE_FULL; retry after 12 ms]",
/// and are attached as payloads (google.rpc messages by type URL). UNAVAILABLE if no
/// server answers.
///
/// Thread safety: any number of threads may call at once.
class Client {
 public:
  /// Does not wait for the server; see WaitReady. Errors: INVALID_ARGUMENT if `address`
  /// is not HOST:PORT, or for a token that would leave this machine unencrypted; those of
  /// open(2).
  static absl::StatusOr<Client> Connect(const std::string& address,
                                        const ConnectOptions& options = {});
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  /// Errors of all searches, including streams: INVALID_ARGUMENT for options.matches,
  /// which works only with an index opened in this process.
  absl::StatusOr<Answer> Search(const std::string& index, const Vectors& query,
                                const SearchParams& options, const CallOptions& call = {});
  absl::StatusOr<BatchAnswer> SearchBatch(const std::string& index, const Vectors& queries,
                                          const SearchParams& options,
                                          const CallOptions& call = {});
  /// `call.deadline` covers the whole stream, from its first Send. Both the cancellation
  /// and this client must outlive the stream.
  SearchStream OpenStream(const std::string& index, const SearchParams& options,
                          const CallOptions& call = {});
  /// Retrieves vectors by label, in the index's dtype, little-endian, concatenated in the
  /// order of `labels`. f32 and f16 vectors under cosine are divided by their norm.
  /// Additional errors: NOT_FOUND naming a label that no vector has.
  absl::StatusOr<std::vector<std::byte>> Get(const std::string& index,
                                             std::span<const std::uint64_t> labels,
                                             const CallOptions& call = {});
  /// `where`: placements include their location (files and devices of the server).
  /// Errors: PERMISSION_DENIED for `where` without a token of role admin, if the server
  /// uses tokens; UNIMPLEMENTED for an index whose type or metric this client does not
  /// know.
  absl::StatusOr<IndexDescription> Describe(const std::string& index, const CallOptions& call = {},
                                            bool where = false);
  absl::StatusOr<std::vector<IndexSummary>> List(const CallOptions& call = {});

  // Changes of collections, with a token of role write for the collection if the server
  // uses tokens. A call that returns is on disk, and searches that begin later see it; on
  // errors, nothing has changed, except perhaps after UNAVAILABLE, DEADLINE_EXCEEDED and
  // CANCELLED. Errors, too: INVALID_ARGUMENT naming the row; FAILED_PRECONDITION
  // (NOT_A_COLLECTION); RESOURCE_EXHAUSTED (COLLECTION_FULL; QUEUE_FULL); ALREADY_EXISTS
  // and ABORTED for the operation of another write.

  /// Inserts vectors, one for each row, or replaces those that have the labels.
  /// `attributes`: JSON objects, one for each row; empty: none.
  absl::StatusOr<Written> Put(const std::string& index, const Rows& rows, const Vectors& vectors,
                              std::span<const std::string> attributes = {},
                              const CallOptions& call = {});
  /// Deletes rows; those that are not there are ignored.
  absl::StatusOr<Written> Delete(const std::string& index, const Rows& rows,
                                 const CallOptions& call = {});
  /// Deletes the rows for which call.filter holds. `all`: also if it is absent or holds
  /// for all. Such a call may be sent once only.
  absl::StatusOr<Written> DeleteMatching(const std::string& index, bool all,
                                         const CallOptions& call);
  /// Replaces attributes: JSON objects, one for each row; null removes one. NOT_FOUND
  /// naming a row that is not there.
  absl::StatusOr<Written> Update(const std::string& index, const Rows& rows,
                                 std::span<const std::string> attributes,
                                 const CallOptions& call = {});
  /// `call.deadline` covers the whole stream, from its first message. Both the
  /// cancellation and this client must outlive the stream.
  WriteStream OpenWrites(const std::string& index, const CallOptions& call = {});
  /// Merges all that was written into a new index. FAILED_PRECONDITION if memory or disk
  /// does not suffice. Takes minutes for millions of vectors:
  /// give it a deadline. A call that ends early leaves the rest to the next merge.
  absl::StatusOr<Written> Compact(const std::string& index, const CallOptions& call = {});

  // For operators, with a token of role admin for the index; Drain needs one for all.
  // Errors: UNAUTHENTICATED, PERMISSION_DENIED, NOT_FOUND; of loads, also those of
  // Index::Open, named by file, and ABORTED while another load of the name runs. The end
  // of a call's deadline does not end the load.

  /// Adds a name for the file at `path` on the server. Returns when it is served; on
  /// errors, the name is not there. ALREADY_EXISTS: it was before.
  absl::StatusOr<Loaded> Load(const std::string& index, const std::string& path,
                              const LoadOptions& options = {}, const CallOptions& call = {},
                              const Probe& probe = {});
  /// Loads the file at `path` on the server (empty: the one that lies now under the path
  /// that is served), then serves it instead of the file before. On errors, the file
  /// before is served on. FAILED_PRECONDITION: another dimension, type or metric, or
  /// less than `probe` expects.
  absl::StatusOr<Loaded> Swap(const std::string& index, const std::string& path = {},
                              const CallOptions& call = {}, const Probe& probe = {});
  /// Removes a name. Calls that have started end.
  absl::Status Unload(const std::string& index, const CallOptions& call = {});
  /// The files that are served or being loaded, of one index or, if empty, of all.
  absl::StatusOr<std::vector<IndexStatus>> Status(const std::string& index = {},
                                                  const CallOptions& call = {});
  /// The k nearest vectors, of those within options.max_distance and of call.filter, by a
  /// comparison with each: what Search would find at best.
  absl::StatusOr<Answer> ExactSearch(const std::string& index, const Vectors& query,
                                     const SearchParams& options, const CallOptions& call = {});
  /// Lets the server report NOT_SERVING and close its port, for good; calls on
  /// connections that are open are still answered.
  absl::Status Drain(const CallOptions& call = {});

  /// Asks a gateway of Vald (v1.8) or an agent, also one of `hmann serve --vald`.
  absl::StatusOr<ValdIndex> DescribeVald(const CallOptions& call = {});
  /// NOT_FOUND: an agent has no vector with this id, or a gateway asks no agent that has.
  absl::Status FindVald(const std::string& id, const CallOptions& call = {});

  /// Blocks until `index` serves, and also waits for a server that is not up yet. Errors:
  /// NOT_FOUND and FAILED_PRECONDITION (it could not be loaded) at once, UNAVAILABLE for
  /// a certificate that is refused at once and for a server to which no connection can be
  /// made after `patience`; DEADLINE_EXCEEDED with the last state.
  absl::Status WaitReady(const std::string& index, const CallOptions& call = {},
                         std::chrono::nanoseconds patience = std::chrono::nanoseconds::max());

 private:
  friend class SearchStream;
  friend class WriteStream;
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hmann::client
