#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datasets/ground_truth.h"
#include "index/base/file.h"

namespace hmann {

/// Errors: INVALID_ARGUMENT if `path` ends in neither .ibin nor .gt nor .jsonl.
absl::Status CheckAnswerSuffix(const std::string& path);

/// Writes the answers to n queries, by suffix. `.ibin` and `.gt`: as WriteGroundTruth,
/// which pads a query of fewer than k answers with id -1 and distance +Inf. `.jsonl`: one
/// object {"query", "ids", "distances"} per line. The file appears whole or not at all.
/// Move-only.
class AnswerWriter {
 public:
  using LabelNames = std::unordered_map<std::uint64_t, std::string>;

  /// `names`: of labels that .jsonl shows as strings. Errors: as CheckAnswerSuffix and
  /// AtomicFile.
  static absl::StatusOr<AnswerWriter> Create(const std::string& path, std::uint32_t n,
                                             std::uint32_t k, LabelNames names = {});

  /// Appends the answers to the next query, nearest first: at most k labels and as many
  /// distances.
  absl::Status Append(std::span<const std::uint64_t> labels, std::span<const float> distances);

  /// Requires n calls of Append. Errors: as AtomicFile; INVALID_ARGUMENT for a label of
  /// more than 31 bits in .ibin.
  absl::Status Commit();

 private:
  absl::Status AppendLine(std::span<const std::uint64_t> labels, std::span<const float> distances);

  std::string path_;
  AtomicFile file_;  ///< of .jsonl
  bool lines_ = false;
  std::uint32_t written_ = 0;
  LabelNames names_;
  GroundTruth answers_;  ///< of the other formats
};

}  // namespace hmann
