#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "hmann/attributes.h"
#include "hmann/progress.h"
#include "index/attributes/rows.h"

namespace hmann {

/// The internal ids of an index by label.
class LabelIds {
 public:
  /// `n`: vectors; `own_labels`: labels are the user's, otherwise row numbers.
  LabelIds(std::uint64_t n, bool own_labels) : own_labels_(own_labels) {
    own_labels ? by_label_.reserve(n) : id_of_.resize(n);
  }
  static std::uint64_t BytesOf(std::uint64_t n, bool own_labels) {
    return n * (own_labels ? sizeof(Entry) : sizeof(std::uint32_t));
  }
  void Add(std::uint64_t label, std::uint32_t id) {
    if (own_labels_)
      by_label_.emplace_back(label, id);
    else
      id_of_[label] = id;
  }
  /// Call when all are added.
  void Sort() { std::sort(by_label_.begin(), by_label_.end()); }

  bool own_labels() const { return own_labels_; }
  /// Calls `take` with each id of a label; returns whether there is one.
  template <typename Take>
  bool ForEach(std::uint64_t label, const Take& take) const {
    if (!own_labels_) {
      if (label < id_of_.size()) take(id_of_[label]);
      return label < id_of_.size();
    }
    auto at = std::lower_bound(by_label_.begin(), by_label_.end(), Entry{label, 0});
    const bool found = at != by_label_.end() && at->first == label;
    for (; at != by_label_.end() && at->first == label; ++at) take(at->second);
    return found;
  }

 private:
  using Entry = std::pair<std::uint64_t, std::uint32_t>;
  bool own_labels_;
  std::vector<std::uint32_t> id_of_;  ///< [label]
  std::vector<Entry> by_label_;
};

struct AttrsTarget {
  std::string out;  ///< empty: the rows are checked, and nothing is written
  std::uint64_t n = 0, content_hash = 0;
  /// Bytes for what a pass over the rows collects. If they do not suffice for all fields,
  /// the rows are read several times.
  std::uint64_t memory = 0;
  const std::atomic<bool>* cancel = nullptr;  ///< set: stop soon
};

/// Writes the attributes of an index to `out`, whole or not at all. Every vector needs
/// exactly one row. Errors: INVALID_ARGUMENT naming the row: a label that no vector has,
/// a label twice, a vector without a row; RESOURCE_EXHAUSTED; those of files; CANCELLED.
absl::Status WriteAttributes(const AttributeRows& rows, const LabelIds& ids,
                             const AttrsTarget& target, Progress& progress);

}  // namespace hmann
