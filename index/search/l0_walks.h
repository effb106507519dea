#pragma once

#include <algorithm>
#include <cstdint>

#include "index/dials/dials.h"
#include "index/search/best_first_walk.h"
#include "index/search/placed_index.h"

namespace hmann {

/// The steps between L1 and an answer that every driver takes alike.

/// `--walk beams`: opens `walk` from candidate number `place` of W, in its own scratch; `results` gets what it scores.
inline void OpenBeamWalk(const PlacedIndex& index, const std::byte* query, const Dials& dials, const Beam& w, std::uint32_t place,
                  LayerScratch& scratch, Beam& results, WalkCounters& counters, BestFirstWalk& walk) {
  const NodeId candidate = w.id(place);
  scratch.beam.Reset(dials.ef_l0);
  scratch.visited.Clear();
  scratch.visited.Insert(candidate);
  scratch.beam.Insert(w.key(place), candidate);
  results.InsertUnique(w.key(place), candidate);
  walk.Open(index, query, scratch, counters, &results);
}

/// `--walk pool`: opens `walk` with all that L1 found and scratch.beam holds.
inline void OpenPoolWalk(const PlacedIndex& index, const std::byte* query, const Dials& dials, LayerScratch& scratch, WalkCounters& counters,
                  BestFirstWalk& walk) {
  scratch.beam.Reopen(dials.ef_l0);
  walk.Open(index, query, scratch, counters, nullptr, {dials.reach, dials.k}, dials.width);
}

/// What was found is closed in on itself (or there is no upper layer), and k is not filled: every node can be reached from node 0.
/// A beam that is not full has lost nothing: what it holds is all that was met.
inline void OpenRestWalk(const PlacedIndex& index, const std::byte* query, const Dials& dials, LayerScratch& scratch, WalkCounters& counters,
                  BestFirstWalk& walk) {
  scratch.visited.Clear();
  for (std::uint32_t i = 0; i < scratch.beam.size(); ++i) scratch.visited.Insert(scratch.beam.id(i));
  scratch.beam.Reopen(std::max(dials.k, scratch.beam.width()));
  walk.OpenAt(index, query, 0, scratch, counters);
}

/// `beam` becomes the nearest k of what a walk has found.
inline void TakeResults(const Beam& results, std::uint32_t k, Beam& beam) {
  beam.Reset(k);
  for (std::uint32_t i = 0; i < results.size(); ++i) beam.InsertUnique(results.key(i), results.id(i));
}

/// Counts the distinct records among those read, into slow_reads and slow_bytes.
inline void CountDistinct(const PlacedIndex& index, WalkCounters& counters, VisitedSet& read) {
  read.Clear();
  for (const NodeId node : counters.read) {
    if (read.Insert(node)) counters.total.slow_bytes += index.records.RecordBytes(node);
  }
  counters.total.slow_reads = read.size();
}

}  // namespace hmann
