#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "hmann/counters.h"
#include "hmann/resolved_params.h"
#include "index/graph/beam.h"
#include "index/graph/visited.h"
#include "index/search/placed_index.h"
#include "index/search/slow_memory.h"

namespace hmann {

/// The layer of --prefetch ahead. While L1 is searched, it fetches the records that L0
/// will probably need first, into the CPU's cache. It fetches no part of a record twice,
/// at most kMostBytes a query, and never when demand would have to wait for it.
class FetchAhead {
 public:
  /// Counts fetched_ahead, fetched_ahead_used and fetched_ahead_late. All arguments must
  /// outlive it.
  FetchAhead(const PlacedIndex& index, SlowMemory& memory, Counters& counts)
      : index_(index), memory_(memory), counts_(counts) {}
  FetchAhead(const FetchAhead&) = delete;

  /// Starts a query. kAhead fetches ahead.
  void Begin(Prefetch prefetch) {
    window_ = prefetch == Prefetch::kAhead ? kMostWindow : 0;
    bytes_ = 0;
    followed_ = kNoNode;
    ahead_.Clear();
    used_.Clear();
  }

  /// L1's beam has changed. Fetches ahead the L0 links of its first `window` candidates,
  /// nearest first. Once the nearest candidate's links are here, it fetches the rows that
  /// they lead to.
  void Stepped(const Beam& beam, std::uint32_t window) {
    const std::uint32_t looked_at = std::min({window, window_, beam.size()});
    for (std::uint32_t i = 0; i < looked_at; ++i) {
      const NodeId candidate = beam.id(i);
      const std::byte* record = Arrived(candidate, RecordPart::kLinks);
      if (record == nullptr && !Fetch(candidate, RecordPart::kLinks)) return;
      if (record == nullptr || i > 0 || candidate == followed_)
        continue;  // rows are expensive: only the nearest candidate's
      links_.resize(index_.records.max_links);
      const NodeId* links = index_.Links(candidate, record, links_.data());
      for (std::uint32_t l = 0; l < index_.records.max_links && links[l] < index_.layers.n(); ++l) {
        if (links[l] >= index_.n1() && !Fetch(links[l], RecordPart::kRow)) return;
      }
      followed_ = candidate;
    }
  }

  /// Counts a use: the part is wanted now.
  void CountUse(NodeId id, RecordPart part) {
    if (part == RecordPart::kLabel || !ahead_.Contains(Key(id, part)) ||
        !used_.Insert(Key(id, part)))
      return;
    ++counts_.fetched_ahead_used;
    counts_.fetched_ahead_late += Arrived(id, part) == nullptr ? 1 : 0;
  }

 private:
  static constexpr std::uint64_t kMostBytes = 64 << 10;
  static constexpr std::uint32_t kMostWindow = 8;

  /// Node numbers have 31 bits, which leaves one for the part: links or row.
  static std::uint32_t Key(NodeId id, RecordPart part) {
    return id << 1 | (part == RecordPart::kRow ? 1u : 0u);
  }

  /// False: no more may be fetched now.
  bool Fetch(NodeId id, RecordPart part) {
    const std::span<const std::byte> bytes = index_.Bytes(id, part);
    if (bytes_ + bytes.size() > kMostBytes) return false;
    if (ahead_.Contains(Key(id, part))) return true;
    if (!memory_.HasRoom()) return false;
    memory_.Fetch(bytes);
    ahead_.Insert(Key(id, part));
    bytes_ += bytes.size();
    ++counts_.fetched_ahead;
    return true;
  }

  /// The record, if the part was fetched ahead and is here; else nullptr.
  const std::byte* Arrived(NodeId id, RecordPart part) const {
    if (!ahead_.Contains(Key(id, part))) return nullptr;
    return memory_.Arrived(index_.Bytes(id, part)) ? index_.Record(id) : nullptr;
  }

  const PlacedIndex& index_;
  SlowMemory& memory_;
  Counters& counts_;
  std::uint32_t window_ = 0;   ///< candidates of L1 to examine after each of its steps
  NodeId followed_ = kNoNode;  ///< nearest candidate, once its rows were fetched ahead
  std::uint64_t bytes_ = 0;
  std::vector<NodeId> links_;  ///< scratch
  VisitedSet ahead_, used_;    ///< keys: fetched ahead, and of these used
};

}  // namespace hmann
