#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "hmann/client.h"
#include "hmann/collection.h"

namespace hmann::tools {

/// What the commands that write to a collection name.
struct TargetFlags {
  std::string name;    ///< a folder; with `server` a name that it serves
  std::string server;  ///< empty: a folder
  client::ConnectOptions connect;
};
void AddTargetFlags(CLI::App& app, TargetFlags* flags);

/// A collection that commands write to: in a folder, or of a server.
class WriteTarget {
 public:
  /// Errors: those of OpenFolder; of the client; FAILED_PRECONDITION for an index.
  static absl::StatusOr<std::unique_ptr<WriteTarget>> Open(const TargetFlags& flags);
  virtual ~WriteTarget() = default;

  struct Facts {
    DType dtype = DType::kF32;
    std::uint32_t dim = 0;
    std::uint64_t sequence = 0, live = 0;
    std::uint64_t changed = 0;  ///< rows that differ from the sealed index
    /// Of one write.
    std::uint64_t most_rows = WriteBatch::kMostRows, most_bytes = WriteBatch::kMostBytes;
  };
  virtual absl::StatusOr<Facts> facts() = 0;
  virtual absl::StatusOr<Written> Write(const WriteBatch& batch) = 0;
  /// After a write for which there was no memory: makes room, or waits for it.
  virtual absl::Status MakeRoom(const std::atomic<bool>& interrupted) = 0;
  virtual int most_tries() const = 0;  ///< of that, for one write
  /// `filter`: empty: none. Errors: FAILED_PRECONDITION or INVALID_ARGUMENT for a filter
  /// that holds for all, without `all`.
  virtual absl::StatusOr<Written> DeleteMatching(const std::string& filter, bool all) = 0;
};

/// Writes many changes in batches, each of which happens or does not. When the memory for
/// rows that are not in the sealed index is used up, it compacts the collection first, or
/// waits until the server has.
class CollectionWriter {
 public:
  /// `from`: names the rows in errors, "base.u8bin: row", which count from `first`.
  /// `total`: of all changes.
  CollectionWriter(WriteTarget& target, const WriteTarget::Facts& facts, std::string from,
                   std::uint64_t first, std::uint64_t total, std::size_t rows_a_write);

  /// The batch, with room for one more change of `bytes`: writes first what is collected
  /// if there is none. Errors: those of Flush.
  absl::StatusOr<WriteBatch*> Room(std::size_t bytes);
  /// Writes what is collected. Errors: those of WriteTarget::Write and MakeRoom, with the
  /// rows that they refer to and how many are in; CANCELLED after Ctrl-C.
  absl::Status Flush();

  std::uint64_t rows() const { return rows_; }  ///< sum of Written::rows
  std::uint64_t done() const { return done_; }  ///< changes that are in

 private:
  absl::StatusOr<Written> Write();

  WriteTarget& target_;
  const std::string from_;
  const std::uint64_t first_, total_;
  const std::size_t rows_a_write_, most_bytes_;
  const std::atomic<bool>& interrupted_;
  Progress progress_;
  WriteBatch batch_;
  std::size_t bytes_ = 0;  ///< of the batch
  std::uint64_t done_ = 0, rows_ = 0;
};

}  // namespace hmann::tools
