#include "index/collection/delta_graph.h"

#include <algorithm>
#include <bit>
#include <span>

namespace hmann {
namespace {

/// The rows from which the nearest one begins a search: at most this number, spread
/// evenly, or one for each kLeastStep rows: guesses.
constexpr NodeId kMostEntries = 128, kLeastStep = 32;
/// Links of a new row, and those that stay when a row has no place for one more: guesses.
constexpr std::uint32_t kNewLinks = TailChunk::kLinks / 2, kLinksLeft = TailChunk::kLinks * 3 / 4;
/// The nearest candidates, which are followed however far away they are: a guess.
constexpr std::uint32_t kAlways = 4;
constexpr std::uint32_t kAtOnce = 64;

}  // namespace

void DeltaGraph::ReadLinks(const Tail& tail, NodeId node, NodeId nodes,
                           std::vector<NodeId>* links) const {
  links->clear();
  const std::atomic<NodeId>* const stored = tail.Links(first_ + node);
  for (std::uint32_t i = 0; i < TailChunk::kLinks; ++i) {
    const NodeId to = stored[i].load(std::memory_order_relaxed);
    if (to < nodes) links->push_back(to);
  }
}

void DeltaGraph::WriteLinks(const Tail& tail, NodeId node, std::span<const NodeId> links) {
  std::atomic<NodeId>* const stored = tail.Links(first_ + node);
  for (std::uint32_t i = 0; i < TailChunk::kLinks; ++i)
    stored[i].store(i < links.size() ? links[i] : kNoNode, std::memory_order_relaxed);
}

void DeltaGraph::Offer(const Tail& tail, const Wanted& wanted, Scratch& scratch) const {
  const RowBatch& batch = scratch.layer.batch;
  for (std::uint32_t i = 0; i < batch.size; ++i) {
    const std::uint64_t row = first_ + batch.ids[i];
    if (batch.keys[i] <= scratch.found.bound() &&
        (wanted.among[(row - tail.base()) / 64] >> (row % 64) & 1) != 0)
      scratch.found.Insert(batch.keys[i], batch.ids[i]);
  }
}

bool DeltaGraph::NeedsScan(const Wanted& wanted, NodeId nodes, const Scratch& scratch) {
  const Beam &nearest = Found(wanted, scratch), &beam = scratch.layer.beam;
  const bool is_among = !wanted.among.empty();
  const DistanceKey most = wanted.end.most();
  const DistanceKey last = nearest.size() > 0 ? nearest.key(nearest.size() - 1) : 0;
  // The beam keeps nothing beyond a distance that is known.
  if (nearest.size() < std::min(wanted.k, nodes) && (is_among ? last <= most : ~most == 0))
    return true;
  return is_among && beam.size() == beam.width() &&
         std::min(nearest.size() > 0 ? last : most, most) > beam.bound();
}

DeltaGraph::Searched DeltaGraph::Search(const Tail& tail, const Kernels& kernels,
                                        const std::byte* query, const Wanted& wanted,
                                        Scratch& scratch) const {
  const auto nodes =
      std::min(nodes_.load(std::memory_order_acquire), static_cast<NodeId>(tail.end() - first_));
  Beam& beam = scratch.layer.beam;
  RowBatch& batch = scratch.layer.batch;
  const Beam& nearest = Found(wanted, scratch);
  Searched searched;
  beam.Reset(wanted.width);
  scratch.found.Reset(wanted.k);
  scratch.layer.visited.Clear();
  batch.Reserve(kAtOnce);
  batch.size = 0;
  const auto at_least_few = [&](DistanceKey limit) {
    return beam.size() < kAlways ? ~DistanceKey{0} : std::max(beam.key(kAlways - 1), limit);
  };
  const auto score = [&] {
    batch.Score(kernels, query);
    searched.distances += batch.size;
    if (!wanted.among.empty()) Offer(tail, wanted, scratch);
    batch.Keep(std::min(beam.bound(), at_least_few(wanted.end.Kept(kernels, nearest, beam))));
    beam.InsertMany(batch.keys.data(), batch.ids.data(), batch.size);
    batch.size = 0;
  };
  const auto add = [&](NodeId node) {
    const std::byte* const row = tail.Row(first_ + node);
    PrefetchLines(row, PrefetchBytes(kernels));
    batch.Add(node, row);
  };
  const NodeId step = std::max(kLeastStep, std::bit_ceil(nodes / kMostEntries));
  for (NodeId node = 0; node < nodes; node += step) {
    scratch.layer.visited.Insert(node);
    add(node);
    if (batch.size == kAtOnce) score();
  }
  score();
  NodeId fresh[TailChunk::kLinks];
  const auto goes_on = [&] {
    return beam.HasNext(beam.width()) &&
           beam.key(beam.next()) <= at_least_few(wanted.end.End(kernels, nearest, beam));
  };
  while (goes_on()) {
    searched.gave_up = searched.distances >= wanted.most_distances;
    if (searched.gave_up) return searched;
    ReadLinks(tail, beam.PopNext(), nodes, &scratch.links);
    const std::uint32_t count = scratch.layer.visited.InsertNew(
        scratch.links.data(), static_cast<std::uint32_t>(scratch.links.size()), nodes, fresh);
    for (std::uint32_t i = 0; i < count; ++i) add(fresh[i]);
    if (beam.HasNext(beam.width()))  // perhaps the next one
      PrefetchLines(tail.Links(first_ + beam.PeekNext()), TailChunk::kLinks * sizeof(NodeId));
    score();
  }
  searched.gave_up = NeedsScan(wanted, nodes, scratch);
  return searched;
}

void DeltaGraph::Insert(const Tail& tail, const Kernels& kernels, std::uint32_t width, float alpha,
                        Scratch& scratch) {
  const NodeId node = nodes_.load(std::memory_order_relaxed);
  const std::uint64_t row = first_ + node;
  if (tail.Has(row)) {
    Search(tail, kernels, tail.Row(row), {.width = width, .k = width, .among = tail.words()},
           scratch);
    // Dead rows that have links lead on, too, where all that it met are dead.
    const Beam& near = scratch.found.size() > 0 ? scratch.found : scratch.layer.beam;
    scratch.candidates.clear();
    scratch.rows.clear();
    for (std::uint32_t i = 0; i < near.size(); ++i) {
      if (!tail.Has(first_ + near.id(i)) && *tail.Links(first_ + near.id(i)) == kNoNode) continue;
      scratch.candidates.push_back({near.key(i), near.id(i)});
      scratch.rows.push_back(tail.Row(first_ + near.id(i)));
    }
    scratch.selector.Select(scratch.candidates, scratch.rows, kNewLinks, alpha, kernels,
                            &scratch.chosen);
    WriteLinks(tail, node, scratch.chosen);
    for (const NodeId other : scratch.chosen) {
      const DistanceKey key = kernels.one(tail.Row(row), tail.Row(first_ + other), kernels.dim);
      LinkBack(tail, kernels, other, node, key, alpha, scratch);
    }
  }
  nodes_.store(node + 1, std::memory_order_release);
}

void DeltaGraph::LinkBack(const Tail& tail, const Kernels& kernels, NodeId node, NodeId to,
                          DistanceKey key, float alpha, Scratch& scratch) {
  ReadLinks(tail, node, to, &scratch.links);
  if (scratch.links.size() < TailChunk::kLinks) {
    tail.Links(first_ + node)[scratch.links.size()].store(to, std::memory_order_relaxed);
    return;
  }
  RowBatch& batch = scratch.layer.batch;
  batch.Reserve(TailChunk::kLinks + 1);
  batch.size = 0;
  for (const NodeId link : scratch.links) batch.Add(link, tail.Row(first_ + link));
  batch.Score(kernels, tail.Row(first_ + node));
  std::vector<Candidate>& candidates = scratch.shorter;
  candidates.assign(1, {key, to});
  for (std::uint32_t i = 0; i < batch.size; ++i)
    candidates.push_back({batch.keys[i], batch.ids[i]});
  std::sort(candidates.begin(), candidates.end());
  scratch.rows.clear();
  for (const Candidate& candidate : candidates)
    scratch.rows.push_back(tail.Row(first_ + candidate.id));
  scratch.selector.Select(candidates, scratch.rows, kLinksLeft, alpha, kernels, &scratch.links);
  WriteLinks(tail, node, scratch.links);
}

}  // namespace hmann
