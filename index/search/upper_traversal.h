#pragma once

#include <algorithm>
#include <span>

#include "index/graph/stepwise_search.h"
#include "index/search/epsilon.h"
#include "index/search/traversal.h"

namespace hmann {

/// Algorithm 2 down to L1, a step at a time. In the end scratch.beam holds what L1 found,
/// and its nearest ef_l1 are W. It wants no record of slow memory. Each step prefetches
/// what the next one reads.
class UpperTraversal {
 public:
  /// Requires n1 > 0.
  void Open(const TraversalStart& start) {
    index_ = &start.index;
    query_ = start.query;
    params_ = &start.params;
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
  /// The last step has changed the candidates of L1, and L0 will be searched from there.
  bool HasNewCandidates() const { return stepped_ && params_->mode != SearchMode::kUpper; }

  void Absorb(std::span<const std::byte* const>) {
    const bool in_l1 = !search_.is_greedy();
    Observer observer = Watch(in_l1);
    const DistanceKey limit =
        in_l1 ? limit_.Kept(index_->kernels, scratch_->beam, scratch_->beam) : ~DistanceKey{0};
    const bool over = search_.Step(index_->upper[layer_ - 1], query_, *scratch_, observer, limit);
    stepped_ = observer.stepped;
    if (!over) return;
    if (search_.is_greedy()) return OpenLayer(layer_ - 1, search_.nearest());
    done_ = true;
  }

 private:
  /// Candidates of L1 that are kept for a traversal that `epsilon` ends.
  static constexpr std::uint32_t kKeptWithEpsilon = 64;

  /// Counts the work of a step.
  struct Observer {
    std::uint64_t& distances;
    Counters& total;
    Results* results;  ///< receives L1's nodes; nullptr: not needed
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
    const bool codes = index_->quantizer != nullptr;
    return {codes ? counters_->estimates : counters_->distances_fast, *counters_, results_, in_l1};
  }

  void OpenLayer(std::uint32_t layer, NodeId entry) {
    layer_ = layer;
    stepped_ = false;
    const LayerView& view = index_->upper[layer - 1];
    Observer observer = Watch(false);
    if (layer >= 2) return search_.OpenGreedy(view, query_, entry, *scratch_, observer);
    // These modes keep what L1 scored beyond its efSearchL1 candidates, which saves L0
    // the distances. If `epsilon` ends the traversal, efSearchL0 is only for the hardest
    // queries, and a beam of that width would cost every query a tenth of its time.
    std::uint32_t width = params_->ef_l1;
    if (params_->mode == SearchMode::kGraph || params_->mode == SearchMode::kQuantized) {
      width = std::max(width, params_->epsilon.has_value()
                                  ? std::min(params_->ef_l0, std::max(kKeptWithEpsilon, params_->k))
                                  : params_->ef_l0);
    }
    if (params_->mode == SearchMode::kQuantized)
      width = std::max({width, params_->k, CellEffort::MostCells(*params_)});
    // The pool has no use for candidates that are neither L1's own nor within epsilon of
    // the kth. A quantized traversal takes the distances of centroids from them.
    limit_ =
        params_->mode == SearchMode::kGraph && results_ == nullptr
            ? EpsilonLimit{*params_, std::max(params_->k, params_->ef_l1), index_->DistanceUnit()}
            : EpsilonLimit{};
    search_.OpenBeam(view, query_, entry, width, params_->ef_l1, *scratch_, observer);
    if (results_ != nullptr) results_->Offer(scratch_->beam.key(0), entry);
  }

  const PlacedIndex* index_ = nullptr;
  const std::byte* query_ = nullptr;
  const ResolvedParams* params_ = nullptr;
  LayerScratch* scratch_ = nullptr;
  Counters* counters_ = nullptr;
  Results* results_ = nullptr;
  StepwiseSearch search_;
  EpsilonLimit limit_;
  std::uint32_t layer_ = 0;
  bool done_ = true, stepped_ = false;
};

}  // namespace hmann
