#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "index/base/prefetch.h"
#include "index/dials/dials.h"
#include "index/graph/layer_search.h"
#include "index/search/hub_distances.h"
#include "index/search/placed_index.h"
#include "index/search/reach.h"
#include "index/search/walk_start.h"
#include "index/sketch/sketch.h"

namespace hmann {

/// The gated walk as a pure state machine, with the face of BestFirstWalk: sketches decide which records of slow memory are worth a read.
///
/// The pool holds promoted nodes by their exact distance and the others by their estimate, until they are read. Each round reads the
/// records (vector and links: one read each) of the `width` best that were not read, replaces estimates by exact distances and scores the
/// neighbours: by sketch, or exactly if they are promoted. It ends when the first ef_l0 of the pool are read. Before the first round, all
/// members of the nearest `cells` hubs are scored, from sequential sketches. A node is not read once estimate - stop * error is above the
/// kth exact distance, and the walk ends at the first that is out of reach of it. ef_l0 = 0: no walk along links; the members of cells
/// alone are candidates, and what `stop` leaves of them is read. Answers are ordered by exact distances only.
///
/// Sketches are those of the nodes, by hub and in fast memory, or those of the links of a record, centred on the record's own vector and
/// read with it. The latter know no cells and no `stop`; a node that several records link to is estimated from each until an estimate of
/// it enters the pool, and keeps that one. They spare promoted neighbours too the exact distance, where the estimate cannot enter: on 1M
/// 96-d vectors in DRAM a third of all exact distances and an eighth of the time, for 0.001 of recall.
class GatedWalk {
 public:
  /// Opens with what L1 has found: scratch.beam (exact distances of promoted nodes, all in scratch.visited), nearest first. The
  /// answer is in results() once Done.
  void Open(const PlacedIndex& index, const std::byte* query, const Dials& dials, LayerScratch& scratch, WalkCounters& counters) {
    index_ = &index;
    query_ = query;
    scratch_ = &scratch;
    counters_ = &counters;
    k_ = dials.k;
    width_ = dials.width;
    stop_ = dials.stop;
    reach_ = {dials.reach, k_};
    follows_links_ = dials.ef_l0 > 0;
    slack_ = index.kernels.dtype == DType::kF32 || index.kernels.metric == Metric::kCosine ? 0.0f : 1.0f;
    sketch_query_.Prepare(*index.sketcher, query);
    hubs_.Clear();
    results_.Reset(k_);
    Beam& found = scratch.beam;
    const std::uint32_t cells = std::min(dials.cells, found.size());
    for (std::uint32_t i = 0; i < found.size(); ++i) {
      results_.Insert(found.key(i), found.id(i));
      hubs_.Add(found.id(i), index.kernels.ToDistance(found.key(i)));
    }
    cell_hubs_.clear();
    for (std::uint32_t i = 0; i < cells; ++i) cell_hubs_.push_back(found.id(i));
    window_ = follows_links_ ? dials.ef_l0 : std::max(kCandidates, 4 * k_);
    // Without a walk along links promoted nodes have nothing that is worth a read.
    follows_links_ ? found.Reopen(window_) : found.Reset(window_);
    limit_ = reach_.Limit(index.kernels, results_);
    if (index.cells != nullptr) ScoreCells();
    NextRound();
  }

  static constexpr bool kLeavesBeam = false;
  void Open(const WalkStart& start) { Open(start.index, start.query, start.dials, start.scratch, start.counters); }
  template <typename Add>
  void ForResults(const Add& add) const {
    add(results_);
  }
  void Finish(WalkCounters&) const {}

  bool Done() const { return wanted_.empty(); }
  std::span<const NodeId> Wanted() const { return wanted_; }
  RecordPart Part() const { return follows_links_ ? RecordPart::kRowAndLinks : RecordPart::kRow; }
  template <typename Hint>
  void ForUpcoming(std::uint32_t, const Hint&) const {}
  const Beam& results() const { return results_; }

  void Absorb(std::span<const std::byte* const> records) {
    ScoreRead(records);
    if (index_->cells == nullptr) {
      ScoreLinks(records);
    } else if (follows_links_) {
      ScoreNeighbours(records);
    }
    NextRound();
  }

 private:
  /// Candidates that are kept where no walk follows.
  static constexpr std::uint32_t kCandidates = 256;
  static constexpr std::size_t kBatch = 64;

  DistanceKey Bound() const { return results_.size() < k_ ? ~DistanceKey{0} : results_.key(k_ - 1); }

  void NextRound() {
    wanted_.clear();
    wanted_keys_.clear();
    Beam& pool = scratch_->beam;
    const DistanceKey bound = Bound();
    limit_ = reach_.Limit(index_->kernels, results_);
    while (wanted_.size() < width_ && pool.HasNext(window_)) {
      const DistanceKey key = pool.key(pool.next());
      if (key > limit_) break;
      const NodeId id = pool.PopNext();
      if (id >= index_->n1() && !IsWorthARead(id, bound)) continue;
      wanted_.push_back(id);
      wanted_keys_.push_back(key);
    }
    counters_->total.rounds += wanted_.empty() ? 0 : 1;
    counters_->total.slow_touches += wanted_.size();
    counters_->total.expanded_l0 += wanted_.size();
    counters_->Read(wanted_);
  }

  bool IsWorthARead(NodeId id, DistanceKey bound) {
    if (!stop_.has_value() || bound == ~DistanceKey{0}) return true;
    const std::byte* sketch = index_->Sketch(id);
    const NodeId hub = index_->cells->HubOf(id);
    const float hub_distance = hubs_.At(hubs_.Find(hub)), gap = sketch_query_.SquaredGap(index_->FastRow(hub), hub_distance);
    float estimate, error;
    sketch_query_.Estimate(&sketch, &hub_distance, 1, &estimate, &error, &gap);
    return index_->kernels.ToKey(estimate - *stop_ * error) <= bound;
  }

  /// Members of the nearest cells, whose sketches lie side by side, then those that have one of their hubs as second-nearest.
  void ScoreCells() {
    const Cells& cells = *index_->cells;
    Reserve(kBatch);
    for (const NodeId hub : cell_hubs_) cells.PrefetchCellsOf(hub);
    for (const NodeId hub : cell_hubs_) cells.PrefetchLists(hub);
    constexpr std::size_t kAhead = 4;
    for (std::size_t i = 0; i < cell_hubs_.size() + kAhead; ++i) {
      if (i < cell_hubs_.size()) {
        const auto [begin, end] = cells.MembersOf(cell_hubs_[i]);
        if (begin != end) PrefetchLines(index_->Sketch(begin), std::min<std::size_t>(end - begin, 16) * index_->sketch_bytes);
      }
      if (i < kAhead) continue;
      const auto [begin, end] = cells.MembersOf(cell_hubs_[i - kAhead]);
      ScoreMembers(begin, end, hubs_.At(static_cast<std::uint32_t>(i - kAhead)));
    }
    met_.clear();
    for (const NodeId hub : cell_hubs_) {
      for (const NodeId id : cells.GuestsOf(hub)) {
        cells.PrefetchCellOf(id);
        met_.push_back({id, 0});
      }
      if (met_.size() >= 2 * kBatch) ScoreGuests();
    }
    ScoreGuests();
  }

  void ScoreGuests() {
    scratch_->batch.size = 0;
    // A guest whose own cell was scored is known already: the hubs of those cells are the first that were met.
    FindHubs(static_cast<std::uint32_t>(cell_hubs_.size()));
    ScoreMet(0, false);
    met_.clear();
  }

  void ScoreMembers(NodeId begin, NodeId end, float hub_distance) {
    while (begin < end) {
      const auto count = std::min<NodeId>(end - begin, kBatch);
      sketch_query_.EstimateCell(index_->Sketch(begin), count, hub_distance, estimates_.data(), nullptr);
      const float bound = BoundDistance();
      for (NodeId i = 0; i < count; ++i) {
        if (estimates_[i] <= bound) Offer(estimates_[i], begin + i, false);
      }
      counters_->total.sketches += count;
      begin += count;
    }
  }

  /// Estimates above it cannot enter the pool, or are out of reach.
  float BoundDistance() const {
    const DistanceKey bound = std::min(scratch_->beam.bound(), limit_);
    return bound == ~DistanceKey{0} ? std::numeric_limits<float>::max() : index_->kernels.ToDistance(bound) + slack_;
  }

  /// A candidate. From cells it may come twice, as member and as guest; a neighbour `is_new`, the visited set has seen to that.
  void Offer(float estimate, NodeId id, bool is_new) {
    const DistanceKey key = index_->kernels.ToKey(estimate);
    if (key > std::min(scratch_->beam.bound(), limit_) || (!is_new && scratch_->visited.Contains(id))) return;
    if (scratch_->beam.Insert(key, id) && !is_new) scratch_->visited.Insert(id);
  }

  /// From ids to places of their hubs' distances, through two lookups that each miss the cache: all ids take the first, then all the
  /// second. Hubs that were not met before go into the row batch; nodes whose hub is one of the first `known` are dropped.
  void FindHubs(std::uint32_t known) {
    const Cells& cells = *index_->cells;
    RowBatch& batch = scratch_->batch;
    for (Met& met : met_) {
      met.place = cells.CellOf(met.id);
      cells.PrefetchHubOfCell(met.place);
      PrefetchLines(index_->Sketch(met.id), index_->sketch_bytes);
    }
    batch.Reserve(batch.size + met_.size());
    new_places_.clear();
    std::size_t kept = 0;
    for (const Met& met : met_) {
      const NodeId hub = cells.HubOfCell(met.place);
      std::uint32_t place = hubs_.Find(hub);
      if (place < known) continue;
      if (place == HubDistances::kAbsent) {
        place = hubs_.Add(hub, 0);
        const std::byte* row = index_->FastRow(hub);
        PrefetchLines(row, PrefetchBytes(index_->kernels));
        batch.Add(hub, row);
        new_places_.push_back(place);
      }
      met_[kept++] = {met.id, place};
    }
    met_.resize(kept);
  }

  /// Scores the row batch: first candidates, from `first_hub` on hubs; then estimates all of met_.
  void ScoreMet(std::uint32_t first_hub, bool is_new) {
    RowBatch& batch = scratch_->batch;
    batch.Score(index_->kernels, query_);
    counters_->total.distances_fast += batch.size;
    counters_->total.sketches += met_.size();
    for (std::uint32_t i = 0; i < first_hub; ++i) {
      results_.Insert(batch.keys[i], batch.ids[i]);
      if (batch.keys[i] <= limit_) scratch_->beam.Insert(batch.keys[i], batch.ids[i]);
    }
    for (std::size_t i = 0; i < new_places_.size(); ++i) {
      hubs_.Set(new_places_[i], index_->kernels.ToDistance(batch.keys[first_hub + i]));
    }
    Reserve(met_.size());
    for (std::size_t i = 0; i < met_.size(); ++i) {
      sketches_[i] = index_->Sketch(met_[i].id);
      hub_distances_[i] = hubs_.At(met_[i].place);
    }
    sketch_query_.Estimate(sketches_.data(), hub_distances_.data(), met_.size(), estimates_.data(), nullptr);
    const float bound = BoundDistance();
    for (std::size_t i = 0; i < met_.size(); ++i) {
      if (estimates_[i] <= bound) Offer(estimates_[i], met_[i].id, is_new);
    }
  }

  void ScoreRead(std::span<const std::byte* const> records) {
    RowBatch& batch = scratch_->batch;
    batch.Reserve(std::max<std::size_t>(wanted_.size(), std::size_t{index_->records.max_links} * width_));
    batch.size = 0;
    read_.clear();
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (wanted_[i] < index_->n1()) continue;
      batch.Add(wanted_[i], records[i] + index_->records.row_offset);
      read_.push_back(i);
    }
    batch.Score(index_->kernels, query_);
    counters_->total.distances_slow += batch.size;
    for (std::uint32_t i = 0; i < batch.size; ++i) {
      results_.Insert(batch.keys[i], batch.ids[i]);
      DistanceKey& key = wanted_keys_[read_[i]];
      scratch_->beam.Rekey(key, batch.ids[i], batch.keys[i]);
      key = batch.keys[i];
    }
  }

  /// The neighbours of what was read and is now known exactly: by the sketches in its records; those near enough exactly if they are
  /// promoted.
  void ScoreLinks(std::span<const std::byte* const> records) {
    RowBatch& batch = scratch_->batch;
    const NodeId n = index_->layers.n(), n1 = index_->n1();
    const std::uint32_t most = index_->records.max_links;
    batch.size = 0;
    Reserve(most);
    ReserveLinks(most);
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const NodeId* links = index_->Links(wanted_[i], records[i]);
      const std::byte* sketches = records[i] + index_->records.LinksEnd(wanted_[i]);
      const auto degree = static_cast<std::size_t>(std::find_if(links, links + most, [n](NodeId link) { return link >= n; }) - links);
      sketch_query_.EstimateCell(sketches, degree, index_->kernels.ToDistance(wanted_keys_[i]), estimates_.data(), nullptr);
      counters_->total.sketches += degree;
      const float bound = BoundDistance();
      // Which links are promoted and which are near enough is anyone's guess: they are parted without a branch.
      std::uint32_t promoted = 0, near = 0;
      for (std::uint32_t l = 0; l < degree; ++l) {
        const bool is_fast = links[l] < n1;
        promoted_[promoted] = links[l];
        near_[near] = l;
        const bool is_near = estimates_[l] <= bound;
        promoted += static_cast<unsigned>(is_fast) & static_cast<unsigned>(is_near);
        near += static_cast<unsigned>(!is_fast) & static_cast<unsigned>(is_near);
      }
      const std::uint32_t fresh = scratch_->visited.InsertNew(promoted_.data(), promoted, n, fresh_.data());
      for (std::uint32_t l = 0; l < fresh; ++l) {
        const std::byte* row = index_->FastRow(fresh_[l]);
        PrefetchLines(row, PrefetchBytes(index_->kernels));
        batch.Add(fresh_[l], row);
      }
      for (std::uint32_t l = 0; l < near; ++l) Offer(estimates_[near_[l]], links[near_[l]], false);
    }
    batch.Score(index_->kernels, query_);
    counters_->total.distances_fast += batch.size;
    for (std::uint32_t i = 0; i < batch.size; ++i) {
      results_.Insert(batch.keys[i], batch.ids[i]);
      if (batch.keys[i] <= limit_) scratch_->beam.Insert(batch.keys[i], batch.ids[i]);
    }
  }

  void ScoreNeighbours(std::span<const std::byte* const> records) {
    RowBatch& batch = scratch_->batch;
    const NodeId n = index_->layers.n(), n1 = index_->n1();
    const std::uint32_t most = index_->records.max_links;
    ReserveLinks(most);
    batch.size = 0;
    met_.clear();
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const NodeId* links = index_->Links(wanted_[i], records[i]);
      const std::uint32_t fresh = scratch_->visited.InsertNew(links, most, n, fresh_.data());
      for (std::uint32_t l = 0; l < fresh; ++l) {
        const NodeId node = fresh_[l];
        if (node < n1) {
          const std::byte* row = index_->FastRow(node);
          PrefetchLines(row, PrefetchBytes(index_->kernels));
          batch.Add(node, row);
        } else {
          index_->cells->PrefetchCellOf(node);
          met_.push_back({node, 0});
        }
      }
    }
    // Promoted neighbours and hubs that were not met before are scored in one batch.
    const std::uint32_t promoted = batch.size;
    FindHubs(0);
    ScoreMet(promoted, true);
  }

  void ReserveLinks(std::size_t n) {
    if (fresh_.size() >= n) return;
    fresh_.resize(n);
    promoted_.resize(n);
    near_.resize(n);
  }

  void Reserve(std::size_t n) {
    if (sketches_.size() >= n) return;
    sketches_.resize(n);
    hub_distances_.resize(n);
    estimates_.resize(n);
  }

  /// A node whose sketch is to be estimated.
  struct Met {
    NodeId id;
    std::uint32_t place;  ///< its cell, then where its hub's distance is
  };

  const PlacedIndex* index_ = nullptr;
  const std::byte* query_ = nullptr;
  LayerScratch* scratch_ = nullptr;  ///< beam: the pool
  WalkCounters* counters_ = nullptr;
  std::uint32_t k_ = 0, width_ = 0, window_ = 0;
  std::optional<float> stop_;
  Reach reach_;
  DistanceKey limit_ = 0;  ///< of this round: keys above it are out of reach
  float slack_ = 0;        ///< that an integer key may round off
  bool follows_links_ = true;
  SketchQuery sketch_query_;
  HubDistances hubs_;
  Beam results_;
  std::vector<NodeId> wanted_;
  std::vector<DistanceKey> wanted_keys_;  ///< as the pool has them: exact once they are read
  std::vector<std::size_t> read_;         ///< which of wanted_ were not exact before
  // Of the links of a record: those not met before, the promoted, and the places of those that may enter the pool.
  std::vector<NodeId> fresh_, promoted_;
  std::vector<std::uint32_t> near_;
  std::vector<NodeId> cell_hubs_;
  std::vector<Met> met_;
  std::vector<std::uint32_t> new_places_;
  // A batch on its way through the estimator.
  std::vector<const std::byte*> sketches_;
  std::vector<float> hub_distances_, estimates_;
};

}  // namespace hmann
