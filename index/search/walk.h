#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

#include "index/dials/counters.h"
#include "index/graph/types.h"

namespace hmann {

/// What a walk reads of a record at a step. kRowAndLinks: with the sketches of the links, where records have them.
enum class RecordPart : std::uint8_t { kLinks, kRow, kLabel, kRowAndLinks };

/// Bytes of a record, from its start.
struct RecordExtent {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

/// A walk through the graph: a state machine that names the records of slow memory it needs, is handed them, and knows nothing of where
/// they come from. Whoever drives it does
///
///   while (!walk.Done()) { ids = walk.Wanted(); ...; walk.Absorb(records); }
///
/// Wanted() may be empty: then the step needs fast memory alone. Part() is what Absorb reads of each wanted record. Absorb(records):
/// records[i] is the record of Wanted()[i], valid during the call. A record may be wanted again later (its links after its vector): whoever
/// reads from a device keeps what it has read until the query is done.
///
/// ForUpcoming(most, hint) calls hint(id) for the candidates whose links will probably be wanted next, the most likely first, until `most`
/// of the calls have returned true.
template <typename W>
concept Walk = requires(W walk, const W& fixed, std::span<const std::byte* const> records, bool (*hint)(NodeId)) {
  { fixed.Done() } -> std::same_as<bool>;
  { fixed.Wanted() } -> std::same_as<std::span<const NodeId>>;
  { fixed.Part() } -> std::same_as<RecordPart>;
  walk.Absorb(records);
  fixed.ForUpcoming(1u, hint);
};

/// What the walks of one query count.
struct WalkCounters {
  Counters total;
  /// Records that were read, with repeats where several walks count here; kept only where somebody asks how many distinct ones there were.
  std::vector<NodeId> read;
  bool lists_reads = false;

  void Clear(bool lists) {
    total = Counters();
    read.clear();
    lists_reads = lists;
  }
  void Read(std::span<const NodeId> nodes) {
    if (lists_reads) read.insert(read.end(), nodes.begin(), nodes.end());
  }
};

}  // namespace hmann
