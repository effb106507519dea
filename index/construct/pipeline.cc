#include "index/construct/pipeline.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "index/base/status_macros.h"
#include "index/construct/connect.h"
#include "index/construct/degree.h"
#include "index/construct/make_bottom.h"
#include "index/construct/pipeline_state.h"
#include "index/construct/self_recall.h"

namespace hmann {
absl::Status Pipeline::Load() {
  HMANN_RETURN_IF_ERROR(options_.CheckOut());
  HMANN_ASSIGN_OR_RETURN(BuildInputs inputs, BuildInputs::Open(options_));
  n_ = inputs.n();
  kernels_ = inputs.kernels();
  m_ = inputs.m();
  ef_construction_ = inputs.ef_construction();
  alpha_ = inputs.alpha();
  seed_ = inputs.seed();
  method_ = inputs.method();
  links_ = kernels_;
  const NodeId n1 = inputs.n1();
  layers_ = Layers::Make(n_, n1, m_);
  HMANN_RETURN_IF_ERROR(CheckMemory(inputs));
  if (options_.memory > 0) {
    HMANN_ASSIGN_OR_RETURN(std::unique_ptr<WorkFolder> folder,
                           OpenWorkFolder(options_, inputs, n1));
    folder_ = folder.get();
    work_ = std::move(folder);
  } else {
    work_ = std::make_unique<MemoryArtefacts>();
  }
  HMANN_RETURN_IF_ERROR(inputs.Load());
  user_labels_ = inputs.user_labels();
  inputs_ = std::make_unique<BuildInputs>(std::move(inputs));
  return absl::OkStatus();
}

absl::Status Pipeline::CheckMemory(const BuildInputs& inputs) {
  const BuildShape shape = inputs.Shape(layers_.n1());
  if (options_.memory > 0) {
    KeepNoFreedMemory();
    HMANN_ASSIGN_OR_RETURN(memory_, DivideMemory(shape, options_.memory, options_.workers));
    if (options_.workers > 0) {
      workers_ = Workers{options_.worker_program, options_.work, options_.workers,
                         std::max(1, pool_.threads() / options_.workers),
                         WorkerMemory(shape, options_.memory, options_.workers)};
    }
    return absl::OkStatus();
  }
  constexpr std::uint64_t kAll = std::uint64_t{1} << 60;  // of what a job needs at once
  memory_ = {.bottom_room = kAll, .upper_room = kAll, .write_room = kCopyRoom};
  return CheckBuildBytes(shape);
}

absl::Status Pipeline::BuildBottom() {
  BottomSource source{.rows = inputs_->Rows(),
                      .file = inputs_->file(),
                      .kernels = links_,
                      .row_bytes = kernels_.row_bytes,
                      .method = method_,
                      .m = m_,
                      .ef_construction = ef_construction_,
                      .alpha = alpha_,
                      .seed = seed_,
                      .room = memory_.bottom_room,
                      .index = inputs_->index(),
                      .imported = inputs_->TakeGraph()};
  if (Lifted()) {
    phases_.Begin("lift", n_, "vectors");
    HMANN_ASSIGN_OR_RETURN(links_, LiftedKernels(kernels_));
    HMANN_ASSIGN_OR_RETURN(lifted_, inputs_->LoadRows(job_));
    LiftRows(kernels_, n_, job_, lifted_);
    source.rows = NodeVectors::InMemory(lifted_, n_);
    source.file = nullptr;
    phases_.End("lift");
  }
  HMANN_ASSIGN_OR_RETURN(
      Bottom made, MakeBottom(std::move(source), {"l0", "", *work_, phases_, job_, workers()}));
  // What is mapped stays.
  if (folder_ == nullptr) work_->RemoveAll("");
  rows_ = std::move(made.rows);
  if (rows_.rows.size() > 0) lifted_ = {};
  vectors_ = std::move(made.vectors);
  row_of_ = std::move(made.row_of);
  equal_ = std::move(made.equal);
  bottom_ = std::move(made.graph);
  report_.duplicates = made.copies;
  return absl::OkStatus();
}

absl::Status Pipeline::Rank() {
  phases_.Begin("rank", n_, "nodes");
  std::vector<NodeId> ranked;
  // A repair adds links and so may change who is first; it settles at once in practice.
  for (int round = 0; round < 8; ++round) {
    std::vector<std::uint32_t> degrees =
        ComputeDegrees(bottom_->Links(0, 0), n_, bottom_->max_degree(0), pool_);
    ranked = RankNodes(degrees, row_of_);
    if (round == 0 && Lifted()) {
      HMANN_ASSIGN_OR_RETURN(report_.promoted_by_norm,
                             NormTellsMore(kernels_, vectors_, ranked, layers_.n1(), job_));
    }
    if (report_.promoted_by_norm) RankByNorm(kernels_, vectors_, ranked);
    // A tree of paths is in no order of memory: looked for where some node needs a link.
    const ConnectReport connected =
        AllReachable(*bottom_, n_, ranked[0])
            ? ConnectReport()
            : ConnectAll(*bottom_, n_, ranked[0], ef_construction_, &vectors_);
    report_.repaired_nodes += connected.added_links;
    if (connected.added_links > 0) continue;
    report_.degree_mean =
        static_cast<double>(std::accumulate(degrees.begin(), degrees.end(), std::uint64_t{0})) / n_;
    report_.degree_max = *std::max_element(degrees.begin(), degrees.end());
    const auto p99 = degrees.begin() + static_cast<std::ptrdiff_t>(n_ - 1) * 99 / 100;
    std::nth_element(degrees.begin(), p99, degrees.end());
    report_.degree_p99 = *p99;
    report_.reachable_share = 1;
    break;
  }
  if (report_.reachable_share != 1)
    return absl::InternalError("the repair of unreachable nodes did not settle after 8 rounds");
  // Promoted nodes by rank, the others by row.
  SortByRow(std::span(ranked).subspan(layers_.n1()), row_of_);
  node_of_id_ = std::move(ranked);
  phases_.End("rank");
  return absl::OkStatus();
}

absl::Status Pipeline::Promote() {
  if (layers_.n1() > 0) {
    HMANN_ASSIGN_OR_RETURN(
        UpperLayers made,
        UpperLayers::Make({layers_, kernels_, links_, vectors_, row_of_, node_of_id_, method_, m_,
                           ef_construction_, alpha_, seed_, *work_, workers(), memory_.upper_room},
                          std::move(equal_), phases_, job_));
    upper_ = std::make_unique<UpperLayers>(std::move(made));
    report_.repaired_nodes += upper_->added_links();
  }
  return absl::OkStatus();
}

absl::Status Pipeline::MakeCells() {
  // Without codes, too: neighbours share blocks then.
  if (layers_.n1() > 0) {
    HMANN_ASSIGN_OR_RETURN(
        centroids_,
        upper_->MakeCells(*bottom_, std::min(inputs_->replicas(), layers_.n1()), phases_, job_));
    const auto others = node_of_id_.begin() + layers_.n1();
    std::vector<NodeId> ordered(n_ - layers_.n1());
    for (std::size_t j = 0; j < ordered.size(); ++j) ordered[j] = others[centroids_.order[j]];
    std::copy(ordered.begin(), ordered.end(), others);
    centroids_.order = {};
  }
  if (folder_ == nullptr) work_->RemoveAll("");
  return absl::OkStatus();
}

void Pipeline::SearchItself() {
  phases_.Begin("self-recall", kSelfRecallSample, "vectors");
  const auto entry = [this](const std::byte* query, LayerScratch& scratch) {
    return node_of_id_[upper_ == nullptr ? 0 : upper_->graph().Descend(query, 0, scratch)];
  };
  // A search reads a file here and there; so does the sample that codes have their mean
  // of.
  AdviseRandom(true);
  const SelfRecall recall = CheckSelfRecall(bottom_->View(0), vectors_, entry, seed_, job_);
  report_.self_recall_sample = recall.sample;
  report_.self_recall_at_1 = recall.share();
  phases_.End("self-recall");
}

absl::StatusOr<BuildReport> BuildIndex(const BuildOptions& options, Progress& progress) {
  HMANN_RETURN_IF_ERROR(options.Validate());
  return Pipeline(options, progress).Run();
}

}  // namespace hmann
