#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "hmann/dials.h"
#include "index/base/prefetch.h"
#include "index/codes/encoder.h"
#include "index/search/epsilon.h"
#include "index/search/walk.h"

namespace hmann {

/// What a quantised walk shares with its scorers: the query, the candidates and the
/// nearest nodes so far.
///
/// The pool is scratch->beam. It holds promoted nodes by their exact distance and the
/// others by their estimate, until they are read.
struct CandidatePool {
  const PlacedIndex* index = nullptr;
  const std::byte* query = nullptr;
  LayerScratch* scratch = nullptr;
  WalkCounters* counters = nullptr;
  Dials dials;
  CodeQuery code_query;
  Beam results;           ///< the k nearest by their exact distance
  DistanceKey limit = 0;  ///< of this round: larger keys are beyond epsilon

  /// What L1 has found, which is in the beam, gives the first results.
  void Open(const WalkStart& start) {
    index = &start.index;
    query = start.query;
    scratch = &start.scratch;
    counters = &start.counters;
    dials = start.dials;
    code_query.Prepare(*index->encoder, query);
    scratch->batch.Reserve(std::size_t{dials.beam_width} * index->records.max_links);
    scratch->batch.size = 0;
    results.Reset(dials.k);
    const Beam& found = start.results != nullptr ? start.results->beam : scratch->beam;
    for (std::uint32_t i = 0; i < std::min(found.size(), dials.k); ++i)
      results.Insert(found.key(i), found.id(i));
    UpdateLimit();
  }

  void UpdateLimit() {
    limit = EpsilonLimit{dials.epsilon, dials.k}.Limit(index->kernels, results);
  }

  /// Nodes that do not match are no candidates: they would only crowd out those that do.
  bool May(NodeId id) const { return dials.matches == nullptr || dials.matches->Has(id); }

  /// Estimates above it cannot enter the pool, or are beyond epsilon. An integer key may
  /// round off up to 1.
  float BoundDistance() const {
    const DistanceKey bound = std::min(scratch->beam.bound(), limit);
    const float slack =
        IsFloat(index->kernels.dtype) || index->kernels.metric == Metric::kCosine ? 0.0f : 1.0f;
    return bound == ~DistanceKey{0} ? std::numeric_limits<float>::max()
                                    : index->kernels.ToDistance(bound) + slack;
  }

  /// Offers the pool a candidate of slow memory that is not in it, and returns whether it
  /// entered.
  bool Offer(float estimate, NodeId id) {
    const DistanceKey key = index->kernels.ToKey(estimate);
    return key <= std::min(scratch->beam.bound(), limit) && id != scratch->visited.excluded() &&
           May(id) && scratch->beam.Insert(key, id);
  }

  /// Adds a promoted node to the row batch, and fetches its row. The batch is empty
  /// before a scorer begins, and after.
  void Gather(NodeId id) {
    const std::byte* row = index->FastRow(id);
    PrefetchLines(row, PrefetchBytes(index->kernels));
    scratch->batch.Add(id, row);
  }

  /// Scores what was gathered. The first `candidates` of it are met for the first time,
  /// and enter. The keys stay until more is gathered.
  void ScoreGathered(std::uint32_t candidates) {
    RowBatch& batch = scratch->batch;
    batch.Score(index->kernels, query);
    counters->total.distances_fast += batch.size;
    for (std::uint32_t i = 0; i < candidates; ++i) {
      if (!May(batch.ids[i])) continue;
      results.Insert(batch.keys[i], batch.ids[i]);
      if (batch.keys[i] <= limit) scratch->beam.Insert(batch.keys[i], batch.ids[i]);
    }
    batch.size = 0;
  }
};

}  // namespace hmann
