#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hmann/resolved_params.h"
#include "index/search/candidate_pool.h"
#include "index/search/cell_scorer.h"
#include "index/search/traversal.h"

namespace hmann {

/// The quantized traversal: codes decide which records of slow memory are worth a read.
///
/// Before the first hop, it scores all members of the nearest `nprobe` cells, as long as
/// these give the pool candidates. Each hop reads the records (vector and links: one read
/// each) of the `beam_width` best unread candidates of the pool. It replaces estimates by
/// exact distances and scores the neighbors. It ends when the first ef_l0 of the pool are
/// read, or at the first candidate beyond epsilon of the kth exact distance. It skips a
/// node if estimate - error_bound * error is above the kth exact distance. It also skips
/// a promoted node whose cell was scored: its distance is known, and its links lead
/// mostly to nodes already scored. With ef_l0 = 0 it does not follow links. Only the
/// members of cells are candidates, and those that `error_bound` leaves are read. Answers
/// are ordered by exact distances only.
///
/// A scan in place of a search on a tier slower than DRAM scores the codes of all nodes,
/// then reads those that may be among the k nearest, kMaxBeamWidth at a time: mostly in
/// one hop.
class QuantizedTraversal {
 public:
  /// Opens with what L1 has found: scratch.beam (exact distances of promoted nodes, all
  /// in scratch.visited), nearest first. Once Done, the answer is in results().
  void Open(const TraversalStart& start) {
    const ResolvedParams& params = start.params;
    Beam& found = start.scratch.beam;
    most_ = MostKey(start.index.kernels, params);
    pool_.Open(start);
    cells_.Open(pool_);
    n_ = unscored_ = start.index.layers.n();
    wanted_.clear();
    least_dropped_ = ~DistanceKey{0};
    if (start.scans) {
      found.Reset(std::max(kCandidates, 4 * params.k));
      unscored_ = pool_.NextMatch(0);
      return;
    }
    if (params.matches != nullptr) found.Filter([&](NodeId id) { return params.matches->Has(id); });
    // If links are not followed, promoted nodes have nothing worth a read.
    follows_links() ? found.Reopen(CellEffort::MostCandidates(params))
                    : found.Reset(std::max(kCandidates, 4 * params.k));
    cells_.ScoreCells(pool_, [&](bool all) { ExpectRound(start.ahead, all); });
    NextRound();
  }

  static constexpr bool kLeavesBeam = false;
  template <typename Add>
  void ForResults(const Add& add) const {
    add(pool_.results);
  }
  void Finish(TraversalCounters&) const {}

  /// Nearer matches are to be expected elsewhere: those found lie beyond the cells that
  /// it has scored; or a scan had no room for some that may be among the k nearest.
  bool GaveUp() const {
    const Beam& found = pool_.results;
    if (pool_.params.matches == nullptr || found.size() == 0) return false;
    if (pool_.params.nprobe == 0)
      return ~least_dropped_ != 0 && least_dropped_ <= std::min(found.bound(), most_);
    return cells_.IsBeyond(pool_.index->kernels.ToDistance(found.key(found.size() - 1)));
  }
  bool Done() const { return wanted_.empty() && unscored_ == n_; }
  std::span<const NodeId> Wanted() const { return wanted_; }
  RecordPart Part() const { return follows_links() ? RecordPart::kRowAndLinks : RecordPart::kRow; }
  template <typename Hint>
  void ForUpcoming(std::uint32_t, const Hint&) const {}
  const Beam& results() const { return pool_.results; }

  void Absorb(std::span<const std::byte* const> records) {
    if (unscored_ < n_) {
      unscored_ = cells_.ScoreFrom(pool_, unscored_);
      if (unscored_ < n_) return;
      most_ = std::min(most_, KthUpper());
      least_dropped_ = LeastDropped();
    } else {
      ScoreRead(records);
      if (follows_links()) cells_.ScoreNeighbors(pool_, wanted_, records);
    }
    NextRound();
  }

 private:
  /// Candidates that are kept if links are not followed.
  static constexpr std::uint32_t kCandidates = 256;

  bool follows_links() const { return pool_.params.ef_l0 > 0; }

  /// The best candidates, as many as are read.
  std::uint32_t Width() const {
    if (!follows_links()) return pool_.scratch->beam.width();
    const ResolvedParams& params = pool_.params;
    return CellEffort::Candidates(params,
                                  CellEffort::Farther(params, pool_.index->kernels, pool_.results));
  }

  void NextRound() {
    wanted_.clear();
    wanted_keys_.clear();
    Beam& candidates = pool_.scratch->beam;
    const DistanceKey kth = std::min(pool_.results.bound(), most_);
    const std::uint32_t width = Width();
    pool_.UpdateLimit();
    while (wanted_.size() < pool_.params.beam_width && candidates.HasNext(width)) {
      const DistanceKey key = candidates.key(candidates.next());
      if (key > pool_.limit) break;
      const NodeId id = candidates.PopNext();
      if (!IsWorthARead(id, kth)) continue;
      wanted_.push_back(id);
      wanted_keys_.push_back(key);
    }
    Counters& total = pool_.counters->total;
    total.hops += wanted_.empty() ? 0 : 1;
    total.node_accesses += wanted_.size();
    total.expanded_l0 += wanted_.size();
    pool_.counters->Read(wanted_);
  }

  /// Announces what the first hop would read if the pool stayed as it is, or half of
  /// that.
  void ExpectRound(ReadsAhead* ahead, bool all) {
    if (ahead == nullptr) return;
    const Beam& candidates = pool_.scratch->beam;
    const DistanceKey kth = pool_.results.bound();
    const std::uint32_t most = all ? pool_.params.beam_width : pool_.params.beam_width / 2;
    wanted_.clear();
    for (std::uint32_t i = 0; i < candidates.size() && wanted_.size() < most; ++i) {
      if (candidates.key(i) > pool_.limit) break;
      const NodeId id = candidates.id(i);
      if (IsWorthARead(id, kth)) wanted_.push_back(id);
    }
    ahead->Expect(wanted_);
  }

  /// A lower bound of the keys of candidates for which the pool had no room.
  DistanceKey LeastDropped() const {
    const Beam& candidates = pool_.scratch->beam;
    if (candidates.size() < candidates.width()) return ~DistanceKey{0};
    const NodeId last = candidates.id(candidates.size() - 1);
    return last < pool_.index->n1() ? candidates.bound() : LowerKey(last);
  }

  /// No node farther than this is among the k nearest, unless errors exceed their bound.
  /// It spares a scan reads before any distance is exact.
  DistanceKey KthUpper() const {
    const Beam& candidates = pool_.scratch->beam;
    const std::uint32_t k = pool_.params.k;
    if (candidates.size() < k) return ~DistanceKey{0};
    DistanceKey most = 0;
    for (std::uint32_t i = 0; i < k; ++i) {
      const NodeId id = candidates.id(i);
      const float estimate = pool_.index->kernels.ToDistance(candidates.key(i));
      const float error = id < pool_.index->n1()
                              ? 0
                              : estimate - cells_.Lower(pool_, id, *pool_.params.error_bound);
      most = std::max(most, pool_.index->kernels.ToKey(estimate + error));
    }
    return most;
  }

  bool IsWorthARead(NodeId id, DistanceKey kth) const {
    if (id < pool_.index->n1()) return follows_links() && !cells_.HasScored(id);
    const std::optional<float> stop = pool_.params.error_bound;
    return !stop.has_value() || kth == ~DistanceKey{0} || LowerKey(id) <= kth;
  }
  DistanceKey LowerKey(NodeId id) const {
    return pool_.index->kernels.ToKey(cells_.Lower(pool_, id, *pool_.params.error_bound));
  }

  /// Replaces the estimates of what was read by exact distances.
  void ScoreRead(std::span<const std::byte* const> records) {
    const PlacedIndex& index = *pool_.index;
    RowBatch& batch = pool_.scratch->batch;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (wanted_[i] >= index.n1()) batch.Add(wanted_[i], records[i]);
    }
    batch.Score(index.kernels, pool_.query);
    pool_.counters->total.distances_slow += batch.size;
    batch.size = 0;
    const DistanceKey* scored = batch.keys.data();
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (wanted_[i] < index.n1()) continue;
      const DistanceKey key = *scored++;
      pool_.results.Insert(key, wanted_[i]);
      pool_.scratch->beam.Rekey(wanted_keys_[i], wanted_[i], key);
    }
  }

  CandidatePool pool_;
  CellScorer cells_;
  std::vector<NodeId> wanted_;
  std::vector<DistanceKey> wanted_keys_;  ///< as in the pool
  std::uint64_t unscored_ = 0, n_ = 0;    ///< of a scan: the first node that is not scored
  DistanceKey least_dropped_ = 0;         ///< of a scan: of candidates that had no room
  DistanceKey most_ = 0;                  ///< of an answer; of a scan also KthUpper
};

}  // namespace hmann
