#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "index/dials/answer.h"
#include "index/graph/beam.h"
#include "index/search/placed_index.h"
#include "index/search/walk.h"

namespace hmann {

/// Turns ids into an answer. Labels of unpromoted nodes lie in their records, mostly on a cache line that was not read yet: many are asked
/// for together.
class LabelWalk {
 public:
  /// The answer is complete once Done.
  void Open(const PlacedIndex& index, const Beam& found, std::uint32_t k, std::vector<Neighbour>& answer) {
    index_ = &index;
    answer_ = &answer;
    answer.resize(std::min(k, found.size()));
    ids_.clear();
    places_.clear();
    read_ = 0;
    for (std::uint32_t i = 0; i < answer.size(); ++i) {
      const NodeId id = found.id(i);
      answer[i] = {id < index.n1() ? index.FastLabel(id) : 0, index.kernels.ToDistance(found.key(i))};
      if (id < index.n1()) continue;
      ids_.push_back(id);
      places_.push_back(i);
    }
  }

  bool Done() const { return read_ == ids_.size(); }
  std::span<const NodeId> Wanted() const {
    return std::span(ids_).subspan(read_, std::min<std::size_t>(ids_.size() - read_, index_->records.max_links));
  }
  RecordPart Part() const { return RecordPart::kLabel; }
  template <typename Hint>
  void ForUpcoming(std::uint32_t, const Hint&) const {}

  void Absorb(std::span<const std::byte* const> records) {
    for (const std::byte* record : records) (*answer_)[places_[read_++]].label = index_->SlowLabel(record);
  }

 private:
  const PlacedIndex* index_ = nullptr;
  std::vector<Neighbour>* answer_ = nullptr;
  std::vector<NodeId> ids_;
  std::vector<std::uint32_t> places_;  ///< of ids_ in the answer
  std::size_t read_ = 0;               ///< of ids_
};

}  // namespace hmann
