#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

#include "hmann/counters.h"
#include "hmann/dials.h"
#include "index/graph/layer_search.h"
#include "index/search/placed_index.h"
#include "index/search/results.h"

namespace hmann {

/// A walk through the graph: a state machine that names the records of slow memory it
/// needs, is handed them, and knows nothing of where they come from. Whoever drives it
/// does
///
///   while (!walk.Done()) { ids = walk.Wanted(); ...; walk.Absorb(records); }
///
/// Wanted() may be empty: then the step needs fast memory alone. Part() is what Absorb
/// reads of each wanted record. Absorb(records): records[i] is the record of Wanted()[i],
/// valid during the call. A record may be wanted again later (its links after its
/// vector): whoever reads from a device keeps what it has read until the query is done.
///
/// ForUpcoming(most, hint) calls hint(id) for the candidates whose links will probably be
/// wanted next, the most likely first, until `most` of the calls have returned true.
template <typename W>
concept Walk = requires(W walk, const W& fixed, std::span<const std::byte* const> records,
                        bool (*hint)(NodeId)) {
  { fixed.Done() } -> std::same_as<bool>;
  { fixed.Wanted() } -> std::same_as<std::span<const NodeId>>;
  { fixed.Part() } -> std::same_as<RecordPart>;
  walk.Absorb(records);
  fixed.ForUpcoming(1u, hint);
};

/// What the walks of one query count.
struct WalkCounters {
  Counters total;
  /// Records that were read, with repeats where several walks count here; kept only where
  /// somebody asks how many distinct ones there were.
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

/// Whoever reads for a walk, told while it opens of what it will probably want first, the
/// most likely in front; perhaps of the same again.
class ReadsAhead {
 public:
  virtual ~ReadsAhead() = default;
  virtual void Expect(std::span<const NodeId> ids) = 0;
};

/// What a walk begins with; all of it is kept until the walk is done.
struct WalkStart {
  const PlacedIndex& index;
  const std::byte* query;  ///< in stored form
  const Dials& dials;
  /// Shared by the walks of a query, one after the other. beam: what was found so far,
  /// nearest first; visited: what was met on the way.
  LayerScratch& scratch;
  WalkCounters& counters;
  std::uint32_t parts = 1;    ///< that may be walked side by side
  std::uint32_t in_step = 0;  ///< beams that a part walks together; 0: as many as suit memory
  std::uint32_t kept = 0;     ///< of the nearest that the walk finds, this many are wanted
  Results* results =
      nullptr;  ///< with a predicate: the matches of what L1 scores, and best-first L0
  ReadsAhead* ahead = nullptr;  ///< nullptr: nobody reads ahead
};

/// A walk through L0, as the dials name it. It opens with what L1 has found. What it
/// finds is in scratch.beam (kLeavesBeam), or is handed to ForResults(add) as add(beam),
/// as often as somebody asks; Finish is called once, when it is over.
template <typename W>
concept L0Walk = Walk<W> && requires(W walk, const WalkStart& start, void (*add)(const Beam&),
                                     WalkCounters& counters) {
  walk.Open(start);
  { W::kLeavesBeam } -> std::convertible_to<bool>;
  walk.ForResults(add);
  walk.Finish(counters);
};

}  // namespace hmann
