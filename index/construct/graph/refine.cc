#include "index/construct/graph/refine.h"

#include <algorithm>
#include <vector>

#include "index/base/status_macros.h"
#include "index/construct/graph/reverse_links.h"
#include "index/graph/select.h"
#include "index/graph/visited.h"

namespace hmann {
namespace {

constexpr NodeId kBatch = 8192;
constexpr std::size_t kMostCandidates = 96;  ///< nearest candidates of a node
constexpr std::uint32_t kMostAsked = 16;     ///< nearest neighbors whose lists are read
/// Nodes between the prefetch of their neighbors' lists and their use.
constexpr NodeId kAhead = 3;

struct RefineScratch {
  VisitedSet met;
  RowBatch batch;
  std::vector<Candidate> candidates;
  std::vector<NodeId> selected;
  NeighborSelector selector;
};

class Refiner {
 public:
  Refiner(InsertionGraph& graph, float alpha, ThreadPool& pool)
      : graph_(graph),
        alpha_(alpha),
        pool_(pool),
        reverse_(graph, alpha, pool),
        scratch_(static_cast<std::size_t>(pool.threads())),
        chosen_(static_cast<std::size_t>(kBatch) * graph.max_degree(0)) {}

  void RefineBatch(NodeId begin, NodeId end) {
    const std::uint32_t most = graph_.max_degree(0);
    pool_.ParallelFor(end - begin, 64, [&](std::size_t first, std::size_t last, int thread) {
      for (std::size_t i = first; i < last; ++i) {
        if (i + kAhead < last) PrefetchLists(begin + static_cast<NodeId>(i) + kAhead);
        Choose(begin + static_cast<NodeId>(i), chosen_.data() + i * most, thread);
      }
    });
    std::copy_n(chosen_.data(), static_cast<std::size_t>(end - begin) * most,
                graph_.Links(0, begin));
    reverse_.Apply(1);
  }

 private:
  void PrefetchLists(NodeId node) const {
    const LayerView view = graph_.View(0);
    const NodeId* links = view.Links(node);
    for (std::uint32_t i = 0; i < view.max_degree && links[i] != kNoNode; ++i) {
      PrefetchLines(view.Links(links[i]), view.max_degree * sizeof(NodeId));
    }
  }

  void Choose(NodeId node, NodeId* chosen, int thread) {
    RefineScratch& scratch = scratch_[static_cast<std::size_t>(thread)];
    const LayerView view = graph_.View(0);
    const std::uint32_t most = view.max_degree;
    RowBatch& batch = scratch.batch;
    std::vector<Candidate>& candidates = scratch.candidates;
    batch.Reserve(static_cast<std::size_t>(most) * kMostAsked);
    candidates.clear();
    scratch.met.Clear();
    scratch.met.Insert(node);
    batch.size = scratch.met.InsertNew(view.Links(node), most, view.nodes, batch.ids.data());
    Score(view, node, scratch);
    std::sort(candidates.begin(), candidates.end());
    batch.size = 0;
    for (std::uint32_t i = 0; i < candidates.size() && i < kMostAsked; ++i) {
      batch.size += scratch.met.InsertNew(view.Links(candidates[i].id), most, view.nodes,
                                          batch.ids.data() + batch.size);
    }
    Score(view, node, scratch);
    if (candidates.size() > kMostCandidates) {
      std::nth_element(candidates.begin(), candidates.begin() + kMostCandidates, candidates.end());
      candidates.resize(kMostCandidates);
    }
    std::sort(candidates.begin(), candidates.end());
    scratch.selector.Select(candidates, most, alpha_, view, &scratch.selected);
    std::fill(std::copy(scratch.selected.begin(), scratch.selected.end(), chosen), chosen + most,
              kNoNode);
    for (const NodeId target : scratch.selected) reverse_.Add(0, target, node, thread);
  }

  /// Turns the batch's ids into candidates of `node`.
  static void Score(const LayerView& view, NodeId node, RefineScratch& scratch) {
    RowBatch& batch = scratch.batch;
    for (std::uint32_t i = 0; i < batch.size; ++i) {
      batch.rows[i] = view.Row(batch.ids[i]);
      PrefetchLines(batch.rows[i], PrefetchBytes(*view.kernels));
    }
    batch.Score(*view.kernels, view.Row(node));
    for (std::uint32_t i = 0; i < batch.size; ++i)
      scratch.candidates.push_back({batch.keys[i], batch.ids[i]});
  }

  InsertionGraph& graph_;
  float alpha_;
  ThreadPool& pool_;
  ReverseLinks reverse_;
  std::vector<RefineScratch> scratch_;  ///< [thread]
  std::vector<NodeId> chosen_;          ///< of the batch: [node][max_degree]
};

}  // namespace

absl::Status RefineLinks(InsertionGraph& graph, NodeId count, float alpha, const TaskContext& job,
                         const LinkedSoFar& from, const AfterBatch& after) {
  Refiner refiner(graph, alpha, job.pool);
  job.progress.Advance(from.refined);
  for (NodeId begin = from.refined; begin < count;) {
    HMANN_RETURN_IF_ERROR(job.CheckCancelled());
    const NodeId size = std::min(kBatch, count - begin);
    refiner.RefineBatch(begin, begin + size);
    job.progress.Advance(size);
    begin += size;
    if (after) HMANN_RETURN_IF_ERROR(after({count, begin}));
  }
  return absl::OkStatus();
}

}  // namespace hmann
