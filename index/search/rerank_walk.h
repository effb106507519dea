#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "index/base/prefetch.h"
#include "index/search/walk.h"

namespace hmann {

/// Exact distances take the place of keys of codes: of the k nearest that a walk over
/// codes of scalar quantisation has found, and of those after them whose vectors may be
/// nearer (ScalarQuantiser::Margin).
class RerankWalk {
 public:
  /// start: of the index itself; start.scratch.beam has what was found, by keys of codes,
  /// and then those that were ranked. `coded_query`: as ScalarQuantiser::EncodeQuery gave
  /// it.
  void Open(const WalkStart& start, const std::byte* coded_query) {
    index_ = &start.index;
    query_ = start.query;
    scratch_ = &start.scratch;
    counters_ = &start.counters;
    wanted_.clear();
    const Beam& found = scratch_->beam;
    const std::uint32_t kept = std::min(found.size(), start.kept), k = start.dials.k;
    RowBatch& batch = scratch_->batch;
    batch.Reserve(kept);
    batch.size = 0;
    const DistanceKey most =
        k < kept ? start.index.coded->quantiser->Margin(coded_query, found.key(k - 1)) : 0;
    for (std::uint32_t i = 0; i < kept && (i < k || found.key(i) <= most); ++i) {
      const NodeId id = found.id(i);
      if (id >= index_->n1()) {
        wanted_.push_back(id);
        continue;
      }
      const std::byte* row = index_->FastRow(id);
      PrefetchLines(row, PrefetchBytes(index_->kernels));
      batch.Add(id, row);
    }
    counters_->total.distances_fast += batch.size;
    counters_->total.distances_slow += wanted_.size();
    counters_->total.slow_touches += wanted_.size();
    counters_->total.rounds += wanted_.empty() ? 0 : 1;
    counters_->Read(wanted_);
    scratch_->beam.Reset(found.width());
    read_ = 0;
    done_ = false;
  }

  bool Done() const { return done_; }
  /// As many at a time as other walks want.
  std::span<const NodeId> Wanted() const {
    const std::size_t left = wanted_.size() - read_;
    return std::span(wanted_).subspan(read_,
                                      std::min<std::size_t>(left, index_->records.max_links));
  }
  RecordPart Part() const { return RecordPart::kRow; }
  template <typename Hint>
  void ForUpcoming(std::uint32_t, const Hint&) const {}

  void Absorb(std::span<const std::byte* const> records) {
    RowBatch& batch = scratch_->batch;
    for (const std::byte* record : records)
      batch.Add(wanted_[read_++], record + index_->records.row_offset);
    batch.Score(index_->kernels, query_);
    scratch_->beam.InsertMany(batch.keys.data(), batch.ids.data(), batch.size);
    batch.size = 0;
    done_ = read_ == wanted_.size();
  }

 private:
  const PlacedIndex* index_ = nullptr;
  const std::byte* query_ = nullptr;
  LayerScratch* scratch_ = nullptr;
  WalkCounters* counters_ = nullptr;
  std::vector<NodeId> wanted_;
  std::size_t read_ = 0;  ///< of wanted_
  bool done_ = true;
};

}  // namespace hmann
