#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "index/base/prefetch.h"
#include "index/search/gated_pool.h"
#include "index/search/id_map.h"

namespace hmann {

/// Scores nodes of slow memory by their sketches, which lie in fast memory: the members of cells, and neighbours of what was read. A sketch
/// is centred on the hub of its node, so the distance of the query to the hub is needed. It is computed once.
///
/// The visited set has all neighbours. It has a node of a cell only once that has entered the pool: another may come again as a neighbour.
class CellScorer {
 public:
  /// Opens while the pool still holds all that L1 has found. These are the first hubs that are met, and ScoreCells scores the cells of the
  /// nearest.
  void Open(const GatedPool& pool) {
    const Beam& found = pool.scratch->beam;
    cells_ = std::min(pool.dials.cells, found.size());
    places_.Clear();
    hubs_.clear();
    for (std::uint32_t i = 0; i < found.size(); ++i) MeetHub(found.id(i), pool.index->kernels.ToDistance(found.key(i)));
  }

  /// Scores the members of these cells, whose sketches lie side by side, then the nodes that have one of their hubs as second-nearest.
  void ScoreCells(GatedPool& pool) {
    const Cells& cells = *pool.index->cells;
    for (std::uint32_t i = 0; i < cells_; ++i) cells.PrefetchCellsOf(hubs_[i].id);
    for (std::uint32_t i = 0; i < cells_; ++i) cells.PrefetchLists(hubs_[i].id);
    constexpr std::uint32_t kAhead = 4;
    for (std::uint32_t i = 0; i < cells_ + kAhead; ++i) {
      if (i < cells_) {
        const auto [begin, end] = cells.MembersOf(hubs_[i].id);
        if (begin != end) PrefetchLines(pool.index->Sketch(begin), std::min<std::size_t>(end - begin, 16) * pool.index->sketch_bytes);
      }
      if (i >= kAhead) ScoreMembers(pool, hubs_[i - kAhead]);
    }
    for (std::uint32_t i = 0; i < cells_; ++i) {
      for (const NodeId id : cells.GuestsOf(hubs_[i].id)) MeetNode(cells, id);
      if (met_.size() >= 2 * kBatch) ScoreMet(pool, false);
    }
    ScoreMet(pool, false);
  }

  /// Scores the neighbours of `nodes` that are met for the first time; records[i] is the record of nodes[i].
  void ScoreNeighbours(GatedPool& pool, std::span<const NodeId> nodes, std::span<const std::byte* const> records) {
    const PlacedIndex& index = *pool.index;
    RowBatch& batch = pool.scratch->batch;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const NodeId* links = index.Links(nodes[i], records[i]);
      NodeId* const fresh = batch.ids.data() + batch.size;
      const std::uint32_t count = pool.scratch->visited.InsertNew(links, index.records.max_links, index.layers.n(), fresh);
      for (std::uint32_t l = 0; l < count; ++l) {
        const NodeId node = fresh[l];
        node < index.n1() ? pool.Gather(node) : MeetNode(*index.cells, node);
      }
    }
    ScoreMet(pool, true);
  }

  /// The estimated distance of `id`, less so many `errors`. The hub of `id` was met.
  float Lower(const GatedPool& pool, NodeId id, float errors) const {
    const std::byte* sketch = pool.index->Sketch(id);
    const NodeId hub = pool.index->cells->HubOf(id);
    const float distance = hubs_[places_.Find(hub)].distance, gap = pool.sketch_query.SquaredGap(pool.index->FastRow(hub), distance);
    float estimate, error;
    pool.sketch_query.Estimate(&sketch, &distance, 1, &estimate, &error, &gap);
    return estimate - errors * error;
  }

 private:
  static constexpr std::size_t kBatch = 64;

  struct Hub {
    NodeId id;
    float distance;
  };
  /// A node whose sketch is to be estimated.
  struct Met {
    NodeId id;
    std::uint32_t place;  ///< its cell, then where its hub's distance is
  };

  void MeetHub(NodeId id, float distance) {
    places_.Insert(id, static_cast<std::uint32_t>(hubs_.size()));
    hubs_.push_back({id, distance});
  }
  void MeetNode(const Cells& cells, NodeId id) {
    cells.PrefetchCellOf(id);
    met_.push_back({id, 0});
  }

  void ScoreMembers(GatedPool& pool, Hub hub) {
    const auto [first, end] = pool.index->cells->MembersOf(hub.id);
    float estimates[kBatch];
    for (NodeId begin = first; begin < end; begin += kBatch) {
      const auto count = std::min<NodeId>(end - begin, kBatch);
      pool.sketch_query.EstimateCell(pool.index->Sketch(begin), count, hub.distance, estimates, nullptr);
      pool.counters->total.sketches += count;
      const float bound = pool.BoundDistance();
      for (NodeId i = 0; i < count; ++i) {
        if (estimates[i] <= bound && pool.Offer(estimates[i], begin + i)) pool.scratch->visited.Insert(begin + i);
      }
    }
  }

  /// Scores promoted neighbours, which are in the row batch, and hubs that were not met before in one go; then all of met_. These are
  /// neighbours or guests. A guest whose own cell was scored is known already.
  void ScoreMet(GatedPool& pool, bool are_neighbours) {
    const std::uint32_t promoted = pool.scratch->batch.size;
    const std::size_t hubs = hubs_.size();
    FindHubs(pool, are_neighbours ? 0 : cells_);
    pool.ScoreGathered(promoted);
    const DistanceKey* key = pool.scratch->batch.keys.data() + promoted;
    for (std::size_t i = hubs; i < hubs_.size(); ++i) hubs_[i].distance = pool.index->kernels.ToDistance(*key++);
    pool.counters->total.sketches += met_.size();
    const std::byte* sketches[kBatch];
    float hub_distances[kBatch], estimates[kBatch];
    for (std::size_t begin = 0; begin < met_.size(); begin += kBatch) {
      const std::size_t count = std::min(met_.size() - begin, kBatch);
      const Met* const met = met_.data() + begin;
      for (std::size_t i = 0; i < count; ++i) {
        sketches[i] = pool.index->Sketch(met[i].id);
        hub_distances[i] = hubs_[met[i].place].distance;
      }
      pool.sketch_query.Estimate(sketches, hub_distances, count, estimates, nullptr);
      const float bound = pool.BoundDistance();
      for (std::size_t i = 0; i < count; ++i) {
        if (estimates[i] <= bound && pool.Offer(estimates[i], met[i].id) && !are_neighbours) pool.scratch->visited.Insert(met[i].id);
      }
    }
    met_.clear();
  }

  /// From ids to places of their hubs' distances, through two lookups that each miss the cache: all ids take the first, then all the
  /// second. Hubs that were not met before go into the row batch; nodes whose hub is one of the first `known` are dropped.
  void FindHubs(GatedPool& pool, std::uint32_t known) {
    const PlacedIndex& index = *pool.index;
    for (Met& met : met_) {
      met.place = index.cells->CellOf(met.id);
      index.cells->PrefetchHubOfCell(met.place);
      PrefetchLines(index.Sketch(met.id), index.sketch_bytes);
    }
    pool.scratch->batch.Reserve(pool.scratch->batch.size + met_.size());
    std::size_t kept = 0;
    for (const Met& met : met_) {
      const NodeId hub = index.cells->HubOfCell(met.place);
      std::uint32_t place = places_.Find(hub);
      if (place < known) continue;
      if (place == IdMap::kAbsent) {
        place = static_cast<std::uint32_t>(hubs_.size());
        MeetHub(hub, 0);
        pool.Gather(hub);
      }
      met_[kept++] = {met.id, place};
    }
    met_.resize(kept);
  }

  std::vector<Hub> hubs_;    ///< that were met
  IdMap places_;             ///< where each of them is in hubs_
  std::uint32_t cells_ = 0;  ///< how many of the first have their cells scored
  std::vector<Met> met_;     ///< empty between calls
};

}  // namespace hmann
