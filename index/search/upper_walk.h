#pragma once

#include <algorithm>
#include <span>

#include "index/graph/stepwise_search.h"
#include "index/search/epsilon.h"
#include "index/search/walk.h"

namespace hmann {

/// Algorithm 2 down to L1, a step at a time: scratch.beam then holds what L1 found, the
/// nearest ef_l1 of it being W. It wants no record of slow memory; each step begins the
/// way to the CPU of what the next one reads.
class UpperWalk {
 public:
  /// Requires n1 > 0.
  void Open(const WalkStart& start) {
    index_ = &start.index;
    query_ = start.query;
    dials_ = &start.dials;
    scratch_ = &start.scratch;
    counters_ = &start.counters.total;
    results_ = start.results;
    done_ = false;
    OpenLayer(index_->layers.top(), 0);
  }

  bool Done() const { return done_; }
  std::span<const NodeId> Wanted() const { return {}; }
  RecordPart Part() const { return RecordPart::kLinks; }
  template <typename Hint>
  void ForUpcoming(std::uint32_t, const Hint&) const {}

  /// Whether scratch.beam holds what L1 has found so far.
  bool InL1() const { return done_ || !search_.is_greedy(); }
  /// The last step has changed what L1 found, and L0 will be searched from there.
  bool HasNewCandidates() const { return stepped_ && dials_->walk != WalkKind::kUpper; }

  void Absorb(std::span<const std::byte* const>) {
    const bool in_l1 = !search_.is_greedy();
    Observer observer = Watch(in_l1);
    const DistanceKey limit =
        in_l1 ? limit_.Limit(index_->kernels, scratch_->beam) : ~DistanceKey{0};
    const bool over = search_.Step(index_->upper[layer_ - 1], query_, *scratch_, observer, limit);
    stepped_ = observer.stepped;
    if (!over) return;
    if (search_.is_greedy()) return OpenLayer(layer_ - 1, search_.nearest());
    done_ = true;
  }

 private:
  /// Candidates of L1 that are kept for a walk which `epsilon` ends.
  static constexpr std::uint32_t kKeptWithEpsilon = 64;

  /// Counts the work of a step.
  struct Observer {
    std::uint64_t& distances;
    Counters& total;
    Results* results;  ///< of L1's nodes; nullptr: nobody wants them
    bool in_l1;
    bool stepped = false;

    void Distances(std::size_t n) { distances += n; }
    void Expanded() { total.expanded_l1 += in_l1 ? 1 : 0; }
    void Scored(const RowBatch& batch) {
      if (results != nullptr) results->Offer(batch);
    }
    void Stepped(const Beam&) { stepped = in_l1; }
  };

  Observer Watch(bool in_l1) {
    const bool codes = index_->quantiser != nullptr;
    return {codes ? counters_->estimates : counters_->distances_fast, *counters_, results_, in_l1};
  }

  void OpenLayer(std::uint32_t layer, NodeId entry) {
    layer_ = layer;
    stepped_ = false;
    const LayerView& view = index_->upper[layer - 1];
    Observer observer = Watch(false);
    if (layer >= 2) return search_.OpenGreedy(view, query_, entry, *scratch_, observer);
    // These keep what L1 scored beyond its efSearchL1 candidates: it spares L0 the
    // distances. Where `epsilon` ends the walk, efSearchL0 is for the hardest queries
    // alone, and a beam of that width would cost every query a tenth of its time.
    std::uint32_t width = dials_->ef_l1;
    if (dials_->walk == WalkKind::kBestFirst || dials_->walk == WalkKind::kQuantised) {
      width = std::max(width, dials_->epsilon.has_value()
                                  ? std::min(dials_->ef_l0, std::max(kKeptWithEpsilon, dials_->k))
                                  : dials_->ef_l0);
    }
    if (dials_->walk == WalkKind::kQuantised) width = std::max({width, dials_->k, dials_->nprobe});
    // What is neither of L1's own candidates nor within epsilon of the kth is of no use
    // to a pool. A quantised walk takes from it the distances of centroids.
    limit_ = dials_->walk == WalkKind::kBestFirst && results_ == nullptr
                 ? EpsilonLimit{dials_->epsilon, std::max(dials_->k, dials_->ef_l1)}
                 : EpsilonLimit{};
    search_.OpenBeam(view, query_, entry, width, dials_->ef_l1, *scratch_, observer);
    if (results_ != nullptr) results_->Offer(scratch_->beam.key(0), entry);
  }

  const PlacedIndex* index_ = nullptr;
  const std::byte* query_ = nullptr;
  const Dials* dials_ = nullptr;
  LayerScratch* scratch_ = nullptr;
  Counters* counters_ = nullptr;
  Results* results_ = nullptr;
  StepwiseSearch search_;
  EpsilonLimit limit_;
  std::uint32_t layer_ = 0;
  bool done_ = true, stepped_ = false;
};

}  // namespace hmann
