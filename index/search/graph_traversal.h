#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "index/base/prefetch.h"
#include "index/search/epsilon.h"
#include "index/search/traversal.h"

namespace hmann {

/// Graph search of L0. One step reads the links of the `width` nearest unexpanded
/// candidates (1 in the paper). The next step reads the vectors of their new neighbors in
/// slow memory. Promoted neighbors are scored from fast memory; so are all neighbors if
/// the traversal uses codes of scalar quantization. It ends when every candidate of its
/// beam is expanded, or when the nearest unexpanded one is beyond epsilon of the kth.
///
/// `--mode graph` is one such traversal; `--mode multi-start` is one a thread
/// (multi_start_traversal.h).
class GraphTraversal {
 public:
  /// Opens with the unexpanded candidates of scratch.beam (scored, and in
  /// scratch.visited), bounded by the beam's width. `results`, when given, is offered
  /// every node that the traversal scores, and `limit` refers to its kth. It may be
  /// shared with other traversals of the same thread. `width`: candidates per step.
  void OpenFound(const TraversalStart& start, Results* results, EpsilonLimit limit,
                 std::uint32_t width) {
    Bind(start, width);
    if (results != nullptr) {
      results_ = results;
      nearest_ = &results->beam;
    }
    limit_ = limit;
    NextCandidates();
  }

  /// Opens with one node that is not scored yet, for an index without upper layers, or to
  /// reach what the candidates did not.
  void OpenAt(const TraversalStart& start, NodeId node) {
    Bind(start, 1);
    scratch_->batch.ids[0] = node;
    Meet(scratch_->visited.Insert(node) ? 1 : 0);
  }

  bool Done() const { return step_ == Step::kDone; }
  /// It ended because it has computed ResolvedParams::most_distances, or among nodes too
  /// few of which match.
  bool GaveUp() const { return gave_up_; }
  /// Ids whose records the next Absorb needs, at most width * max_links; may be empty.
  std::span<const NodeId> Wanted() const { return {wanted_.data(), wanted_size_}; }
  /// The part of the wanted records that the next Absorb reads. An executor of an
  /// addressable tier fetches only that part.
  RecordPart Part() const { return step_ == Step::kLinks ? RecordPart::kLinks : RecordPart::kRow; }
  /// Calls hint(id) for the unexpanded candidates, nearest first.
  template <typename Hint>
  void ForUpcoming(std::uint32_t most, const Hint& hint) const {
    const Beam& beam = scratch_->beam;
    for (std::uint32_t i = beam.next(); i < beam.size() && most > 0; ++i) {
      if (!beam.expanded(i) && hint(beam.id(i))) --most;
    }
  }

  void Absorb(std::span<const std::byte* const> records) {
    if (step_ == Step::kLinks) {
      AbsorbLinks(records);
    } else {
      AbsorbVectors(records);
    }
  }

 private:
  enum class Step { kLinks, kVectors, kDone };

  void Bind(const TraversalStart& start, std::uint32_t width) {
    index_ = &start.index;
    query_ = start.query;
    scratch_ = &start.scratch;
    counters_ = &start.counters;
    results_ = nullptr;
    nearest_ = &scratch_->beam;
    limit_ = {};
    width_ = width;
    most_distances_ = start.params.most_distances;
    gave_up_ = false;
    const std::size_t most = std::size_t{width} * index_->records.max_links;
    scratch_->batch.Reserve(most);
    if (wanted_.size() < most) wanted_.resize(most);
    links_.resize(index_->records.max_links);
  }

  void NextCandidates() {
    Beam& beam = scratch_->beam;
    const DistanceKey limit = limit_.End(index_->kernels, *nearest_, beam);
    const auto goes_on = [&] {
      return beam.HasNext(beam.width()) && beam.key(beam.next()) <= limit;
    };
    gave_up_ = goes_on() ? counters_->Scored() >= most_distances_ : HasLostMatches();
    wanted_size_ = 0;
    while (wanted_size_ < width_ && !gave_up_ && goes_on())
      wanted_[wanted_size_++] = beam.PopNext();
    step_ = wanted_size_ > 0 ? Step::kLinks : Step::kDone;
    Counters& total = counters_->total;
    total.expanded_l0 += wanted_size_;
    total.node_accesses += wanted_size_;
    // The records of the others arrived with their vectors.
    std::uint32_t unread = 0;
    for (std::uint32_t i = 0; i < wanted_size_; ++i) {
      if (wanted_[i] >= index_->fast_rows()) continue;
      ++unread;
      counters_->Read({&wanted_[i], 1});
    }
    total.hops += unread > 0 ? 1 : 0;
  }

  /// Whether matches were found only beyond the nodes that the beam could hold, so that
  /// nearer ones are to be expected elsewhere.
  bool HasLostMatches() const {
    const Beam& beam = scratch_->beam;
    return results_ != nullptr && results_->only != nullptr && beam.size() == beam.width() &&
           nearest_->size() > 0 &&
           std::min(nearest_->key(nearest_->size() - 1), limit_.most()) > beam.bound();
  }

  /// The first `fresh` of the batch's ids are new. Those with rows in fast memory
  /// (promoted nodes; with codes, all nodes) stay in the batch to be scored from there.
  /// The records of the others are wanted.
  void Meet(std::uint32_t fresh) {
    RowBatch& batch = scratch_->batch;
    NodeId* const ids = batch.ids.data();
    NodeId* const wanted = wanted_.data();
    const NodeId fast_rows = index_->fast_rows();
    std::uint32_t fast = 0, others = 0;
    for (std::uint32_t i = 0; i < fresh; ++i) {
      const NodeId node = ids[i];
      ids[fast] = wanted[others] = node;
      fast += node < fast_rows ? 1 : 0;
      others += node < fast_rows ? 0 : 1;
    }
    batch.size = fast;
    wanted_size_ = others;
    const std::size_t row_bytes = PrefetchBytes(index_->kernels);
    for (std::uint32_t i = 0; i < fast; ++i) {
      batch.rows[i] = index_->FastRow(ids[i]);
      PrefetchLines(batch.rows[i], row_bytes);
    }
    step_ = Step::kVectors;
  }

  void AbsorbLinks(std::span<const std::byte* const> records) {
    std::uint32_t fresh = 0;
    for (std::uint32_t i = 0; i < wanted_size_; ++i) {
      const NodeId* links = index_->Links(wanted_[i], records[i], links_.data());
      fresh += scratch_->visited.InsertNew(links, index_->records.max_links, index_->layers.n(),
                                           scratch_->batch.ids.data() + fresh);
    }
    Meet(fresh);
  }

  void AbsorbVectors(std::span<const std::byte* const> records) {
    RowBatch& batch = scratch_->batch;
    Counters& total = counters_->total;
    (index_->quantizer != nullptr ? total.estimates : total.distances_fast) += batch.size;
    total.distances_slow += wanted_size_;
    total.node_accesses += wanted_size_;
    total.hops += wanted_size_ > 0 ? 1 : 0;
    counters_->Read(Wanted());
    for (std::uint32_t i = 0; i < wanted_size_; ++i) batch.Add(wanted_[i], records[i]);
    batch.Score(index_->kernels, query_);
    if (results_ != nullptr) results_->Offer(batch);
    const DistanceKey limit = limit_.Kept(index_->kernels, *nearest_, scratch_->beam);
    scratch_->beam.DropBeyond(limit);
    batch.Keep(std::min(limit, scratch_->beam.bound()));
    scratch_->beam.InsertMany(batch.keys.data(), batch.ids.data(), batch.size);
    NextCandidates();
  }

  const PlacedIndex* index_ = nullptr;
  const std::byte* query_ = nullptr;
  LayerScratch* scratch_ = nullptr;
  TraversalCounters* counters_ = nullptr;
  Results* results_ = nullptr;
  const Beam* nearest_ = nullptr;  ///< the beam to which limit_ refers
  EpsilonLimit limit_;
  std::vector<NodeId> wanted_;
  std::vector<NodeId> links_;  ///< scratch
  std::uint32_t wanted_size_ = 0, width_ = 1;
  std::uint64_t most_distances_ = 0;
  bool gave_up_ = false;
  Step step_ = Step::kDone;
};

/// `--mode graph`: one graph search from everything that L1 has found.
class GraphL0Traversal : public GraphTraversal {
 public:
  static constexpr bool kLeavesBeam = true;
  void Open(const TraversalStart& start) {
    start.scratch.beam.Reopen(start.params.ef_l0);
    // Keys of codes have a scale of their own.
    const DistanceKey most = start.index.quantizer == nullptr
                                 ? MostKey(start.index.kernels, start.params)
                                 : ~DistanceKey{0};
    OpenFound(start, start.results,
              EpsilonLimit::Of(start.params, most, start.index.DistanceUnit()),
              start.params.beam_width);
  }
  template <typename Add>
  void ForResults(const Add&) const {}
  void Finish(TraversalCounters&) const {}
};

}  // namespace hmann
