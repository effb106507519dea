#pragma once

#include <algorithm>

#include "index/base/status_macros.h"
#include "index/dials/dials.h"
#include "index/graph/layer_search.h"
#include "index/graph/stepwise_search.h"
#include "index/search/drivers.h"
#include "index/search/placed_index.h"
#include "index/search/reach.h"

namespace hmann {

/// Counts the work of the upper layers into a walk's counters, and tells `ahead` (Stepped(beam, window)) of each step in L1.
template <typename Ahead>
struct UpperObserver {
  WalkCounters& counters;
  Ahead* ahead = nullptr;    ///< of L1 only
  std::uint32_t window = 0;  ///< the same

  void Distances(std::size_t n) { counters.total.distances_fast += n; }
  void Expanded() { counters.total.expanded_l1 += window > 0 ? 1 : 0; }
  void Stepped(const Beam& beam) {
    if constexpr (Ahead::kManaged) {
      if (ahead != nullptr) ahead->Stepped(beam, window);
    }
  }
};

/// Algorithm 2 down to L1, a step at a time: scratch.beam then holds what L1 found, the nearest ef_l1 of it being W. Each step begins the
/// way to the CPU of what the next one reads.
template <typename Ahead>
class UpperWalk {
 public:
  /// Requires n1 > 0; all are kept until Done.
  void Open(const PlacedIndex& index, const std::byte* query, const Dials& dials, LayerScratch& scratch, WalkCounters& counters,
            Ahead& ahead) {
    index_ = &index;
    query_ = query;
    dials_ = &dials;
    scratch_ = &scratch;
    counters_ = &counters;
    ahead_ = dials.ef_l0 > 0 ? &ahead : nullptr;
    done_ = false;
    OpenLayer(index.layers.top(), 0);
  }

  bool Done() const { return done_; }
  /// Whether scratch.beam holds what L1 has found so far.
  bool InL1() const { return !done_ && !search_.is_greedy(); }

  void Step() {
    UpperObserver<Ahead> observer{*counters_};
    DistanceKey limit = ~DistanceKey{0};
    if (!search_.is_greedy()) {
      observer.ahead = ahead_;
      observer.window = dials_->ef_l1;
      limit = reach_.Limit(index_->kernels, scratch_->beam);
    }
    if (!search_.Step(index_->upper[layer_ - 1], query_, *scratch_, observer, limit)) return;
    if (search_.is_greedy()) return OpenLayer(layer_ - 1, search_.nearest());
    done_ = true;
  }

 private:
  /// Candidates of L1 that are kept for a walk which `reach` ends.
  static constexpr std::uint32_t kKeptWithReach = 64;

  void OpenLayer(std::uint32_t layer, NodeId entry) {
    layer_ = layer;
    const LayerView& view = index_->upper[layer - 1];
    UpperObserver<Ahead> observer{*counters_};
    if (layer >= 2) return search_.OpenGreedy(view, query_, entry, *scratch_, observer);
    // A pool keeps what L1 scored beyond its efSearchL1 candidates: it spares L0 the distances. Where `reach` ends the walk, efSearchL0 is
    // for the hardest queries alone, and a beam of that width would cost every query a tenth of its time.
    std::uint32_t width = dials_->ef_l1;
    if (dials_->walk != WalkKind::kBeams) {
      width = std::max(width, dials_->reach.has_value() ? std::min(dials_->ef_l0, std::max(kKeptWithReach, dials_->k)) : dials_->ef_l0);
    }
    if (dials_->walk == WalkKind::kGated) width = std::max({width, dials_->k, dials_->cells});
    // What is neither of L1's own candidates nor in reach of the kth is of no use to a pool. A gated walk takes from it the distances of
    // hubs.
    reach_ = dials_->walk == WalkKind::kPool ? Reach{dials_->reach, std::max(dials_->k, dials_->ef_l1)} : Reach{};
    search_.OpenBeam(view, query_, entry, width, dials_->ef_l1, *scratch_, observer);
  }

  const PlacedIndex* index_ = nullptr;
  const std::byte* query_ = nullptr;
  const Dials* dials_ = nullptr;
  LayerScratch* scratch_ = nullptr;
  WalkCounters* counters_ = nullptr;
  Ahead* ahead_ = nullptr;
  StepwiseSearch search_;
  Reach reach_;
  std::uint32_t layer_ = 0;
  bool done_ = true;
};

/// The whole of it, or what L1 has found when the budget is spent. Errors: those of `stop`.
template <typename Ahead>
absl::Status SearchUpperLayers(const PlacedIndex& index, const std::byte* query, const Dials& dials, LayerScratch& scratch,
                               WalkCounters& counters, Ahead& ahead, StopCheck& stop) {
  UpperWalk<Ahead> walk;
  walk.Open(index, query, dials, scratch, counters, ahead);
  while (!walk.Done()) {
    walk.Step();
    HMANN_RETURN_IF_ERROR(stop.Step());
    if (stop.spent() && walk.InL1()) break;
  }
  return absl::OkStatus();
}

}  // namespace hmann
