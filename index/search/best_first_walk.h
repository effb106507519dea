#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "index/base/prefetch.h"
#include "index/search/epsilon.h"
#include "index/search/walk.h"

namespace hmann {

/// Best-first search of L0. One step reads the links of the nearest unexpanded candidates
/// (`width` of them, 1 in the paper), the next the vectors of those of their neighbours
/// that are new and live in slow memory; promoted neighbours are scored from fast memory,
/// and so are all where the walk goes by codes of scalar quantisation.
/// It ends when every candidate of its beam is expanded, or the nearest that is not is
/// beyond epsilon of the kth.
///
/// `--walk best-first` is one such walk, `--walk multi-start` many of them
/// (multi_start_walk.h).
class BestFirstWalk {
 public:
  /// Opens with what scratch.beam holds unexpanded (scored, and in scratch.visited),
  /// bounded by the beam's width. `results`, when given, is offered every node that the
  /// walk scores, and its kth is what `limit` goes by; it may be shared with other walks
  /// of the same thread. `width`:
  /// candidates of a step.
  void OpenFound(const WalkStart& start, Results* results, EpsilonLimit limit,
                 std::uint32_t width) {
    Bind(start, width);
    if (results != nullptr) {
      results_ = results;
      nearest_ = &results->beam;
    }
    limit_ = limit;
    NextCandidates();
  }

  /// Opens with one node that is not scored yet (index without upper layers; or to reach
  /// what the candidates did not).
  void OpenAt(const WalkStart& start, NodeId node) {
    Bind(start, 1);
    scratch_->batch.ids[0] = node;
    Meet(scratch_->visited.Insert(node) ? 1 : 0);
  }

  bool Done() const { return step_ == Step::kDone; }
  /// Ids whose records the next Absorb needs, at most width * max_links; may be empty.
  std::span<const NodeId> Wanted() const { return {wanted_.data(), wanted_size_}; }
  /// The part of the wanted records that the next Absorb reads (a driver of an
  /// addressable tier fetches just that).
  RecordPart Part() const { return step_ == Step::kLinks ? RecordPart::kLinks : RecordPart::kRow; }
  /// The unexpanded candidates, nearest first.
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

  void Bind(const WalkStart& start, std::uint32_t width) {
    index_ = &start.index;
    query_ = start.query;
    scratch_ = &start.scratch;
    counters_ = &start.counters;
    results_ = nullptr;
    nearest_ = &scratch_->beam;
    limit_ = {};
    width_ = width;
    const std::size_t most = std::size_t{width} * index_->records.max_links;
    scratch_->batch.Reserve(most);
    if (wanted_.size() < most) wanted_.resize(most);
  }

  void NextCandidates() {
    Beam& beam = scratch_->beam;
    const DistanceKey limit = limit_.Limit(index_->kernels, *nearest_);
    wanted_size_ = 0;
    while (wanted_size_ < width_ && beam.HasNext(beam.width()) && beam.key(beam.next()) <= limit)
      wanted_[wanted_size_++] = beam.PopNext();
    step_ = wanted_size_ > 0 ? Step::kLinks : Step::kDone;
    Counters& total = counters_->total;
    total.expanded_l0 += wanted_size_;
    total.slow_touches += wanted_size_;
    // The records of the others came with their vectors.
    std::uint32_t unread = 0;
    for (std::uint32_t i = 0; i < wanted_size_; ++i) {
      if (wanted_[i] >= index_->fast_rows()) continue;
      ++unread;
      counters_->Read({&wanted_[i], 1});
    }
    total.rounds += unread > 0 ? 1 : 0;
  }

  /// The first `fresh` of the batch's ids are met for the first time: those whose rows
  /// are in fast memory (of promoted nodes; codes of all) stay in it, to be scored from
  /// there; the others' records are wanted.
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
      const NodeId* links = index_->Links(wanted_[i], records[i]);
      fresh += scratch_->visited.InsertNew(links, index_->records.max_links, index_->layers.n(),
                                           scratch_->batch.ids.data() + fresh);
    }
    Meet(fresh);
  }

  void AbsorbVectors(std::span<const std::byte* const> records) {
    RowBatch& batch = scratch_->batch;
    Counters& total = counters_->total;
    (index_->quantiser != nullptr ? total.estimates : total.distances_fast) += batch.size;
    total.distances_slow += wanted_size_;
    total.slow_touches += wanted_size_;
    total.rounds += wanted_size_ > 0 ? 1 : 0;
    counters_->Read(Wanted());
    for (std::uint32_t i = 0; i < wanted_size_; ++i)
      batch.Add(wanted_[i], records[i] + index_->records.row_offset);
    batch.Score(index_->kernels, query_);
    if (results_ != nullptr) results_->Offer(batch);
    const DistanceKey limit = limit_.Limit(index_->kernels, *nearest_);
    scratch_->beam.DropBeyond(limit);
    batch.Keep(std::min(limit, scratch_->beam.bound()));
    scratch_->beam.InsertMany(batch.keys.data(), batch.ids.data(), batch.size);
    NextCandidates();
  }

  const PlacedIndex* index_ = nullptr;
  const std::byte* query_ = nullptr;
  LayerScratch* scratch_ = nullptr;
  WalkCounters* counters_ = nullptr;
  Results* results_ = nullptr;
  const Beam* nearest_ = nullptr;  ///< what limit_ goes by
  EpsilonLimit limit_;
  std::vector<NodeId> wanted_;
  std::uint32_t wanted_size_ = 0, width_ = 1;
  Step step_ = Step::kDone;
};

/// `--walk best-first`: one best-first search with everything that L1 has found.
class BestFirstL0Walk : public BestFirstWalk {
 public:
  static constexpr bool kLeavesBeam = true;
  void Open(const WalkStart& start) {
    start.scratch.beam.Reopen(start.dials.ef_l0);
    OpenFound(start, start.results, {start.dials.epsilon, start.dials.k}, start.dials.beam_width);
  }
  template <typename Add>
  void ForResults(const Add&) const {}
  void Finish(WalkCounters&) const {}
};

}  // namespace hmann
