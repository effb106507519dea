#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "index/base/prefetch.h"
#include "index/search/traversal.h"

namespace hmann {

/// Replaces keys of codes by exact distances. It does so for the k nearest that a
/// traversal over codes of scalar quantization has found, and for those after them whose
/// vectors may be nearer (ScalarQuantizer::Margin).
class RerankTraversal {
 public:
  /// start: of the index itself. start.scratch.beam has the nodes found, by keys of
  /// codes; afterwards it has the reranked nodes. `coded_query`: from
  /// ScalarQuantizer::EncodeQuery.
  void Open(const TraversalStart& start, const std::byte* coded_query) {
    index_ = &start.index;
    query_ = start.query;
    scratch_ = &start.scratch;
    counters_ = &start.counters;
    wanted_.clear();
    const Beam& found = scratch_->beam;
    const std::uint32_t kept = std::min(found.size(), start.kept), k = start.params.k;
    RowBatch& batch = scratch_->batch;
    batch.Reserve(kept);
    batch.size = 0;
    const DistanceKey most =
        k < kept ? start.index.coded->quantizer->Margin(coded_query, found.key(k - 1)) : 0;
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
    counters_->total.node_accesses += wanted_.size();
    counters_->total.hops += wanted_.empty() ? 0 : 1;
    counters_->Read(wanted_);
    scratch_->beam.Reset(found.width());
    read_ = 0;
    done_ = false;
  }

  bool Done() const { return done_; }
  /// At most as many at a time as other traversals want.
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
    for (const std::byte* record : records) batch.Add(wanted_[read_++], record);
    batch.Score(index_->kernels, query_);
    scratch_->beam.InsertMany(batch.keys.data(), batch.ids.data(), batch.size);
    batch.size = 0;
    done_ = read_ == wanted_.size();
  }

 private:
  const PlacedIndex* index_ = nullptr;
  const std::byte* query_ = nullptr;
  LayerScratch* scratch_ = nullptr;
  TraversalCounters* counters_ = nullptr;
  std::vector<NodeId> wanted_;
  std::size_t read_ = 0;  ///< of wanted_
  bool done_ = true;
};

}  // namespace hmann
