#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "index/dials/dials.h"
#include "index/graph/layer_search.h"
#include "index/search/best_first_walk.h"
#include "index/search/placed_index.h"
#include "index/search/walk.h"

namespace hmann {

/// Beams that are walked together: eight with up to 2M rows each fill the line-fill buffers many times over.
constexpr std::size_t kBeamsAtOnce = 8;

/// Algorithm 3 in the reading of section 11.d, or one query thread's part of it: a best-first search of width efSearchL0 from each candidate
/// of L1, kBeamsAtOnce of them in step. Each beam has a visited set of its own, so that no answer depends on how the candidates are divided
/// among threads. A result list receives all that the beams score: they crowd around the same few nearest nodes, so that the union of their
/// efSearchL0 best would be far fewer than k.
class MultiStartWalk {
 public:
  /// Opens with candidates [first, last) of `w`, which stays as it is until Done.
  void Open(const PlacedIndex& index, const std::byte* query, const Dials& dials, const Beam& w, std::uint32_t first, std::uint32_t last,
            bool lists_reads) {
    index_ = &index;
    query_ = query;
    ef_l0_ = dials.ef_l0;
    w_ = &w;
    next_ = first;
    last_ = last;
    counters_.Clear(lists_reads);
    results_.Reset(dials.k);
    open_ = 0;
    for (Lane& lane : lanes_) {
      if (!OpenNext(lane)) break;
      order_[open_++] = &lane;
    }
    Gather();
  }

  bool Done() const { return open_ == 0; }
  std::span<const NodeId> Wanted() const { return wanted_; }
  /// All beams began in step, so that all are at links or all at vectors.
  RecordPart Part() const { return order_[0]->walk.Part(); }
  template <typename Hint>
  void ForUpcoming(std::uint32_t most, const Hint& hint) const {
    for (std::size_t i = 0; i < open_; ++i) order_[i]->walk.ForUpcoming(most, hint);
  }

  void Absorb(std::span<const std::byte* const> records) {
    std::size_t at = 0, kept = 0;
    for (std::size_t i = 0; i < open_; ++i) {
      Lane& lane = *order_[i];
      const std::size_t count = lane.walk.Wanted().size();
      lane.walk.Absorb(records.subspan(at, count));
      at += count;
      if (!lane.walk.Done() || OpenNext(lane)) order_[kept++] = &lane;
    }
    open_ = kept;
    Gather();
  }

  /// Calls add(beam) with the nearest of what was scored so far, and with the candidates that no beam has begun with.
  template <typename Add>
  void ForResults(const Add& add) {
    add(results_);
    if (next_ == last_) return;
    unopened_.Reset(last_ - next_);
    for (std::uint32_t i = next_; i < last_; ++i) unopened_.InsertUnique(w_->key(i), w_->id(i));
    add(unopened_);
  }
  const WalkCounters& counters() const { return counters_; }

 private:
  struct Lane {
    LayerScratch scratch;
    BestFirstWalk walk;
  };

  /// False: there is no candidate left.
  bool OpenNext(Lane& lane) {
    if (next_ == last_) return false;
    const NodeId candidate = w_->id(next_);
    const DistanceKey key = w_->key(next_++);
    lane.scratch.beam.Reset(ef_l0_);
    lane.scratch.visited.Clear();
    lane.scratch.visited.Insert(candidate);
    lane.scratch.beam.Insert(key, candidate);
    results_.InsertUnique(key, candidate);
    lane.walk.Open(*index_, query_, lane.scratch, counters_, &results_);
    return true;
  }

  void Gather() {
    wanted_.clear();
    for (std::size_t i = 0; i < open_; ++i) {
      const std::span<const NodeId> wanted = order_[i]->walk.Wanted();
      wanted_.insert(wanted_.end(), wanted.begin(), wanted.end());
    }
  }

  const PlacedIndex* index_ = nullptr;
  const std::byte* query_ = nullptr;
  const Beam* w_ = nullptr;
  std::uint32_t ef_l0_ = 0, next_ = 0, last_ = 0;
  std::array<Lane, kBeamsAtOnce> lanes_;
  std::array<Lane*, kBeamsAtOnce> order_{};  ///< the first open_ are at work
  std::size_t open_ = 0;
  std::vector<NodeId> wanted_;  ///< by all of them, one after the other
  Beam results_, unopened_;
  WalkCounters counters_;
};

}  // namespace hmann
