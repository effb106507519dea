#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/base/file.h"

namespace hmann {

/// Errors: INVALID_ARGUMENT if `path` ends in neither .ibin nor .gt nor .jsonl.
absl::Status CheckAnswerSuffix(const std::string& path);

/// Writes the answers to n queries, by suffix. `.ibin`: u32 n, u32 k, ids. `.gt`: the
/// same, with distances behind the ids. `.jsonl`: one object {"query", "ids",
/// "distances"} per line. The first two pad a query of fewer than k answers with id -1
/// and distance +Inf. The file appears whole or not at all. Move-only.
class AnswerWriter {
 public:
  using LabelNames = std::unordered_map<std::uint64_t, std::string>;

  /// `names`: of labels that .jsonl shows as strings. Errors: as CheckAnswerSuffix and
  /// AtomicFile.
  static absl::StatusOr<AnswerWriter> Create(const std::string& path, std::uint32_t n,
                                             std::uint32_t k, LabelNames names = {});

  /// Appends the answers to the next query, nearest first: at most k labels and as many
  /// distances. Errors: INVALID_ARGUMENT for a label that .ibin (31 bits) or .gt (32
  /// bits) cannot hold; .jsonl holds any.
  absl::Status Append(std::span<const std::uint64_t> labels, std::span<const float> distances);

  /// Requires n calls of Append.
  absl::Status Commit();

 private:
  enum class Format { kIds, kIdsAndDistances, kJsonLines };

  absl::Status AppendLine(std::span<const std::uint64_t> labels, std::span<const float> distances);

  std::string path_;
  AtomicFile file_;
  Format format_ = Format::kIds;
  std::uint32_t n_ = 0, k_ = 0, written_ = 0;
  LabelNames names_;
  std::vector<float> distances_;  ///< .gt: they come after all ids
};

}  // namespace hmann
