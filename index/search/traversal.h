#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

#include "hmann/counters.h"
#include "hmann/resolved_params.h"
#include "index/graph/layer_search.h"
#include "index/search/placed_index.h"
#include "index/search/results.h"

namespace hmann {

/// A traversal through the graph: a state machine that names the records of slow memory
/// it needs and receives them. It does not know where they come from. Its driver runs
///
///   while (!traversal.Done()) {
///     ids = traversal.Wanted(); ...; traversal.Absorb(records);
///   }
///
/// Wanted() may be empty: then the step needs only fast memory. Part() is the part of
/// each wanted record that Absorb reads. Absorb(records): records[i] is the record of
/// Wanted()[i], valid during the call. A record may be wanted again later (its links
/// after its vector). A driver that reads from a device therefore keeps what it has read
/// until the query is done.
///
/// ForUpcoming(most, hint) calls hint(id) for the candidates whose links will probably be
/// wanted next, the most likely first, until `most` of the calls have returned true.
template <typename W>
concept Traversal = requires(W traversal, const W& fixed, std::span<const std::byte* const> records,
                             bool (*hint)(NodeId)) {
  { fixed.Done() } -> std::same_as<bool>;
  { fixed.Wanted() } -> std::same_as<std::span<const NodeId>>;
  { fixed.Part() } -> std::same_as<RecordPart>;
  traversal.Absorb(records);
  fixed.ForUpcoming(1u, hint);
};

/// Counters of the traversals of one query.
struct TraversalCounters {
  Counters total;
  /// Records that were read, with repeats if several traversals count here. Kept only if
  /// the number of distinct ones is needed.
  std::vector<NodeId> read;
  bool lists_reads = false;

  void Clear(bool lists) {
    total = Counters();
    read.clear();
    lists_reads = lists;
  }
  /// Distances computed, or estimated by codes.
  std::uint64_t Scored() const {
    return total.distances_fast + total.distances_slow + total.estimates;
  }
  void Read(std::span<const NodeId> nodes) {
    if (lists_reads) read.insert(read.end(), nodes.begin(), nodes.end());
  }
  /// Counts records that no traversal reads again.
  void ReadOnce(std::uint64_t records, std::uint64_t bytes_each) {
    if (!lists_reads) return;
    total.node_reads += records;
    total.node_bytes += records * bytes_each;
  }
};

/// A reader for a traversal. While it opens, the traversal calls Expect with the ids that
/// it will probably want first, the most likely first. It may repeat ids.
class ReadsAhead {
 public:
  virtual ~ReadsAhead() = default;
  virtual void Expect(std::span<const NodeId> ids) = 0;
};

/// What a traversal begins with. Everything is kept until the traversal is done.
struct TraversalStart {
  const PlacedIndex& index;
  const std::byte* query;  ///< in stored form
  const ResolvedParams& params;
  /// Shared by the traversals of a query, one after the other. beam: the candidates found
  /// so far, nearest first; visited: the nodes met on the way.
  LayerScratch& scratch;
  TraversalCounters& counters;
  std::uint32_t kept = 0;       ///< this many of the nearest nodes found are wanted
  Results* results = nullptr;   ///< with a predicate: matches scored by L1 and graph L0
  ReadsAhead* ahead = nullptr;  ///< nullptr: no reads ahead
  bool scans = false;           ///< all nodes are to be scored, whatever the mode is
};

/// A traversal through L0, as named by the search parameters. It opens with what L1 has
/// found. Its results are in scratch.beam (kLeavesBeam), or ForResults(add) passes them
/// to add(beam), as often as it is called. Finish is called once, at the end. It may have
/// GaveUp(): it then ended because it has computed ResolvedParams::most_distances.
template <typename W>
concept L0Traversal =
    Traversal<W> && requires(W traversal, const TraversalStart& start, void (*add)(const Beam&),
                             TraversalCounters& counters) {
      traversal.Open(start);
      { W::kLeavesBeam } -> std::convertible_to<bool>;
      traversal.ForResults(add);
      traversal.Finish(counters);
    };

}  // namespace hmann
