#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "index/base/buffer.h"

namespace hmann {

/// A set of labels in memory that tells of most labels that are not in it, so that a
/// search for these reads nothing. A Bloom filter in blocks of a cache line: ten bits a
/// label, of which a label sets seven in one block (Putze, Sanders, Singler 2007). It
/// holds about 1 % of other labels for its own. Immutable and thread-safe.
class LabelFilter {
 public:
  /// Reads the labels once, in order. Takes 1.25 bytes each. Errors: RESOURCE_EXHAUSTED.
  static absl::StatusOr<LabelFilter> Build(std::span<const std::uint64_t> labels);

  /// False: the label is none of them.
  bool MayHave(std::uint64_t label) const;
  std::uint64_t bytes() const { return words_.size(); }

 private:
  explicit LabelFilter(Buffer words) : words_(std::move(words)) {}

  Buffer words_;  ///< blocks of eight words
};

}  // namespace hmann
