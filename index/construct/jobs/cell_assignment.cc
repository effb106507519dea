#include "index/construct/jobs/cell_assignment.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Beam of the search for a node's parent.
constexpr std::uint32_t kWidth = 8;
constexpr std::size_t kNodesPerStep = 512;

struct Nearest {
  NodeId first = kNoNode, second = kNoNode;
};

/// Ranks the nodes of `upper`[0] by the hierarchy above them: rank[id].
std::vector<std::uint32_t> HierarchyOrder(const std::vector<LayerView>& upper, ThreadPool& pool) {
  std::vector<std::uint32_t> rank(upper.back().nodes);
  std::iota(rank.begin(), rank.end(), 0u);
  for (std::size_t level = upper.size() - 1; level-- > 0;) {
    const LayerView &layer = upper[level], &above = upper[level + 1];
    std::vector<NodeId> parent(layer.nodes);
    std::vector<LayerScratch> scratch(static_cast<std::size_t>(pool.threads()));
    pool.ParallelFor(layer.nodes, kNodesPerStep,
                     [&](std::size_t begin, std::size_t end, int thread) {
                       LayerScratch& own = scratch[static_cast<std::size_t>(thread)];
                       NullLayerCounters counters;
                       for (std::size_t i = begin; i < end; ++i) {
                         const auto id = static_cast<NodeId>(i);
                         NodeId entry = 0;
                         for (std::size_t l = upper.size() - 1; l > level + 1; --l)
                           entry = GreedySearch(upper[l], layer.Row(id), entry, own, counters);
                         OpenBeam(above, layer.Row(id), entry, kWidth, own, counters);
                         SearchLayer(above, layer.Row(id), kWidth, own, counters);
                         parent[i] = own.beam.id(0);
                       }
                     });
    std::vector<NodeId> sorted(layer.nodes);
    std::iota(sorted.begin(), sorted.end(), NodeId{0});
    std::sort(sorted.begin(), sorted.end(), [&](NodeId a, NodeId b) {
      return std::tuple(rank[parent[a]], a) < std::tuple(rank[parent[b]], b);
    });
    rank.resize(layer.nodes);
    for (std::uint32_t place = 0; place < sorted.size(); ++place) rank[sorted[place]] = place;
  }
  return rank;
}

/// Finds the two promoted nodes nearest to a stored vector by a search of L1 with beam
/// `width`. The search begins at `start`, or descends from the top if that is empty.
Nearest FindCentroids(const std::byte* row, const std::vector<LayerView>& upper,
                      std::uint32_t width, std::vector<NodeId>& start, LayerScratch& own) {
  const LayerView& l1 = upper[0];
  NullLayerCounters counters;
  if (start.empty()) {
    NodeId entry = 0;
    for (std::size_t level = upper.size() - 1; level > 0; --level)
      entry = GreedySearch(upper[level], row, entry, own, counters);
    start.push_back(entry);
  }
  own.beam.Reset(width);
  own.visited.Clear();
  own.batch.Reserve(std::max<std::size_t>(start.size(), l1.max_degree));
  own.batch.size = 0;
  for (const NodeId id : start) {
    if (own.visited.Insert(id)) own.batch.Add(id, l1.Row(id));
  }
  own.batch.Score(*l1.kernels, row);
  for (std::uint32_t b = 0; b < own.batch.size; ++b)
    own.beam.Insert(own.batch.keys[b], own.batch.ids[b]);
  SearchLayer(l1, row, width, own, counters);
  Nearest nearest;
  nearest.first = own.beam.id(0);
  if (own.beam.size() > 1) nearest.second = own.beam.id(1);
  // A piece of L1 that consists of one node has no second.
  if (nearest.second == kNoNode) nearest.second = nearest.first == 0 ? l1.nodes - 1 : 0;
  return nearest;
}

/// Finds the centroids of the nodes of some steps: found[step - steps.first].
void FindAll(const CellSources& sources, const std::vector<LayerView>& upper, NodeRange steps,
             const TaskContext& job, std::vector<Nearest>& found) {
  std::vector<LayerScratch> scratch(static_cast<std::size_t>(job.pool.threads()));
  std::vector<std::vector<NodeId>> starts(scratch.size());
  job.pool.ParallelFor(
      steps.size(), kNodesPerStep, [&](std::size_t begin, std::size_t end, int thread) {
        if (job.Cancelled()) return;
        LayerScratch& own = scratch[static_cast<std::size_t>(thread)];
        std::vector<NodeId>& start = starts[static_cast<std::size_t>(thread)];
        for (std::size_t step = begin; step < end; ++step) {
          const std::size_t i = sources.place(steps.first + step);
          if (i == CellSources::kNoPlace) continue;
          start.clear();
          sources.neighbors(i, start);
          found[step] = FindCentroids(sources.row(i), upper, sources.width, start, own);
        }
        job.progress.Advance(end - begin);
      });
}

}  // namespace

absl::StatusOr<CellAssignment> AssignCells(const CellSources& sources,
                                           const std::vector<LayerView>& upper,
                                           std::uint32_t replicas, Stages stages) {
  const LayerView& l1 = upper[0];
  if (replicas < 1 || replicas > 2 || replicas > l1.nodes) {
    return InvalidArgument("replicas: expected 1 or 2, at most the ", l1.nodes,
                           " promoted nodes; found ", replicas);
  }
  const TaskContext& job = stages.job();
  if (!stages.HasAll("cells", sources.steps)) stages.Undo("cells");
  HMANN_RETURN_IF_ERROR(stages.ForRanges(
      "cells", "cells", sources.steps, [&](NodeRange range, ArtifactWriter& writer) {
        const auto find = [&](NodeRange part) {
          return ForParts(part, [&](NodeRange few) {
            std::vector<Nearest> found(few.size());
            FindAll(sources, upper, few, job, found);
            HMANN_RETURN_IF_ERROR(job.CheckCancelled());
            return writer.Append(std::span<const Nearest>(found));
          });
        };
        HMANN_RETURN_IF_ERROR(writer.Expect(std::uint64_t{range.size()} * sizeof(Nearest)));
        return sources.load(range, stages.RunEnd(sources.steps), find);
      }));
  std::vector<Nearest> centroids(sources.count);
  {
    HMANN_ASSIGN_OR_RETURN(const Buffer found, stages.Map("cells", sources.steps));
    for (NodeId step = 0; step < sources.steps; ++step) {
      const std::size_t place = sources.place(step);
      if (place != CellSources::kNoPlace)
        centroids[place] = reinterpret_cast<const Nearest*>(found.data())[step];
    }
  }

  const std::vector<std::uint32_t> rank = HierarchyOrder(upper, job.pool);
  CellAssignment assignment;
  assignment.order.resize(sources.count);
  std::iota(assignment.order.begin(), assignment.order.end(), 0u);
  std::sort(assignment.order.begin(), assignment.order.end(),
            [&](std::uint32_t a, std::uint32_t b) {
              return std::tuple(rank[centroids[a].first], rank[centroids[a].second], a) <
                     std::tuple(rank[centroids[b].first], rank[centroids[b].second], b);
            });
  assignment.cells.reserve(std::min<std::size_t>(l1.nodes, sources.count));
  if (replicas == 2) assignment.second_centroids.reserve(sources.count);
  for (std::size_t j = 0; j < sources.count; ++j) {
    const Nearest& nearest = centroids[assignment.order[j]];
    if (assignment.cells.empty() || assignment.cells.back().centroid != nearest.first) {
      assignment.cells.push_back({nearest.first, l1.nodes + static_cast<NodeId>(j)});
    }
    if (replicas == 2) assignment.second_centroids.push_back(nearest.second);
  }
  return assignment;
}

}  // namespace hmann
