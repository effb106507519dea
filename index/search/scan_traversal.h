#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

#include "index/base/prefetch.h"
#include "index/search/traversal.h"

namespace hmann {

/// `--mode scan`: computes the distances of all nodes that match, in the order of their
/// ids, except those in scratch.visited. It reads no links. It is used
/// - where every traversal would take longer: by request, by the calibration, or because
///   one has computed too many distances (ResolvedParams::most_distances);
/// - where few nodes match, or a traversal has found too few of them.
///
/// In place of a traversal by codes of scalar quantization it compares those. A scan by
/// quantized codes is a QuantizedTraversal.
class ScanTraversal {
 public:
  static constexpr bool kLeavesBeam = true;

  void Open(const TraversalStart& start) {
    index_ = &start.index;
    query_ = start.query;
    scratch_ = &start.scratch;
    counters_ = &start.counters;
    matches_ = start.params.matches;
    row_bytes_ = index_->RowPrefetchBytes();
    scratch_->batch.Reserve(index_->records.max_links);
    upcoming_.Reserve(index_->records.max_links);
    next_ = 0;
    GatherUpcoming();
    Gather();
  }

  bool Done() const { return done_; }
  std::span<const NodeId> Wanted() const {
    return std::span(scratch_->batch.ids).subspan(scratch_->batch.size, wanted_);
  }
  RecordPart Part() const { return RecordPart::kRow; }
  template <typename Hint>
  void ForUpcoming(std::uint32_t, const Hint&) const {}
  template <typename Add>
  void ForResults(const Add&) const {}
  void Finish(TraversalCounters&) const {}

  void Absorb(std::span<const std::byte* const> records) {
    RowBatch& batch = scratch_->batch;
    std::copy(records.begin(), records.end(), batch.rows.data() + batch.size);
    batch.size += wanted_;
    batch.Score(index_->kernels, query_);
    Count(std::span(batch.ids).first(batch.size));
    batch.Keep(scratch_->beam.bound());
    scratch_->beam.InsertMany(batch.keys.data(), batch.ids.data(), batch.size);
    Gather();
  }

 private:
  void Count(std::span<const NodeId> ids) {
    const auto fast = std::lower_bound(ids.begin(), ids.end(), index_->fast_rows()) - ids.begin();
    const std::uint64_t slow = ids.size() - static_cast<std::uint64_t>(fast);
    Counters& total = counters_->total;
    (index_->quantizer != nullptr ? total.estimates : total.distances_fast) +=
        static_cast<std::uint64_t>(fast);
    total.distances_slow += slow;
    total.node_accesses += slow;
    // A scan reads no record twice.
    if (counters_->read.empty()) {
      counters_->ReadOnce(slow, index_->records.RecordBytes(kMaxNodes));
    } else {
      counters_->Read(ids.subspan(static_cast<std::size_t>(fast)));
    }
    total.hops += slow > 0 ? 1 : 0;
  }

  /// Takes the upcoming nodes. Their ids ascend. Those whose rows can be read at once
  /// form the batch; those after them are wanted.
  void Gather() {
    RowBatch& batch = scratch_->batch;
    std::swap(batch, upcoming_);
    const auto of_batch = std::span(batch.ids).first(batch.size);
    done_ = of_batch.empty();
    wanted_ = 0;
    if (!index_->IsPlain())
      wanted_ = static_cast<std::uint32_t>(
          of_batch.end() - std::lower_bound(of_batch.begin(), of_batch.end(), index_->fast_rows()));
    batch.size -= wanted_;
    GatherUpcoming();
  }

  /// Sets upcoming_ to the next nodes, at most as many as other traversals want at a
  /// time, and prefetches their rows where it can. None: there are no more.
  void GatherUpcoming() {
    upcoming_.size = 0;
    const std::uint64_t n = index_->layers.n();
    while (upcoming_.size == 0 && next_ < n) {
      const std::uint32_t found = NextIds();
      next_ = found > 0 ? std::uint64_t{upcoming_.ids[found - 1]} + 1 : n;
      for (std::uint32_t i = 0; i < found; ++i) {
        const NodeId id = upcoming_.ids[i];
        if (!IsLeftOut(id)) upcoming_.Add(id, Prefetched(id));
      }
    }
  }

  /// Sets upcoming_.ids to the next that match. Returns how many.
  std::uint32_t NextIds() {
    const std::span<NodeId> ids = std::span(upcoming_.ids).first(index_->records.max_links);
    if (matches_ != nullptr) return matches_->Next(next_, ids);
    const auto found =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(ids.size(), index_->layers.n() - next_));
    std::iota(ids.begin(), ids.begin() + found, static_cast<NodeId>(next_));
    return found;
  }

  /// The row of `id`; nullptr: the executor reads it.
  const std::byte* Prefetched(NodeId id) const {
    const bool is_fast = id < index_->fast_rows();
    if (!is_fast && !index_->IsPlain()) return nullptr;
    const std::byte* row = is_fast ? index_->FastRow(id) : index_->Row(id);
    PrefetchLines(row, row_bytes_);
    return row;
  }

  /// A scan of matches continues no other traversal: only the excluded node was visited.
  bool IsLeftOut(NodeId id) const {
    return matches_ != nullptr ? id == scratch_->visited.excluded()
                               : scratch_->visited.Contains(id);
  }

  const PlacedIndex* index_ = nullptr;
  const std::byte* query_ = nullptr;
  LayerScratch* scratch_ = nullptr;
  TraversalCounters* counters_ = nullptr;
  const Matches* matches_ = nullptr;  ///< nullptr: every node matches
  std::size_t row_bytes_ = 0;         ///< to prefetch
  RowBatch upcoming_;                 ///< compared after the batch; not scored yet
  std::uint32_t wanted_ = 0;          ///< ids after those of the batch
  std::uint64_t next_ = 0;
  bool done_ = true;
};

}  // namespace hmann
