#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "index/search/graph_traversal.h"
#include "index/search/traversal.h"

namespace hmann {

/// Beams that advance together: eight with up to 2M rows each fill the line-fill buffers
/// many times over.
constexpr std::size_t kBeamsAtOnce = 8;

/// Algorithm 3 as section 11.d of doc/paper.md reads it, or one query thread's part of
/// it. It runs a graph search of width efSearchL0 from each candidate of L1, kBeamsAtOnce
/// of them in step. Each beam has its own visited set, so that no answer depends on how
/// candidates are divided among threads. A result list receives everything that the beams
/// score and that may be an answer. The beams crowd around the same few nearest nodes, so
/// the union of their efSearchL0 best would be far fewer than k.
class MultiStartTraversal {
 public:
  /// Opens with candidates [first, last) of start.scratch.beam. Keeps its own counters.
  void Open(const TraversalStart& start, std::uint32_t first, std::uint32_t last) {
    index_ = &start.index;
    query_ = start.query;
    params_ = &start.params;
    w_ = &start.scratch.beam;
    next_ = first;
    last_ = last;
    counters_.Clear(start.counters.lists_reads);
    results_.Open(params_->matches, start.kept);
    open_ = 0;
    gave_up_ = false;
    const std::uint64_t most = params_->most_distances / std::max(1u, start.parts),
                        a_step = index_->records.max_links;
    most_before_ = most - std::min(most, a_step);
    const std::size_t in_step = start.in_step == 0 ? kBeamsAtOnce : start.in_step;
    for (std::size_t i = 0; i < in_step && OpenNext(searches_[i]); ++i)
      order_[open_++] = &searches_[i];
    Gather();
  }

  bool Done() const { return open_ == 0; }
  /// See GraphTraversal.
  bool GaveUp() const { return gave_up_; }
  std::span<const NodeId> Wanted() const { return wanted_; }
  /// All beams began in step, so that all are at links or all at vectors.
  RecordPart Part() const { return order_[0]->traversal.Part(); }
  template <typename Hint>
  void ForUpcoming(std::uint32_t most, const Hint& hint) const {
    for (std::size_t i = 0; i < open_; ++i) order_[i]->traversal.ForUpcoming(most, hint);
  }

  void Absorb(std::span<const std::byte* const> records) {
    std::size_t at = 0, kept = 0;
    for (std::size_t i = 0; i < open_ && !IsSpent(); ++i) {
      BeamSearch& search = *order_[i];
      const std::size_t count = search.traversal.Wanted().size();
      search.traversal.Absorb(records.subspan(at, count));
      at += count;
      if (!search.traversal.Done() || OpenNext(search)) order_[kept++] = &search;
    }
    open_ = gave_up_ ? 0 : kept;
    Gather();
  }

  /// Calls add(beam) with the nearest nodes scored so far, and with the candidates from
  /// which no beam has started.
  template <typename Add>
  void ForResults(const Add& add) {
    add(results_.beam);
    if (next_ == last_) return;
    unopened_.Reset(last_ - next_);
    for (std::uint32_t i = next_; i < last_; ++i) unopened_.InsertUnique(w_->key(i), w_->id(i));
    add(unopened_);
  }
  const TraversalCounters& counters() const { return counters_; }

 private:
  struct BeamSearch {
    LayerScratch scratch;
    GraphTraversal traversal;
  };

  /// Whether another step of a beam might compute too many distances.
  bool IsSpent() { return gave_up_ = gave_up_ || counters_.Scored() >= most_before_; }

  /// False: there is no candidate left.
  bool OpenNext(BeamSearch& search) {
    if (next_ == last_ || IsSpent()) return false;
    const NodeId candidate = w_->id(next_);
    const DistanceKey key = w_->key(next_++);
    search.scratch.beam.Reset(params_->ef_l0);
    search.scratch.visited.Clear();
    search.scratch.visited.Insert(candidate);
    search.scratch.beam.Insert(key, candidate);
    results_.Offer(key, candidate);
    search.traversal.OpenFound({*index_, query_, *params_, search.scratch, counters_}, &results_,
                               {}, 1);
    return true;
  }

  void Gather() {
    wanted_.clear();
    for (std::size_t i = 0; i < open_; ++i) {
      const std::span<const NodeId> wanted = order_[i]->traversal.Wanted();
      wanted_.insert(wanted_.end(), wanted.begin(), wanted.end());
    }
  }

  const PlacedIndex* index_ = nullptr;
  const std::byte* query_ = nullptr;
  const ResolvedParams* params_ = nullptr;
  const Beam* w_ = nullptr;
  std::uint32_t next_ = 0, last_ = 0;
  std::array<BeamSearch, kBeamsAtOnce> searches_;
  std::array<BeamSearch*, kBeamsAtOnce> order_{};  ///< the first open_ are active
  std::size_t open_ = 0;
  std::uint64_t most_before_ = 0;  ///< distances after which no beam makes a step
  bool gave_up_ = false;
  std::vector<NodeId> wanted_;  ///< by all of them, one after the other
  Results results_;
  Beam unopened_;
  TraversalCounters counters_;
};

/// `--mode multi-start`: the whole search, in as many parts as its executor can advance
/// side by side. As a traversal it is its first part. If there are more parts, each is
/// advanced separately.
class MultiStartSearch {
 public:
  static constexpr bool kLeavesBeam = false;

  void Open(const TraversalStart& start) {
    const std::uint32_t beams = std::min(start.params.ef_l1, start.scratch.beam.size());
    open_ = std::max(1u, std::min(start.parts, beams));
    if (parts_.size() < open_) parts_.resize(open_);
    const auto first = [&](std::uint32_t part) {
      return static_cast<std::uint32_t>(std::uint64_t{part} * beams / open_);
    };
    for (std::uint32_t i = 0; i < open_; ++i) parts_[i].Open(start, first(i), first(i + 1));
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

  template <typename Add>
  void ForResults(const Add& add) {
    for (MultiStartTraversal& part : Parts()) part.ForResults(add);
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
