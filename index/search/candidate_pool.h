#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "hmann/resolved_params.h"
#include "index/base/prefetch.h"
#include "index/codes/encoder.h"
#include "index/search/epsilon.h"
#include "index/search/traversal.h"

namespace hmann {

/// The state that a quantized traversal shares with its scorers: the query, the
/// candidates and the nearest nodes so far.
///
/// The pool is scratch->beam. It holds promoted nodes by their exact distance and other
/// nodes by their estimate, until they are read.
struct CandidatePool {
  /// The error_bound of a scan, a guess. A scan of matches has that of the search for
  /// which it stands in.
  static constexpr float kErrorsOfScan = 2;

  const PlacedIndex* index = nullptr;
  const std::byte* query = nullptr;
  LayerScratch* scratch = nullptr;
  TraversalCounters* counters = nullptr;
  ResolvedParams params;
  CodeQuery code_query;
  Beam results;           ///< the k nearest by their exact distance
  DistanceKey limit = 0;  ///< of this hop: larger keys are beyond epsilon

  /// The candidates that L1 has found, which are in the beam, give the first results.
  void Open(const TraversalStart& start) {
    index = &start.index;
    query = start.query;
    scratch = &start.scratch;
    counters = &start.counters;
    params = start.params;
    if (start.scans) {
      // Candidates that may be among the k nearest are read at once.
      params.ef_l0 = params.nprobe = 0;
      if (params.matches == nullptr) params.beam_width = kMaxBeamWidth;
      params.epsilon.reset();
      if (params.matches == nullptr || !params.error_bound.has_value())
        params.error_bound = kErrorsOfScan;
    }
    code_query.Prepare(*index->encoder, query);
    scratch->batch.Reserve(std::size_t{params.beam_width} * index->records.max_links);
    scratch->batch.size = 0;
    results.Reset(params.k);
    const bool of_l1 = start.results != nullptr && !start.scans;
    const Beam& found = of_l1 ? start.results->beam : scratch->beam;
    for (std::uint32_t i = 0; i < std::min(found.size(), params.k); ++i)
      results.Insert(found.key(i), found.id(i));
    UpdateLimit();
  }

  void UpdateLimit() {
    limit = EpsilonLimit(params, params.k, 1).End(index->kernels, results, results);
  }

  /// The first node at or after `id` that may be an answer; n: none.
  std::uint64_t NextMatch(std::uint64_t id) const {
    return params.matches != nullptr ? params.matches->Next(id) : id;
  }

  /// Nodes that do not match are no candidates: they would only crowd out those that do.
  bool May(NodeId id) const { return params.matches == nullptr || params.matches->Has(id); }

  /// Estimates above this cannot enter the pool or are beyond epsilon. An integer key may
  /// be off by up to 1.
  float BoundDistance() const {
    const DistanceKey bound = std::min(scratch->beam.bound(), limit);
    const float slack =
        IsFloat(index->kernels.dtype) || index->kernels.metric == Metric::kCosine ? 0.0f : 1.0f;
    return bound == ~DistanceKey{0} ? std::numeric_limits<float>::max()
                                    : index->kernels.ToDistance(bound) + slack;
  }

  /// Offers the pool a candidate of slow memory that is not in it. Returns whether it
  /// entered.
  bool Offer(float estimate, NodeId id) {
    const DistanceKey key = index->kernels.ToKey(estimate);
    return key <= std::min(scratch->beam.bound(), limit) && id != scratch->visited.excluded() &&
           May(id) && scratch->beam.Insert(key, id);
  }

  /// Adds a promoted node to the row batch and prefetches its row. The batch is empty
  /// before and after a scorer runs.
  void Gather(NodeId id) {
    const std::byte* row = index->FastRow(id);
    PrefetchLines(row, PrefetchBytes(index->kernels));
    scratch->batch.Add(id, row);
  }

  /// Scores the gathered rows. The first `candidates` of them are new and enter the pool.
  /// The keys stay valid until more is gathered.
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
