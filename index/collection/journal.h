#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/attributes.h"
#include "hmann/collection.h"

struct sqlite3;
struct sqlite3_stmt;

namespace hmann {

/// The changes of one write, as the journal has them. Each label once.
struct JournalEntry {
  std::vector<std::uint64_t> labels;
  std::vector<std::uint8_t> puts;  ///< [i]: label i is put; otherwise it is deleted
  std::vector<std::byte> vectors;  ///< of the puts in turn, dim components each
  /// Attributes of the puts in turn: a JSON object, or empty. None if no put has any.
  std::vector<std::string> attributes;
  /// Strings that stand for labels of puts. Read back by Name.
  std::vector<std::pair<std::uint64_t, std::string_view>> names;
  std::string_view operation;  ///< the name of the write, and what it changes
  std::uint64_t digest = 0;

  std::uint64_t bytes() const;  ///< that it takes in the journal, about
};

/// A write as it is read back. Views what the journal has in memory.
struct JournalRow {
  std::vector<std::uint64_t> labels;
  std::string_view puts;     ///< as JournalEntry::puts
  std::string_view vectors;  ///< as JournalEntry::vectors
  std::vector<std::string_view> attributes;
  std::uint64_t bytes = 0;  ///< as JournalEntry::bytes
};

/// The writes since the last merge, in SQLite: journal.sqlite in the folder. A row of
/// table `writes` is one write: seq, labels (u64 each), puts (a byte each), vectors,
/// attributes (lines of JSON), and the XXH3 of all of it. SQLite keeps a write whole, and
/// what Append has returned from on disk (WAL, synchronous=FULL).
///
/// Thread-safe, but a thread that reads makes others wait: who reads much opens a journal
/// of its own.
class Journal {
 public:
  static std::string PathIn(const std::string& folder) { return folder + "/journal.sqlite"; }

  /// Makes the file. `fields`: of attributes. Errors: ALREADY_EXISTS, those of files.
  static absl::Status Create(const std::string& folder, const std::string& id,
                             const std::vector<AttributeField>& fields);
  /// `id`: of the collection. Errors: NOT_FOUND, FAILED_PRECONDITION (of another
  /// collection), UNIMPLEMENTED (newer), DATA_LOSS (no database, or damaged).
  static absl::StatusOr<std::unique_ptr<Journal>> Open(const std::string& folder,
                                                       const std::string& id, bool read_only);
  ~Journal();

  /// Appends writes with the numbers first, first + 1, ... and fields that are new, all
  /// or none, and returns when they are on disk. A write without labels takes no number;
  /// its operation is remembered. Errors: RESOURCE_EXHAUSTED (disk), INTERNAL.
  absl::Status Append(std::uint64_t first, std::span<const JournalEntry* const> entries,
                      std::span<const AttributeField> fields);
  absl::StatusOr<std::vector<AttributeField>> Fields() const;

  /// Calls visit(seq, row) for the writes after `after`, in order. They must be numbered
  /// without a gap. `vector_bytes`: of a put. Errors: DATA_LOSS naming the write, up to
  /// which everything was visited; those of `visit`.
  using Visit = std::function<absl::Status(std::uint64_t seq, const JournalRow& row)>;
  absl::Status ForEach(std::uint64_t after, std::size_t vector_bytes, const Visit& visit) const;
  /// Sets the labels that writes after `*after` changed, some at once, and sets `*after`
  /// to the last of these writes. None: there are no more. Errors: as ForEach.
  absl::Status ReadLabels(std::uint64_t* after, std::vector<std::uint64_t>* labels) const;
  /// The string that stands for a label; empty: there is none. Errors: DATA_LOSS.
  absl::StatusOr<std::string> Name(std::uint64_t label) const;
  absl::Status EraseNames(std::span<const std::uint64_t> labels);
  /// What the write of this name did, if it is one of the last.
  struct Recorded {
    Written written;
    std::uint64_t digest = 0;
  };
  absl::StatusOr<std::optional<Recorded>> Operation(std::string_view id) const;
  /// The number of the last write; 0: there is none.
  absl::StatusOr<std::uint64_t> Last() const;

  /// Removes the writes up to `covered`, with zeros in their place, a few at a time, and
  /// gives what they took back to the file system.
  absl::Status Prune(std::uint64_t covered);
  /// Writes a copy as of now to a new file. Errors: those of files.
  absl::Status CopyTo(const std::string& path) const;
  /// Checks the pages of the database. Errors: DATA_LOSS.
  absl::Status CheckPages() const;
  std::uint64_t bytes() const;  ///< of its files

 private:
  class Statement;
  struct CloseStatement {
    void operator()(sqlite3_stmt* statement) const;
  };

  Journal() = default;
  absl::Status Execute(const char* sql) const;
  /// The number that a statement answers with; 0: nothing.
  absl::StatusOr<std::uint64_t> Ask(const char* sql) const;
  absl::Status Error(const char* what) const;
  /// Commits, or undoes the transaction after an error.
  absl::Status End(absl::Status status) const;
  absl::Status CheckMeta(const std::string& id) const;
  /// Operations that an earlier program remembered.
  absl::Status TakeOver() const;
  absl::Status Remember(const JournalEntry& entry, std::uint64_t seq) const;
  absl::Status InsertAll(std::uint64_t first, std::span<const JournalEntry* const> entries,
                         std::span<const AttributeField> fields) const;

  std::string path_;
  sqlite3* db_ = nullptr;
  mutable std::mutex mutex_;
};

}  // namespace hmann
