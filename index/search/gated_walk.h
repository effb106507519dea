#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "index/base/prefetch.h"
#include "index/graph/layer_search.h"
#include "index/search/best_first_walk.h"
#include "index/search/id_map.h"
#include "index/search/options.h"
#include "index/search/placed_index.h"
#include "index/sketch/sketch.h"

namespace hmann {

/// The distance of a query to the hubs that it has met, each computed once.
class HubDistances {
 public:
  void Clear() {
    places_.Clear();
    distances_.clear();
  }
  void Put(NodeId hub, float distance) {
    if (places_.Find(hub) != IdMap::kAbsent) return;
    places_.Insert(hub, static_cast<std::uint32_t>(distances_.size()));
    distances_.push_back(distance);
  }
  /// Of a hub that was Put before.
  void Set(NodeId hub, float distance) { distances_[places_.Find(hub)] = distance; }
  bool Has(NodeId hub) const { return places_.Find(hub) != IdMap::kAbsent; }
  float Get(NodeId hub) const { return distances_[places_.Find(hub)]; }

 private:
  IdMap places_;
  std::vector<float> distances_;
};

/// The gated walk as a pure state machine, with the face of BestFirstWalk: sketches decide which records of slow memory are worth a read.
///
/// The pool holds promoted nodes by their exact distance and the others by their estimate, until they are read. Each round reads the
/// records (vector and links: one read each) of the `width` best that were not read, replaces estimates by exact distances and scores the
/// neighbours: by sketch, or exactly if they are promoted. It ends when the first ef_l0 of the pool are read. Before the first round, all
/// members of the nearest `cells` hubs are scored, from sequential sketches. A node is not read once estimate - stop * error is above the
/// kth exact distance. ef_l0 = 0: no walk along links; the members of cells alone are candidates, and what `stop` leaves of them is read.
/// Answers are ordered by exact distances only.
template <typename WalkCounterType>
class GatedWalk {
 public:
  /// Opens with what L1 has found: scratch.beam (exact distances of promoted nodes, all in scratch.visited), nearest first. `options` must
  /// be resolved. The answer is in results() once Done.
  void Open(const PlacedIndex& index, const std::byte* query, const SearchOptions& options, LayerScratch& scratch,
            WalkCounterType& counters) {
    index_ = &index;
    query_ = query;
    scratch_ = &scratch;
    counters_ = &counters;
    k_ = options.k;
    width_ = options.width;
    stop_ = options.stop;
    follows_links_ = options.ef_l0 > 0;
    batch_ = 0;
    sketch_query_.Prepare(*index.sketcher, query);
    hubs_.Clear();
    results_.Reset(k_);
    Beam& found = scratch.beam;
    const std::uint32_t cells = std::min(static_cast<std::uint32_t>(options.cells), found.size());
    for (std::uint32_t i = 0; i < found.size(); ++i) {
      results_.Insert(found.key(i), found.id(i));
      hubs_.Put(found.id(i), index.kernels.ToDistance(found.key(i)));
    }
    cell_hubs_.clear();
    for (std::uint32_t i = 0; i < cells; ++i) cell_hubs_.push_back(found.id(i));
    window_ = follows_links_ ? static_cast<std::uint32_t>(options.ef_l0) : std::max(kCandidates, 4 * k_);
    // Without a walk along links promoted nodes have nothing that is worth a read.
    follows_links_ ? found.Reopen(window_) : found.Reset(window_);
    ScoreCells();
    NextRound();
  }

  bool Done() const { return wanted_.empty(); }
  std::span<const NodeId> Wanted() const { return wanted_; }
  RecordPart Part() const { return follows_links_ ? RecordPart::kRowAndLinks : RecordPart::kRow; }
  NodeId Upcoming() const { return kNoNode; }
  template <typename Hint>
  void ForUpcomingLinks(std::uint32_t, const Hint&) const {}
  const Beam& results() const { return results_; }

  void Absorb(std::span<const std::byte* const> records) {
    ScoreRead(records);
    if (follows_links_) ScoreNeighbours(records);
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
    while (wanted_.size() < width_ && pool.HasNext(window_)) {
      const DistanceKey key = pool.key(pool.next());
      const NodeId id = pool.PopNext();
      if (id >= index_->n1() && !IsWorthARead(id, bound)) continue;
      wanted_.push_back(id);
      wanted_keys_.push_back(key);
    }
    if constexpr (WalkCounterType::kCounts) {
      counters_->total.rounds += wanted_.empty() ? 0 : 1;
      counters_->total.slow_touches += wanted_.size();
      counters_->total.expanded_l0 += wanted_.size();
      counters_->read.insert(counters_->read.end(), wanted_.begin(), wanted_.end());
    }
  }

  bool IsWorthARead(NodeId id, DistanceKey bound) {
    if (stop_ < 0 || bound == ~DistanceKey{0}) return true;
    const std::byte* sketch = index_->Sketch(id);
    const NodeId hub = index_->cells->HubOf(id);
    const float hub_distance = hubs_.Get(hub), gap = sketch_query_.SquaredGap(index_->FastRow(hub), hub_distance);
    float estimate, error;
    sketch_query_.Estimate(&sketch, &hub_distance, 1, &estimate, &error, &gap);
    return index_->kernels.ToKey(estimate - stop_ * error) <= bound;
  }

  /// Members of the nearest cells: their sketches lie side by side.
  void ScoreCells() {
    Reserve(kBatch);
    for (std::size_t i = 0; i < cell_hubs_.size(); ++i) {
      const auto [begin, end] = index_->cells->MembersOf(cell_hubs_[i]);
      if (i + 1 < cell_hubs_.size()) {
        const auto [next, next_end] = index_->cells->MembersOf(cell_hubs_[i + 1]);
        if (next != next_end) PrefetchLines(index_->Sketch(next), std::min<std::size_t>(next_end - next, 16) * index_->sketch_bytes);
      }
      ScoreMembers(begin, end, cell_hubs_[i]);
      for (const NodeId id : index_->cells->GuestsOf(cell_hubs_[i])) {
        if (batch_ == kBatch) FlushSketches(false);
        if (const NodeId hub = index_->cells->HubOf(id); !hubs_.Has(hub)) {
          ScoreHub(hub);
          AddSketch(id, hub);
        } else if (std::find(cell_hubs_.begin(), cell_hubs_.end(), hub) == cell_hubs_.end()) {
          AddSketch(id, hub);
        }
      }
      FlushSketches(false);
    }
  }

  void ScoreMembers(NodeId begin, NodeId end, NodeId hub) {
    while (begin < end) {
      const auto count = std::min<NodeId>(end - begin, kBatch);
      sketch_query_.EstimateCell(index_->Sketch(begin), count, hubs_.Get(hub), estimates_.data(), nullptr);
      for (NodeId i = 0; i < count; ++i) Offer(estimates_[i], begin + i, false);
      if constexpr (WalkCounterType::kCounts) counters_->total.sketches += count;
      begin += count;
    }
  }

  /// A candidate. From cells it may come twice, as member and as guest; a neighbour `is_new`, the visited set has seen to that.
  void Offer(float estimate, NodeId id, bool is_new) {
    const DistanceKey key = index_->kernels.ToKey(estimate);
    if (key > scratch_->beam.bound() || (!is_new && scratch_->visited.Contains(id))) return;
    if (scratch_->beam.Insert(key, id) && !is_new) scratch_->visited.Insert(id);
  }

  void ScoreHub(NodeId hub) {
    const DistanceKey key = index_->kernels.one(query_, index_->FastRow(hub), index_->kernels.dim);
    hubs_.Put(hub, index_->kernels.ToDistance(key));
    if constexpr (WalkCounterType::kCounts) ++counters_->total.distances_fast;
  }

  /// To be estimated with the next batch; its hub's distance is known.
  void AddSketch(NodeId id, NodeId hub) {
    ids_[batch_] = id;
    sketches_[batch_] = index_->Sketch(id);
    hub_distances_[batch_] = hubs_.Get(hub);
    ++batch_;
  }

  void FlushSketches(bool is_new) {
    if (batch_ == 0) return;
    sketch_query_.Estimate(sketches_.data(), hub_distances_.data(), batch_, estimates_.data(), nullptr);
    for (std::size_t i = 0; i < batch_; ++i) Offer(estimates_[i], ids_[i], is_new);
    if constexpr (WalkCounterType::kCounts) counters_->total.sketches += batch_;
    batch_ = 0;
  }

  void ScoreRead(std::span<const std::byte* const> records) {
    RowBatch& batch = scratch_->batch;
    batch.Reserve(std::max<std::size_t>(wanted_.size(), index_->records.max_links * width_));
    batch.size = 0;
    read_keys_.clear();
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (wanted_[i] < index_->n1()) continue;
      batch.Add(wanted_[i], records[i] + index_->records.row_offset);
      read_keys_.push_back(wanted_keys_[i]);
    }
    batch.Score(index_->kernels, query_);
    if constexpr (WalkCounterType::kCounts) counters_->total.distances_slow += batch.size;
    for (std::uint32_t i = 0; i < batch.size; ++i) {
      results_.Insert(batch.keys[i], batch.ids[i]);
      scratch_->beam.Rekey(read_keys_[i], batch.ids[i], batch.keys[i]);
    }
  }

  void ScoreNeighbours(std::span<const std::byte* const> records) {
    RowBatch& batch = scratch_->batch;
    const NodeId n = index_->layers.n(), n1 = index_->n1();
    const std::size_t most = index_->records.max_links;
    Reserve(std::max(kBatch, wanted_.size() * most));
    batch.size = 0;
    met_.clear();
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const NodeId* links = index_->Links(wanted_[i], records[i]);
      for (std::size_t l = 0; l < most && links[l] < n; ++l) {
        if (links[l] < n1) {
          if (!scratch_->visited.Insert(links[l])) continue;
          const std::byte* row = index_->FastRow(links[l]);
          PrefetchLines(row, PrefetchBytes(index_->kernels));
          batch.Add(links[l], row);
        } else if (scratch_->visited.Insert(links[l])) {
          PrefetchLines(index_->Sketch(links[l]), index_->sketch_bytes);
          met_.push_back({links[l], kNoNode});
        }
      }
    }
    // Exact distances of promoted neighbours and of hubs that were not met before go in one batch.
    const std::uint32_t promoted = batch.size;
    for (Met& met : met_) {
      met.hub = index_->cells->HubOf(met.id);
      if (hubs_.Has(met.hub)) continue;
      hubs_.Put(met.hub, 0);
      const std::byte* row = index_->FastRow(met.hub);
      PrefetchLines(row, PrefetchBytes(index_->kernels));
      batch.Reserve(batch.size + 1);
      batch.Add(met.hub, row);
    }
    batch.Score(index_->kernels, query_);
    if constexpr (WalkCounterType::kCounts) counters_->total.distances_fast += batch.size;
    for (std::uint32_t i = 0; i < promoted; ++i) {
      results_.Insert(batch.keys[i], batch.ids[i]);
      scratch_->beam.Insert(batch.keys[i], batch.ids[i]);
      hubs_.Put(batch.ids[i], index_->kernels.ToDistance(batch.keys[i]));
    }
    for (std::uint32_t i = promoted; i < batch.size; ++i) hubs_.Set(batch.ids[i], index_->kernels.ToDistance(batch.keys[i]));
    for (const Met& met : met_) AddSketch(met.id, met.hub);
    FlushSketches(true);
  }

  void Reserve(std::size_t n) {
    if (ids_.size() >= n) return;
    ids_.resize(n);
    sketches_.resize(n);
    hub_distances_.resize(n);
    estimates_.resize(n);
  }

  struct Met {
    NodeId id, hub;
  };

  const PlacedIndex* index_ = nullptr;
  const std::byte* query_ = nullptr;
  LayerScratch* scratch_ = nullptr;  ///< beam: the pool
  WalkCounterType* counters_ = nullptr;
  std::uint32_t k_ = 0, width_ = 0, window_ = 0;
  float stop_ = -1;
  bool follows_links_ = true;
  SketchQuery sketch_query_;
  HubDistances hubs_;
  Beam results_;
  std::vector<NodeId> wanted_;
  std::vector<DistanceKey> wanted_keys_, read_keys_;
  std::vector<NodeId> cell_hubs_;
  std::vector<Met> met_;
  // A batch on its way through the estimator.
  std::size_t batch_ = 0;
  std::vector<NodeId> ids_;
  std::vector<const std::byte*> sketches_;
  std::vector<float> hub_distances_, estimates_;
};

}  // namespace hmann
