#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hmann/dials.h"
#include "index/search/candidate_pool.h"
#include "index/search/cell_scorer.h"
#include "index/search/walk.h"

namespace hmann {

/// The quantised walk: codes decide which records of slow memory are worth a read.
///
/// Each round reads the records (vector and links: one read each) of the `beam_width`
/// best of the pool that were not read, replaces estimates by exact distances and scores
/// the neighbours. It ends when the first ef_l0 of the pool are read. Before the first
/// round, all members of the nearest `nprobe` cells are scored, as long as these give the
/// pool candidates. A node is not read once estimate - error_bound * error is above the
/// kth exact distance, and the walk ends at the first that is beyond epsilon of it. Nor
/// is a promoted node whose cell was scored: its distance is known, and its links lead
/// mostly to what was.
/// ef_l0 = 0: no walk along links; the members of cells alone are candidates, and what
/// `error_bound` leaves of them is read. Answers are ordered by exact distances only.
class QuantisedWalk {
 public:
  /// Opens with what L1 has found: scratch.beam (exact distances of promoted nodes, all
  /// in scratch.visited), nearest first. The answer is in results() once Done.
  void Open(const WalkStart& start) {
    const Dials& dials = start.dials;
    Beam& found = start.scratch.beam;
    pool_.Open(start);
    cells_.Open(pool_);
    if (dials.matches != nullptr) found.Filter([&](NodeId id) { return dials.matches->Has(id); });
    // Without a walk along links promoted nodes have nothing that is worth a read.
    follows_links() ? found.Reopen(dials.ef_l0) : found.Reset(std::max(kCandidates, 4 * dials.k));
    cells_.ScoreCells(pool_, [&](bool all) { ExpectRound(start.ahead, all); });
    NextRound();
  }

  static constexpr bool kLeavesBeam = false;
  template <typename Add>
  void ForResults(const Add& add) const {
    add(pool_.results);
  }
  void Finish(WalkCounters&) const {}

  bool Done() const { return wanted_.empty(); }
  std::span<const NodeId> Wanted() const { return wanted_; }
  RecordPart Part() const { return follows_links() ? RecordPart::kRowAndLinks : RecordPart::kRow; }
  template <typename Hint>
  void ForUpcoming(std::uint32_t, const Hint&) const {}
  const Beam& results() const { return pool_.results; }

  void Absorb(std::span<const std::byte* const> records) {
    ScoreRead(records);
    if (follows_links()) cells_.ScoreNeighbours(pool_, wanted_, records);
    NextRound();
  }

 private:
  /// Candidates that are kept where no walk follows.
  static constexpr std::uint32_t kCandidates = 256;

  bool follows_links() const { return pool_.dials.ef_l0 > 0; }

  void NextRound() {
    wanted_.clear();
    wanted_keys_.clear();
    Beam& candidates = pool_.scratch->beam;
    const DistanceKey kth = pool_.results.bound();
    pool_.UpdateLimit();
    while (wanted_.size() < pool_.dials.beam_width && candidates.HasNext(candidates.width())) {
      const DistanceKey key = candidates.key(candidates.next());
      if (key > pool_.limit) break;
      const NodeId id = candidates.PopNext();
      if (!IsWorthARead(id, kth)) continue;
      wanted_.push_back(id);
      wanted_keys_.push_back(key);
    }
    Counters& total = pool_.counters->total;
    total.rounds += wanted_.empty() ? 0 : 1;
    total.slow_touches += wanted_.size();
    total.expanded_l0 += wanted_.size();
    pool_.counters->Read(wanted_);
  }

  /// What the first round would read if the pool stayed as it is, or half of that.
  void ExpectRound(ReadsAhead* ahead, bool all) {
    if (ahead == nullptr) return;
    const Beam& candidates = pool_.scratch->beam;
    const DistanceKey kth = pool_.results.bound();
    const std::uint32_t most = all ? pool_.dials.beam_width : pool_.dials.beam_width / 2;
    wanted_.clear();
    for (std::uint32_t i = 0; i < candidates.size() && wanted_.size() < most; ++i) {
      if (candidates.key(i) > pool_.limit) break;
      const NodeId id = candidates.id(i);
      if (IsWorthARead(id, kth)) wanted_.push_back(id);
    }
    ahead->Expect(wanted_);
  }

  bool IsWorthARead(NodeId id, DistanceKey kth) const {
    if (id < pool_.index->n1()) return !cells_.HasScored(id);
    const std::optional<float> stop = pool_.dials.error_bound;
    return !stop.has_value() || kth == ~DistanceKey{0} ||
           pool_.index->kernels.ToKey(cells_.Lower(pool_, id, *stop)) <= kth;
  }

  /// Exact distances of what was read take the place of estimates.
  void ScoreRead(std::span<const std::byte* const> records) {
    const PlacedIndex& index = *pool_.index;
    RowBatch& batch = pool_.scratch->batch;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (wanted_[i] >= index.n1()) batch.Add(wanted_[i], records[i] + index.records.row_offset);
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
  std::vector<DistanceKey> wanted_keys_;  ///< as the pool has them
};

}  // namespace hmann
