#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "index/base/prefetch.h"
#include "index/graph/layer_search.h"
#include "index/graph/types.h"
#include "index/search/placed_index.h"
#include "index/search/reach.h"
#include "index/search/walk.h"

namespace hmann {

/// Best-first search of L0. One step reads the links of the nearest unexpanded candidates (`width` of them, 1 in the paper), the next the vectors of those of
/// their neighbours that are new and live in slow memory; promoted neighbours are scored from fast memory. It ends when every candidate of
/// its beam is expanded, or the nearest that is not is out of reach of the kth.
///
/// `--walk pool` is one such walk opened with everything that L1 found; `--walk beams` is many of width efSearchL0, one for each L1
/// candidate (multi_start_walk.h).
class BestFirstWalk {
 public:
  /// Opens with what scratch.beam holds unexpanded (scored, and in scratch.visited), bounded by the beam's width.
  /// `results`, when given, is offered every node that the walk scores; it may be shared with other walks of the same thread.
  void Open(const PlacedIndex& index, const std::byte* query, LayerScratch& scratch, WalkCounters& counters, Beam* results = nullptr,
            Reach reach = {}, std::uint32_t width = 1) {
    Bind(index, query, scratch, counters, width);
    results_ = results;
    reach_ = reach;
    NextCandidates();
  }

  /// Opens with one node that is not scored yet (index without upper layers; or to reach what the candidates did not).
  void OpenAt(const PlacedIndex& index, const std::byte* query, NodeId node, LayerScratch& scratch, WalkCounters& counters) {
    Bind(index, query, scratch, counters, 1);
    scratch.batch.ids[0] = node;
    Meet(scratch.visited.Insert(node) ? 1 : 0);
  }

  bool Done() const { return step_ == Step::kDone; }
  /// Ids whose records the next Absorb needs, at most width * max_links; may be empty.
  std::span<const NodeId> Wanted() const { return {wanted_.data(), wanted_size_}; }
  /// The part of the wanted records that the next Absorb reads (a driver of an addressable tier fetches just that).
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

  void Bind(const PlacedIndex& index, const std::byte* query, LayerScratch& scratch, WalkCounters& counters, std::uint32_t width) {
    index_ = &index;
    query_ = query;
    scratch_ = &scratch;
    counters_ = &counters;
    results_ = nullptr;
    reach_ = {};
    width_ = width;
    const std::size_t most = std::size_t{width} * index.records.max_links;
    scratch.batch.Reserve(most);
    if (wanted_.size() < most) wanted_.resize(most);
  }

  void NextCandidates() {
    Beam& beam = scratch_->beam;
    const DistanceKey limit = reach_.Limit(index_->kernels, beam);
    wanted_size_ = 0;
    while (wanted_size_ < width_ && beam.HasNext(beam.width()) && beam.key(beam.next()) <= limit) wanted_[wanted_size_++] = beam.PopNext();
    step_ = wanted_size_ > 0 ? Step::kLinks : Step::kDone;
    Counters& total = counters_->total;
    total.expanded_l0 += wanted_size_;
    total.slow_touches += wanted_size_;
    // An unpromoted node's record came with its vector.
    std::uint32_t promoted = 0;
    for (std::uint32_t i = 0; i < wanted_size_; ++i) {
      if (wanted_[i] >= index_->n1()) continue;
      ++promoted;
      counters_->Read({&wanted_[i], 1});
    }
    total.rounds += promoted > 0 ? 1 : 0;
  }

  /// The first `fresh` of the batch's ids are met for the first time: the promoted ones stay in it, to be scored from fast memory; the
  /// others' records are wanted.
  void Meet(std::uint32_t fresh) {
    RowBatch& batch = scratch_->batch;
    NodeId* const ids = batch.ids.data();
    NodeId* const wanted = wanted_.data();
    const NodeId n1 = index_->n1();
    std::uint32_t promoted = 0, others = 0;
    for (std::uint32_t i = 0; i < fresh; ++i) {
      const NodeId node = ids[i];
      ids[promoted] = wanted[others] = node;
      promoted += node < n1 ? 1 : 0;
      others += node < n1 ? 0 : 1;
    }
    batch.size = promoted;
    wanted_size_ = others;
    const std::size_t row_bytes = PrefetchBytes(index_->kernels);
    for (std::uint32_t i = 0; i < promoted; ++i) {
      batch.rows[i] = index_->FastRow(ids[i]);
      PrefetchLines(batch.rows[i], row_bytes);
    }
    step_ = Step::kVectors;
  }

  void AbsorbLinks(std::span<const std::byte* const> records) {
    std::uint32_t fresh = 0;
    for (std::uint32_t i = 0; i < wanted_size_; ++i) {
      const NodeId* links = index_->Links(wanted_[i], records[i]);
      fresh += scratch_->visited.InsertNew(links, index_->records.max_links, index_->layers.n(), scratch_->batch.ids.data() + fresh);
    }
    Meet(fresh);
  }

  void AbsorbVectors(std::span<const std::byte* const> records) {
    RowBatch& batch = scratch_->batch;
    Counters& total = counters_->total;
    total.distances_fast += batch.size;
    total.distances_slow += wanted_size_;
    total.slow_touches += wanted_size_;
    total.rounds += wanted_size_ > 0 ? 1 : 0;
    counters_->Read(Wanted());
    for (std::uint32_t i = 0; i < wanted_size_; ++i) batch.Add(wanted_[i], records[i] + index_->records.row_offset);
    batch.Score(index_->kernels, query_);
    if (results_ != nullptr) {
      for (std::uint32_t i = 0; i < batch.size; ++i) results_->InsertUnique(batch.keys[i], batch.ids[i]);
    }
    const DistanceKey limit = reach_.Limit(index_->kernels, scratch_->beam);
    scratch_->beam.DropBeyond(limit);
    batch.Keep(std::min(limit, scratch_->beam.bound()));
    for (std::uint32_t i = 0; i < batch.size; ++i) scratch_->beam.Insert(batch.keys[i], batch.ids[i]);
    NextCandidates();
  }

  const PlacedIndex* index_ = nullptr;
  const std::byte* query_ = nullptr;
  LayerScratch* scratch_ = nullptr;
  WalkCounters* counters_ = nullptr;
  Beam* results_ = nullptr;
  Reach reach_;
  std::vector<NodeId> wanted_;
  std::uint32_t wanted_size_ = 0, width_ = 1;
  Step step_ = Step::kDone;
};

}  // namespace hmann
