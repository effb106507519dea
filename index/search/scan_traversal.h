#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "index/base/prefetch.h"
#include "index/search/traversal.h"

namespace hmann {

/// Computes exact distances of all matches, in the order of their ids. It is used when
/// the predicate has so few matches that no traversal would be cheaper, or when a
/// traversal has found too few of them. scratch.beam then holds the k nearest.
class ScanTraversal {
 public:
  /// Requires params.matches.
  void Open(const TraversalStart& start) {
    index_ = &start.index;
    query_ = start.query;
    scratch_ = &start.scratch;
    counters_ = &start.counters;
    matches_ = start.params.matches;
    scratch_->beam.Reset(start.params.k);
    scratch_->batch.Reserve(index_->records.max_links);
    next_ = matches_->Next(0);
    Gather();
  }

  bool Done() const { return done_; }
  std::span<const NodeId> Wanted() const { return wanted_; }
  RecordPart Part() const { return RecordPart::kRow; }
  template <typename Hint>
  void ForUpcoming(std::uint32_t, const Hint&) const {}

  void Absorb(std::span<const std::byte* const> records) {
    RowBatch& batch = scratch_->batch;
    Counters& total = counters_->total;
    total.distances_fast += batch.size;
    total.distances_slow += wanted_.size();
    total.node_accesses += wanted_.size();
    total.hops += wanted_.empty() ? 0 : 1;
    counters_->Read(wanted_);
    for (std::size_t i = 0; i < wanted_.size(); ++i)
      batch.Add(wanted_[i], records[i] + index_->records.row_offset);
    batch.Score(index_->kernels, query_);
    scratch_->beam.InsertMany(batch.keys.data(), batch.ids.data(), batch.size);
    Gather();
  }

 private:
  /// Gathers the next matches, as many at a time as other traversals want. Rows of
  /// promoted ones go into the batch; the others are wanted.
  void Gather() {
    RowBatch& batch = scratch_->batch;
    const std::uint64_t n = matches_->n();
    batch.size = 0;
    wanted_.clear();
    done_ = next_ == n;
    for (std::uint32_t i = 0; i < index_->records.max_links && next_ < n; ++i) {
      const auto id = static_cast<NodeId>(next_);
      next_ = matches_->Next(next_ + 1);
      if (id >= index_->n1()) {
        wanted_.push_back(id);
        continue;
      }
      const std::byte* row = index_->FastRow(id);
      PrefetchLines(row, PrefetchBytes(index_->kernels));
      batch.Add(id, row);
    }
  }

  const PlacedIndex* index_ = nullptr;
  const std::byte* query_ = nullptr;
  LayerScratch* scratch_ = nullptr;
  TraversalCounters* counters_ = nullptr;
  const Matches* matches_ = nullptr;
  std::vector<NodeId> wanted_;
  std::uint64_t next_ = 0;
  bool done_ = true;
};

}  // namespace hmann
