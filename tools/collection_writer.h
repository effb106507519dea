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

}  // namespace hmann::tools
