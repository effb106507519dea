#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "index/search/graph_traversal.h"
#include "index/search/traversal.h"

namespace hmann {

/// The search of one thread in Algorithm 3 (section 11.d of doc/paper.md). The candidates
/// of L1 are EP. V_t (the visited set) and W_t (the beam) open with all of EP, C_t (the
/// unexpanded entries of the beam) with this thread's part of EP.
class MultiStartTraversal : public GraphTraversal {
 public:
  /// `ep`: the size of EP, the nearest of start.scratch.beam. Search `part` of `parts`
  /// begins with every `parts`th of them. Keeps its own counters.
  void Open(const TraversalStart& start, std::uint32_t ep, std::uint32_t part,
            std::uint32_t parts) {
    const Beam& found = start.scratch.beam;
    matches_ = start.params.matches;
    counters_.Clear(start.counters.lists_reads);
    results_.Open(matches_, start.kept);
    scratch_.visited.Exclude(start.scratch.visited.excluded());
    scratch_.visited.Clear();
    scratch_.beam.Reset(std::max({ep, start.params.ef_l0, start.kept}));
    for (std::uint32_t i = 0; i < ep; ++i) {
      scratch_.visited.Insert(found.id(i));
      scratch_.beam.Insert(found.key(i), found.id(i));
      if (matches_ != nullptr) results_.Offer(found.key(i), found.id(i));
    }
    scratch_.beam.Deal(part, parts);
    // Its last step may compute as many distances as a node has links.
    ResolvedParams params = start.params;
    params.most_distances -=
        std::min<std::uint64_t>(params.most_distances, start.index.records.max_links);
    OpenFound({start.index, start.query, params, scratch_, counters_},
              matches_ != nullptr ? &results_ : nullptr, {}, 1);
  }

  const Beam& results() const { return matches_ != nullptr ? results_.beam : scratch_.beam; }
  const TraversalCounters& counters() const { return counters_; }

 private:
  const Matches* matches_ = nullptr;
  LayerScratch scratch_;
  Results results_;  ///< with a predicate
  TraversalCounters counters_;
};

/// `--mode multi-start`: Algorithm 3, as min(Thr, |EP|) searches that share nothing, so
/// that answers depend on Thr but not on timing. As a traversal it is the first of them.
/// If there are more, each is advanced separately.
class MultiStartSearch {
 public:
  static constexpr bool kLeavesBeam = false;

  void Open(const TraversalStart& start) {
    const std::uint32_t ep = std::min(start.params.ef_l1, start.scratch.beam.size());
    open_ = std::max(1u, std::min(start.params.query_threads, ep));
    if (parts_.size() < open_) parts_.resize(open_);
    for (std::uint32_t i = 0; i < open_; ++i) parts_[i].Open(start, ep, i, open_);
  }

  std::span<MultiStartTraversal> Parts() { return std::span(parts_).first(open_); }
  bool Done() const { return parts_[0].Done(); }
  bool GaveUp() {
    return std::ranges::any_of(Parts(), [](const auto& part) { return part.GaveUp(); });
  }
  std::span<const NodeId> Wanted() const { return parts_[0].Wanted(); }
  RecordPart Part() const { return parts_[0].Part(); }
  template <typename Hint>
  void ForUpcoming(std::uint32_t most, const Hint& hint) const {
    parts_[0].ForUpcoming(most, hint);
  }
  void Absorb(std::span<const std::byte* const> records) { parts_[0].Absorb(records); }

  /// Calls add(beam) with what each search has found.
  template <typename Add>
  void ForResults(const Add& add) {
    for (const MultiStartTraversal& part : Parts()) add(part.results());
  }
  void Finish(TraversalCounters& counters) {
    const TraversalCounters* longest = &parts_[0].counters();
    for (const MultiStartTraversal& part : Parts()) {
      counters.total += part.counters().total;
      counters.Read(part.counters().read);
      if (part.counters().Scored() > longest->Scored()) longest = &part.counters();
    }
    counters.total.longest_distances += longest->Scored();
    counters.total.longest_accesses += longest->total.node_accesses;
  }

 private:
  std::vector<MultiStartTraversal> parts_;
  std::uint32_t open_ = 0;
};

}  // namespace hmann
