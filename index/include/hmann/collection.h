/// A collection: vectors that come and go while they are searched.
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/build_options.h"
#include "hmann/hmann.h"

namespace hmann {

/// The parameters of a new collection.
struct CreateCollection {
  DType dtype = DType::kF32;
  std::uint32_t dim = 0;
  /// What the builds are like: metric, m, ef_construction, alpha, promote, bits,
  /// replicas, seed and method. Inputs, output, memory and threads are ignored.
  BuildOptions build = {};
  /// A finished index whose vectors are the first of the collection. The file is linked,
  /// or copied from another file system; dtype, dim and `build` follow from it. Empty:
  /// the collection starts empty.
  std::string from = {};
  /// Vector file of queries like the expected ones, copied into the folder. Merges
  /// calibrate with them. Empty: with vectors of the index.
  std::string queries = {};
  /// Types of some attributes, "year:int64,tags:tag". The type of another one is that of
  /// its first value.
  std::string types = {};
};

struct OpenCollection {
  OpenOptions index = {};  ///< where the sealed index is placed
  /// Searches and reads what is there now; another process may write meanwhile.
  bool read_only = false;
  /// With `read_only`: looks so often for what was written, and serves it, too. 0: never.
  std::chrono::milliseconds follow{0};
  /// Limit of the memory of the rows that are not in the sealed index, dead ones and all
  /// that they need included, and of their writes in the journal; 0: a quarter of what is
  /// usable. Rows that were replaced or deleted take at most 128 MiB, or three times what
  /// lives if that is more. A journal that has more at opening is merged then; a reader
  /// refuses it.
  std::uint64_t delta_bytes = 0;
  /// Merges begin by themselves: at 10 % of rows outside the sealed index, dead ones
  /// included, at 30 % of dead rows in it, at half of `delta_bytes`, at a quarter of what
  /// replaced rows may take, or when a write was refused for lack of room.
  bool merges = true;
  /// 0: all usable cores. Absent: one, or all while rows come so fast that many more
  /// would come during a merge.
  std::optional<int> merge_threads = {};
  std::uint64_t merge_memory = 0;  ///< that a merge may use; 0: 5/16 of what is usable
};

/// What names a vector: a number below 2^64 - 1, or a string of 1 to 1,024 bytes of
/// UTF-8. A string stands for a number of 2^63 or more that follows from it: its hash.
/// Numbers below 2^63 come before all strings. Converts from both; does not own the
/// string.
class VectorLabel {
 public:
  static constexpr std::size_t kMostBytes = 1024;

  template <std::integral T>
  VectorLabel(T number) : number_(static_cast<std::uint64_t>(number)) {}
  VectorLabel(std::string_view name);
  VectorLabel(const char* name) : VectorLabel(std::string_view(name)) {}
  VectorLabel(const std::string& name) : VectorLabel(std::string_view(name)) {}

  std::uint64_t number() const { return number_; }
  bool is_string() const { return name_.data() != nullptr; }
  std::string_view name() const { return name_; }  ///< without one: empty

 private:
  std::uint64_t number_ = 0;
  std::string_view name_;
};

/// Changes that happen together: all or none. Of several changes of one label, the last
/// one counts.
class WriteBatch {
 public:
  static constexpr std::size_t kMostRows = 65'536;
  static constexpr std::size_t kMostBytes = 64 << 20;
  enum class Kind : std::uint8_t { kDelete = 0, kPut = 1, kUpdate = 2 };
  /// On what a change depends: nothing, or that the label has no vector before it (else
  /// ALREADY_EXISTS), or has one (else NOT_FOUND).
  enum class If : std::uint8_t { kAny, kAbsent, kPresent };

  /// Inserts a vector, or replaces the one with this label. `vector`: dim components of
  /// the collection's type, or f32 for f16. `attributes`: a JSON object; empty: none.
  void Put(const VectorLabel& label, const void* vector, std::size_t bytes,
           std::string_view attributes = {}, If when = If::kAny);
  /// A label that no vector has is ignored, unless `when` is kPresent.
  void Delete(const VectorLabel& label, If when = If::kAny);
  /// Replaces some attributes of a vector: a JSON object; null removes one. A label that
  /// no vector has is an error: NOT_FOUND.
  void Update(const VectorLabel& label, std::string_view attributes);

  /// Names this write, so that it can be sent again without harm: 1 to 64 bytes that no
  /// other write has. If the collection has a write of this name, Write changes nothing
  /// and returns what that one did; the changes must be the same (ALREADY_EXISTS). It
  /// remembers the last 100,000 names for a week, also of writes that changed nothing.
  void SetOperation(std::string_view id) { operation_ = id; }

  std::size_t size() const { return changes_.size(); }
  /// Change `i`; views this batch.
  struct View {
    Kind kind;
    std::uint64_t label;
    std::optional<std::string_view> name;  ///< if the label is a string
    std::span<const std::byte> vector;
    std::string_view attributes;
    If when;
  };
  View At(std::size_t i) const;

 private:
  friend class BatchReader;
  struct Change {
    Kind kind;
    std::uint64_t label;
    std::uint64_t vector, attributes;  ///< offsets in these
    std::uint32_t vector_bytes, attributes_bytes;
    /// Of its name, which follows the attributes; absent: the label is a number.
    std::optional<std::uint32_t> name_bytes;
    If when;
  };
  void Add(Kind kind, const VectorLabel& label, const void* vector, std::size_t bytes,
           std::string_view attributes, If when);
  std::vector<Change> changes_;
  std::vector<std::byte> vectors_;
  std::string attributes_;  ///< and names
  std::string operation_;
};

/// What a write did.
struct Written {
  std::uint64_t sequence = 0;  ///< the first moment that has it
  std::uint64_t rows = 0;      ///< vectors that were put, or that were there and are deleted
};

struct CollectionInfo {
  std::string id;  ///< 32 hexadecimal digits, of the collection and its copies
  DType dtype = DType::kF32;
  Metric metric = Metric::kL2;
  std::uint32_t dim = 0;
  std::uint64_t sequence = 0;  ///< of the last write
  std::uint64_t covered = 0;   ///< of the last write that the sealed index has
  std::uint64_t live = 0;      ///< vectors
  std::uint64_t sealed_rows = 0, sealed_dead = 0;
  std::uint64_t delta_rows = 0;  ///< live vectors that are not in the sealed index
  std::uint64_t loose_rows = 0;  ///< of these, about, not in a graph yet
  std::uint64_t delta_bytes = 0, journal_bytes = 0;
  std::uint64_t delta_limit = 0;  ///< that delta_bytes may have
  std::uint64_t dead_bytes = 0;   ///< of delta_bytes: of rows that were replaced or deleted
  std::uint64_t merges = 0, merge_failures = 0;  ///< since it was opened
  /// Writes that were on disk and that its journal has no more (COLLECTION.md).
  std::uint64_t lost_writes = 0;
  /// Names in its folder that are none of its files, when it was opened for writing. They
  /// stay as they are.
  std::vector<std::string> other_files{};
  double merge_seconds = 0;  ///< that the last of them took
  /// The merge that runs: since it began, and what is done of a phase of it. Empty: none
  /// runs.
  double merging_seconds = 0;
  std::string merge_phase{};
  std::uint64_t merge_done = 0, merge_total = 0;
  /// Since the last merge began, or it was opened; 0: all rows are merged.
  double unmerged_seconds = 0;
  /// If it follows: since it last had all that was written. Absent: it does not follow.
  std::optional<double> behind_seconds{};
  std::string last_error{};  ///< of work in the background; empty: none
  std::string sealed_file{};
};

/// A search, perhaps among the vectors for which a filter holds, prepared for one moment
/// of a collection. It keeps that moment alive. Immutable and thread-safe.
class PreparedSearch;

/// One moment of a collection: what it contained after one write. Immutable and
/// thread-safe; later writes and merges do not change it, and it keeps alive what it
/// needs.
class Moment;

/// An open collection. Thread-safe. One process at a time opens it for writing.
///
/// A write that returns without an error is on disk, and every search that begins later
/// sees it. Searches never wait for writes or merges.
class Collection {
 public:
  /// Makes the folder, whole or not at all. Errors: ALREADY_EXISTS; INVALID_ARGUMENT;
  /// those of files; with `from` also those of Index::Open, INVALID_ARGUMENT for a label
  /// twice.
  static absl::Status Create(const std::string& folder, const CreateCollection& options);
  /// Whether the path is a folder with a collection.
  static bool Is(const std::string& path);
  /// Errors: NOT_FOUND; FAILED_PRECONDITION (another process writes); DATA_LOSS (damaged:
  /// it says what is still safe); RESOURCE_EXHAUSTED (read_only, and the journal is more
  /// than `delta_bytes`); UNIMPLEMENTED (a newer version); those of Index::Open.
  static absl::StatusOr<std::shared_ptr<Collection>> Open(const std::string& folder,
                                                          const OpenCollection& options = {},
                                                          Progress* progress = nullptr);
  virtual ~Collection() = default;

  /// Errors, after which nothing has changed: INVALID_ARGUMENT naming the row (a wrong
  /// dimension, NaN, a zero vector under cosine, label 2^64 - 1, a wrong attribute, a
  /// string whose number another string has); ALREADY_EXISTS, and ABORTED while it runs
  /// (the operation of another write); RESOURCE_EXHAUSTED (disk; memory of the delta: it
  /// says what to wait for); INVALID_ARGUMENT (it takes more than all of that memory, or
  /// updates more than kMostBytes of vectors); FAILED_PRECONDITION (opened for reading);
  /// those of reads from the sealed index.
  virtual absl::StatusOr<Written> Write(const WriteBatch& batch) = 0;
  /// Deletes the vectors for which the filter holds, at one moment. `operation`: as
  /// WriteBatch::SetOperation; empty: none. Errors: as Write; those of the filter.
  virtual absl::StatusOr<Written> Delete(const Filter& filter, std::string_view operation = {}) = 0;
  /// Deletes all vectors. Errors: as Write.
  virtual absl::StatusOr<Written> DeleteAll(std::string_view operation = {}) = 0;

  /// The strings that numbers from searches stand for; empty: the number is the label, or
  /// its vector was deleted before the last merge. Errors: DATA_LOSS.
  virtual absl::StatusOr<std::vector<std::string>> Names(
      std::span<const std::uint64_t> labels) const = 0;

  /// The last moment.
  virtual std::shared_ptr<const Moment> Now() const = 0;
  virtual CollectionInfo info() const = 0;

  /// Writes all live vectors into a new sealed index, which then has the bytes of `hmann
  /// build` with the parameters of the collection over them in the order of labels. Waits
  /// until it serves. Writes go on meanwhile. Errors: those of Build; CANCELLED soon
  /// after `cancelled`, if given, becomes true; the next merge takes up what is done.
  virtual absl::Status Compact(Progress& progress,
                               const std::atomic<bool>* cancelled = nullptr) = 0;
  /// Copies the collection as of one moment into a new folder; on the same file system,
  /// sealed files are linked. Errors: ALREADY_EXISTS; those of files.
  virtual absl::StatusOr<std::uint64_t> Backup(const std::string& folder) = 0;
  /// Checks every file: checksums and order. Errors: DATA_LOSS naming file and place.
  virtual absl::Status Verify(Progress& progress) const = 0;
};

/// Searches a collection, one query at a time; keeps scratch memory. One per thread.
class CollectionSearcher {
 public:
  CollectionSearcher();
  ~CollectionSearcher();
  CollectionSearcher(CollectionSearcher&&) noexcept;

  /// The k nearest vectors of the moment, nearest first, ties by label. `query`: dim
  /// components of QueryType(dtype). `limits.budget`, if given, replaces that of the
  /// parameters. Errors: as Searcher::Search.
  absl::Status Search(const void* query, const PreparedSearch& prepared, Answer* answer,
                      Counters* counters = nullptr, SearchLimits limits = {});
  /// Copies vectors (dim components of the collection's type each) and, unless null,
  /// attributes as JSON objects. Errors: NOT_FOUND naming the first label that no vector
  /// has; as Searcher::Get.
  absl::Status Get(const Moment& moment, std::span<const std::uint64_t> labels, void* vectors,
                   std::vector<std::string>* attributes = nullptr);

 private:
  class Scratch;
  std::unique_ptr<Scratch> scratch_;
};

/// Resolves parameters for each part of a moment. `filter`: nullptr: none. `params.k` may
/// exceed the number of vectors. Errors: those of Index::Resolve; of the filter.
absl::StatusOr<std::shared_ptr<const PreparedSearch>> Prepare(std::shared_ptr<const Moment> moment,
                                                              const SearchParams& params,
                                                              const Filter* filter = nullptr);
/// The parameters for the sealed index, or k alone without one, and the recall to expect
/// if it is known.
ResolvedSearch SearchOf(const PreparedSearch& prepared);
/// The write after which the moment is.
std::uint64_t SequenceOf(const Moment& moment);
/// Its sealed index; nullptr: there is none yet.
std::shared_ptr<const Index> SealedOf(const Moment& moment);
/// Calls visit(label, vector) with each live vector: dim components of the collection's
/// type. Errors: those of `visit`, which end the work; DATA_LOSS.
absl::Status ForRows(
    const Moment& moment,
    const std::function<absl::Status(std::uint64_t, std::span<const std::byte>)>& visit);
/// Live vectors, and those of them that a prepared search accepts.
std::uint64_t LiveRows(const Moment& moment);
std::uint64_t MatchingRows(const PreparedSearch& prepared);

}  // namespace hmann
