#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "index/base/prefetch.h"
#include "index/search/traversal.h"

namespace hmann {

/// `--mode scan`: computes the distances of all nodes that match, in the order of their
/// ids, except those in scratch.visited. It reads no links. It is used
/// - where every traversal would take longer: by request, by the calibration, or because
///   one has computed too many distances (ResolvedParams::most_distances);
/// - where few nodes match, or a traversal has found too few of them.
///
/// With codes of scalar quantization it compares those, and a RerankTraversal reads the
/// vectors of the nearest. A scan by quantized codes is a QuantizedTraversal.
class ScanTraversal {
 public:
  static constexpr bool kLeavesBeam = true;

  void Open(const TraversalStart& start) {
    index_ = &start.index;
    query_ = start.query;
    scratch_ = &start.scratch;
    counters_ = &start.counters;
    matches_ = start.params.matches;
    scratch_->batch.Reserve(index_->records.max_links);
    next_ = NextMatch(0);
    Gather();
  }

  bool Done() const { return done_; }
  std::span<const NodeId> Wanted() const { return wanted_; }
  RecordPart Part() const { return RecordPart::kRow; }
  template <typename Hint>
  void ForUpcoming(std::uint32_t, const Hint&) const {}
  template <typename Add>
  void ForResults(const Add&) const {}
  void Finish(TraversalCounters&) const {}

  void Absorb(std::span<const std::byte* const> records) {
    RowBatch& batch = scratch_->batch;
    Counters& total = counters_->total;
    (index_->quantizer != nullptr ? total.estimates : total.distances_fast) += batch.size;
    total.distances_slow += wanted_.size();
    total.node_accesses += wanted_.size();
    total.hops += wanted_.empty() ? 0 : 1;
    counters_->Read(wanted_);
    for (std::size_t i = 0; i < wanted_.size(); ++i) batch.Add(wanted_[i], records[i]);
    batch.Score(index_->kernels, query_);
    batch.Keep(scratch_->beam.bound());
    scratch_->beam.InsertMany(batch.keys.data(), batch.ids.data(), batch.size);
    Gather();
  }

 private:
  std::uint64_t NextMatch(std::uint64_t id) const {
    return matches_ != nullptr ? matches_->Next(id) : id;
  }

  /// Gathers the next nodes, as many at a time as other traversals want. Rows in fast
  /// memory go into the batch; the others are wanted.
  void Gather() {
    RowBatch& batch = scratch_->batch;
    const std::uint64_t n = index_->layers.n();
    const std::size_t row_bytes = PrefetchBytes(index_->kernels);
    batch.size = 0;
    wanted_.clear();
    done_ = next_ >= n;
    for (std::uint32_t i = 0; i < index_->records.max_links && next_ < n; ++i) {
      const auto id = static_cast<NodeId>(next_);
      next_ = NextMatch(next_ + 1);
      if (scratch_->visited.Contains(id)) continue;
      if (id >= index_->fast_rows()) {
        wanted_.push_back(id);
        continue;
      }
      const std::byte* row = index_->FastRow(id);
      PrefetchLines(row, row_bytes);
      batch.Add(id, row);
    }
  }

  const PlacedIndex* index_ = nullptr;
  const std::byte* query_ = nullptr;
  LayerScratch* scratch_ = nullptr;
  TraversalCounters* counters_ = nullptr;
  const Matches* matches_ = nullptr;  ///< nullptr: every node matches
  std::vector<NodeId> wanted_;
  std::uint64_t next_ = 0;
  bool done_ = true;
};

}  // namespace hmann
