#pragma once

#include <cstddef>
#include <cstdint>

#include "index/base/prefetch.h"
#include "index/graph/layer_search.h"
#include "index/graph/types.h"

namespace hmann {

/// The search of one layer in half steps, greedy or with a beam. Each half step
/// prefetches what the next one reads, so that a thread that advances several searches in
/// turn waits for none of them.
///
///   search.OpenBeam(layer, query, entry, width, width, scratch, counters);
///   while (!search.Step(layer, query, scratch, counters)) { ... }
class StepwiseSearch {
 public:
  /// A greedy descent; its result is nearest().
  template <typename Counters>
  void OpenGreedy(const LayerView& layer, const std::byte* query, NodeId entry,
                  LayerScratch& scratch, Counters& counters) {
    greedy_.Open(layer, query, entry, scratch, counters);
    PrefetchLinks(layer, entry);
    stage_ = Stage::kDescend;
  }

  /// A graph search from one node with a beam of `width`. It ends when none of the
  /// nearest `window` is unexpanded. The result is in scratch.beam.
  template <typename Counters>
  void OpenBeam(const LayerView& layer, const std::byte* query, NodeId entry, std::uint32_t width,
                std::uint32_t window, LayerScratch& scratch, Counters& counters) {
    PrefetchLinks(layer, entry);
    hmann::OpenBeam(layer, query, entry, width, scratch, counters);
    OpenFound(layer, window, scratch);
  }

  /// A graph search from the candidates that scratch.beam holds unexpanded; they must be
  /// in scratch.visited.
  void OpenFound(const LayerView& layer, std::uint32_t window, LayerScratch& scratch) {
    scratch.batch.Reserve(layer.max_degree);
    window_ = window;
    stage_ = Stage::kGather;
  }

  bool is_greedy() const { return stage_ == Stage::kDescend || stage_ == Stage::kScoreDescent; }
  NodeId nearest() const { return greedy_.nearest(); }

  /// Returns whether the search of this layer is over. The beam keeps no key above
  /// `limit`.
  template <typename Counters>
  bool Step(const LayerView& layer, const std::byte* query, LayerScratch& scratch,
            Counters& counters, DistanceKey limit = ~DistanceKey{0}) {
    switch (stage_) {
      case Stage::kDescend:
        greedy_.Gather(layer, scratch);
        stage_ = Stage::kScoreDescent;
        return false;
      case Stage::kScoreDescent:
        if (!greedy_.Score(layer, query, scratch, counters)) return true;
        PrefetchLinks(layer, greedy_.nearest());
        stage_ = Stage::kDescend;
        return false;
      case Stage::kGather:
        GatherNeighbors(layer, scratch);
        // The runner-up is expanded next unless a neighbor beats it.
        PrefetchNextLinks(layer, scratch.beam, window_);
        stage_ = Stage::kScore;
        return false;
      case Stage::kScore:
        ScoreNeighbors(layer, query, scratch, counters, limit);
        PrefetchNextLinks(layer, scratch.beam, window_);
        stage_ = Stage::kGather;
        return !scratch.beam.HasNext(window_);
    }
    return true;
  }

 private:
  enum class Stage { kDescend, kScoreDescent, kGather, kScore };

  static void PrefetchLinks(const LayerView& layer, NodeId node) {
    PrefetchLines(layer.Links(node), layer.max_degree * sizeof(NodeId));
  }

  GreedyTraversal greedy_;
  std::uint32_t window_ = 0;
  Stage stage_ = Stage::kDescend;
};

}  // namespace hmann
