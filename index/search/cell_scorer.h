#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "index/base/prefetch.h"
#include "index/search/candidate_pool.h"
#include "index/search/id_map.h"

namespace hmann {

/// Scores nodes of slow memory by their codes, which lie in fast memory: the members of
/// cells, and the neighbors of nodes that were read. A code is centered on its node's
/// centroid, so scoring needs the query's distance to the centroid. It is computed once.
///
/// The visited set contains all neighbors met. It contains a cell's member only once that
/// member has entered the pool; another member may appear again as a neighbor.
class CellScorer {
 public:
  /// Opens while the pool still holds everything that L1 has found. These are the first
  /// centroids met, and ScoreCells scores the cells of the nearest ones.
  void Open(const CandidatePool& pool) {
    const Beam& found = pool.scratch->beam;
    const float farther = CellEffort::Farther(pool.params, pool.index->kernels, pool.results);
    cells_ = std::min(CellEffort::Cells(pool.params, farther), found.size());
    places_.Clear();
    centroids_.clear();
    for (std::uint32_t i = 0; i < found.size(); ++i)
      MeetCentroid(found.id(i), pool.index->kernels.ToDistance(found.key(i)));
  }

  /// Scores the members of these cells, whose codes are contiguous, nearest cells first.
  /// It stops at kLeastCells plus twice the place of the last cell with a member that
  /// entered the pool. Where only some nodes match, kLeastCells is so much larger that as
  /// many matches are met. It also stops once the cells so far list kMostOfMean times the
  /// average number of codes of `nprobe` cells. Then it scores the nodes whose
  /// second-nearest centroid is one of these. It calls `look(all)` early, while the
  /// pool's best are mostly known: now and then, when its first half will hardly change,
  /// and with `all` once only replicas remain.
  template <typename Look>
  void ScoreCells(CandidatePool& pool, const Look& look) {
    const Cells& cells = *pool.index->cells;
    const std::uint64_t most = kMostOfMean * cells.MeanCodes(cells_);
    std::uint64_t least = kLeastCells;
    if (const Matches* matches = pool.params.matches; matches != nullptr)
      least = least * pool.index->layers.n() / std::max<std::uint64_t>(matches->size(), 1);
    std::uint64_t codes = 0;
    // Three dependent lookups: each is prefetched some cells before the next.
    constexpr std::uint32_t kCodes = 4, kLists = 12, kCells = 24;
    std::uint32_t last = 0, next_look = kFirstLook;
    for (std::uint32_t i = 0; i < cells_ + kCells; ++i) {
      if (i < cells_) cells.PrefetchCellsOf(centroids_[i].id);
      if (const std::uint32_t at = i - (kCells - kLists); at < cells_)
        cells.PrefetchLists(centroids_[at].id);
      if (const std::uint32_t at = i - (kCells - kCodes); at < cells_) PrefetchCodes(pool, at);
      if (i < kCells) continue;
      const std::uint32_t at = i - kCells;
      if (ScoreMembers(pool, centroids_[at])) last = at;
      if (at + 1 == next_look) {
        look(false);
        next_look *= 2;
      }
      codes += cells.CodesOf(centroids_[at].id);
      if (at >= least + 2 * std::uint64_t{last} || codes >= most) cells_ = std::min(cells_, at + 1);
    }
    if (cells_ > 0) look(true);
    for (std::uint32_t i = 0; i < cells_; ++i) {
      for (const NodeId id : cells.ReplicasOf(centroids_[i].id)) MeetNode(cells, id);
      if (met_.size() >= 2 * kBatch) ScoreMet(pool, false);
    }
    ScoreMet(pool, false);
  }

  /// Whether a node with this distance is beyond the last cell that was scored.
  bool IsBeyond(float distance) const {
    return cells_ > 0 && distance > centroids_[cells_ - 1].distance;
  }

  /// Scores some of the nodes that may be answers, from `next` on in the order of ids,
  /// which is that of cells. Returns the first that it has not scored; n: none is left.
  std::uint64_t ScoreFrom(CandidatePool& pool, std::uint64_t next) {
    constexpr std::uint32_t kAtOnce = 8 * kBatch;
    const std::uint64_t n = pool.index->layers.n();
    pool.scratch->batch.Reserve(kAtOnce);
    for (std::uint32_t i = 0; i < kAtOnce && next < n; ++i, next = pool.NextMatch(next + 1)) {
      const auto id = static_cast<NodeId>(next);
      if (id >= pool.index->n1()) {
        MeetNode(*pool.index->cells, id);
      } else if (id != pool.scratch->visited.excluded()) {
        pool.Gather(id);
      }
    }
    ScoreMet(pool, true);
    return next;
  }

  /// Scores the neighbors of `nodes` that are new; records[i] is the record of nodes[i].
  void ScoreNeighbors(CandidatePool& pool, std::span<const NodeId> nodes,
                      std::span<const std::byte* const> records) {
    const PlacedIndex& index = *pool.index;
    RowBatch& batch = pool.scratch->batch;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      links_.resize(index.records.max_links);
      const NodeId* links = index.Links(nodes[i], records[i], links_.data());
      NodeId* const fresh = batch.ids.data() + batch.size;
      const std::uint32_t count =
          pool.scratch->visited.InsertNew(links, index.records.max_links, index.layers.n(), fresh);
      for (std::uint32_t l = 0; l < count; ++l) {
        const NodeId node = fresh[l];
        node < index.n1() ? pool.Gather(node) : MeetNode(*index.cells, node);
      }
    }
    ScoreMet(pool, true);
  }

  /// Whether the cell of this promoted node was scored.
  bool HasScored(NodeId centroid) const { return places_.Find(centroid) < cells_; }

  /// The estimated distance of `id`, less `errors` times its error. The centroid of `id`
  /// must have been met.
  float Lower(const CandidatePool& pool, NodeId id, float errors) const {
    const std::byte* code = pool.index->Code(id);
    const NodeId centroid = pool.index->cells->CentroidOf(id);
    const float distance = centroids_[places_.Find(centroid)].distance,
                gap = pool.code_query.SquaredGap(pool.index->FastRow(centroid), distance);
    float estimate, error;
    pool.code_query.Estimate(&code, &distance, 1, &estimate, &error, &gap);
    return estimate - errors * error;
  }

 private:
  static constexpr std::size_t kBatch = 64;
  /// With 1,000 cells, 2 to 5 times fewer codes are scored than all, and recall@10 falls
  /// by at most 0.0006 (SIFT 0.9741 to 0.9735; others 0 to 0.0001): doc/tuning.md. Chosen
  /// on these data sets; for others it is a guess.
  static constexpr std::uint32_t kLeastCells = 32;
  /// With 1M SIFT vectors, a fifth lie in lists of more than 100 codes, where the mean is
  /// 9. Without this limit one query in ten scored 20 to 80 thousand codes:
  /// doc/tuning.md. Between 0.7 and 4, SIFT is equally fast at equal recall; for other
  /// data it is a guess.
  static constexpr std::uint64_t kMostOfMean = 2;
  /// Fewer cells take less time than a read. Like the half of a hop that is requested
  /// then, it was chosen on one drive and SIFT; elsewhere it is a guess.
  static constexpr std::uint32_t kFirstLook = 64;

  struct Centroid {
    NodeId id;
    float distance;
  };
  /// A node whose code is to be estimated.
  struct Met {
    NodeId id;
    std::uint32_t place;  ///< its cell, then where its centroid's distance is
  };

  void MeetCentroid(NodeId id, float distance) {
    places_.Insert(id, static_cast<std::uint32_t>(centroids_.size()));
    centroids_.push_back({id, distance});
  }
  void MeetNode(const Cells& cells, NodeId id) {
    cells.PrefetchCellOf(id);
    met_.push_back({id, 0});
  }

  void PrefetchCodes(const CandidatePool& pool, std::uint32_t cell) const {
    const auto [begin, end] = pool.index->cells->MembersOf(centroids_[cell].id);
    if (begin == end) return;
    PrefetchLines(pool.index->Code(begin),
                  std::min<std::size_t>(end - begin, 16) * pool.index->code_bytes);
  }

  /// Returns whether any member entered the pool.
  bool ScoreMembers(CandidatePool& pool, Centroid centroid) {
    bool entered = false;
    const auto [first, end] = pool.index->cells->MembersOf(centroid.id);
    float estimates[kBatch];
    for (NodeId begin = first; begin < end; begin += kBatch) {
      const auto count = std::min<NodeId>(end - begin, kBatch);
      pool.code_query.EstimateCell(pool.index->Code(begin), count, centroid.distance, estimates,
                                   nullptr);
      pool.counters->total.estimates += count;
      const float bound = pool.BoundDistance();
      for (NodeId i = 0; i < count; ++i) {
        if (estimates[i] > bound || !pool.Offer(estimates[i], begin + i)) continue;
        pool.scratch->visited.Insert(begin + i);
        entered = true;
      }
    }
    return entered;
  }

  /// Scores the promoted neighbors in the row batch and the newly met centroids in one
  /// go. Then it scores all of met_, which are neighbors or replicas. A replica whose own
  /// cell was scored is known already.
  void ScoreMet(CandidatePool& pool, bool are_neighbors) {
    const std::uint32_t promoted = pool.scratch->batch.size;
    const std::size_t centroids = centroids_.size();
    FindCentroids(pool, are_neighbors ? 0 : cells_);
    pool.ScoreGathered(promoted);
    const DistanceKey* key = pool.scratch->batch.keys.data() + promoted;
    for (std::size_t i = centroids; i < centroids_.size(); ++i)
      centroids_[i].distance = pool.index->kernels.ToDistance(*key++);
    pool.counters->total.estimates += met_.size();
    const std::byte* codes[kBatch];
    float centroid_distances[kBatch], estimates[kBatch];
    for (std::size_t begin = 0; begin < met_.size(); begin += kBatch) {
      const std::size_t count = std::min(met_.size() - begin, kBatch);
      const Met* const met = met_.data() + begin;
      for (std::size_t i = 0; i < count; ++i) {
        codes[i] = pool.index->Code(met[i].id);
        centroid_distances[i] = centroids_[met[i].place].distance;
      }
      pool.code_query.Estimate(codes, centroid_distances, count, estimates, nullptr);
      const float bound = pool.BoundDistance();
      for (std::size_t i = 0; i < count; ++i) {
        if (estimates[i] <= bound && pool.Offer(estimates[i], met[i].id) && !are_neighbors)
          pool.scratch->visited.Insert(met[i].id);
      }
    }
    met_.clear();
  }

  /// Maps ids to places of their centroids' distances. This takes two lookups that each
  /// miss the cache, so all ids do the first, then all do the second. Newly met centroids
  /// go into the row batch. Nodes whose centroid is one of the first `known` are dropped.
  void FindCentroids(CandidatePool& pool, std::uint32_t known) {
    const PlacedIndex& index = *pool.index;
    for (Met& met : met_) {
      met.place = index.cells->CellOf(met.id);
      index.cells->PrefetchCentroidOfCell(met.place);
    }
    pool.scratch->batch.Reserve(pool.scratch->batch.size + met_.size());
    std::size_t kept = 0;
    for (const Met& met : met_) {
      const NodeId centroid = index.cells->CentroidOfCell(met.place);
      std::uint32_t place = places_.Find(centroid);
      if (place < known) continue;
      if (place == IdMap::kAbsent) {
        place = static_cast<std::uint32_t>(centroids_.size());
        MeetCentroid(centroid, 0);
        pool.Gather(centroid);
      }
      PrefetchLines(index.Code(met.id), index.code_bytes);
      met_[kept++] = {met.id, place};
    }
    met_.resize(kept);
  }

  std::vector<Centroid> centroids_;  ///< centroids met
  IdMap places_;                     ///< position of each of them in centroids_
  std::uint32_t cells_ = 0;          ///< how many of the first have their cells scored
  std::vector<Met> met_;             ///< empty between calls
  std::vector<NodeId> links_;        ///< scratch
};

}  // namespace hmann
