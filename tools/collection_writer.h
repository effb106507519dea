/// Shared code of the commands that take a collection's folder.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/collection.h"

namespace hmann::tools {

/// Opens a collection. Errors: NOT_FOUND for a folder without one; those of
/// Collection::Open.
absl::StatusOr<std::shared_ptr<Collection>> OpenFolder(const std::string& folder,
                                                       const OpenCollection& options,
                                                       Progress& progress);

/// Labels as the user gives them. Digits are a number, all else is a string.
struct LabelList {
  std::vector<std::uint64_t> numbers;  ///< also those that strings stand for
  std::vector<std::string> names;      ///< [i] is empty: label i is a number

  VectorLabel At(std::size_t i) const {
    return names[i].empty() ? VectorLabel(numbers[i]) : VectorLabel(names[i]);
  }
};
/// Errors: INVALID_ARGUMENT for a number of 2^64 and more, naming `from`.
absl::StatusOr<LabelList> ParseLabels(std::vector<std::string> words, const std::string& from);
/// Reads n labels, all without n: those of a .txt file, one a line, or as ReadLabels.
absl::StatusOr<LabelList> ReadLabelList(const std::string& path,
                                        std::optional<std::uint64_t> n = {});
/// What a label is called in answers: its string, or the number.
using LabelNames = std::unordered_map<std::uint64_t, std::string>;
/// The strings of those labels that have one.
absl::StatusOr<LabelNames> NamesOf(const Collection& collection,
                                   const std::vector<std::uint64_t>& labels);

/// The options to search and to read.
inline OpenCollection ForReading(const OpenOptions& index = {}) {
  return {.index = index, .read_only = true};
}

/// Writes many changes in batches, each of which happens or does not. When the memory for
/// rows that are not in the sealed index is used up, it compacts the collection first.
class CollectionWriter {
 public:
  /// `from`: names the rows in errors, "base.u8bin: row", which count from `first`.
  /// `total`: of all changes.
  CollectionWriter(Collection& collection, std::string from, std::uint64_t first,
                   std::uint64_t total, std::size_t rows_a_write);

  /// The batch, with room for one more change of `bytes`: writes first what is collected
  /// if there is none. Errors: those of Flush.
  absl::StatusOr<WriteBatch*> Room(std::size_t bytes);
  /// Writes what is collected. Errors: those of Collection::Write and Compact, with the
  /// rows that they refer to and how many are in; CANCELLED after Ctrl-C.
  absl::Status Flush();

  std::uint64_t rows() const { return rows_; }  ///< sum of Written::rows
  std::uint64_t done() const { return done_; }  ///< changes that are in

 private:
  absl::StatusOr<Written> Write();

  Collection& collection_;
  const std::string from_;
  const std::uint64_t first_, total_;
  const std::size_t rows_a_write_;
  const std::atomic<bool>& interrupted_;
  Progress progress_;
  WriteBatch batch_;
  std::size_t bytes_ = 0;  ///< of the batch
  std::uint64_t done_ = 0, rows_ = 0;
};

}  // namespace hmann::tools
