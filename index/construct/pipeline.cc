#include "index/construct/pipeline.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/bottom_layer.h"
#include "index/construct/cell_assignment.h"
#include "index/construct/codes.h"
#include "index/construct/connect.h"
#include "index/construct/degree.h"
#include "index/construct/inputs.h"
#include "index/construct/insertion_order.h"
#include "index/construct/lift.h"
#include "index/construct/phases.h"
#include "index/construct/self_recall.h"
#include "index/construct/upper_layers.h"
#include "index/construct/vectors.h"
#include "index/format/writer.h"

namespace hmann {
namespace {

constexpr double kDefaultPromote = 0.16;  ///< the paper's rate for BIGANN with 96 GB

/// The state of one build, handed from phase to phase. Nodes are named by *node* (place
/// in the order of insertion), *row* (place in the base file) or *id* (place in the
/// finished index).
class Pipeline {
 public:
  Pipeline(const BuildOptions& options, Progress& progress)
      : options_(options),
        pool_(options.threads > 0 ? options.threads : UsableCores()),
        job_{pool_, progress, options.cancelled} {
    report_.threads = pool_.threads();
  }

  absl::StatusOr<BuildReport> Run() {
    const auto start = std::chrono::steady_clock::now();
    const double cpu_start = ProcessCpuSeconds();
    HMANN_RETURN_IF_ERROR(Load());
    HMANN_RETURN_IF_ERROR(BuildBottom());
    HMANN_RETURN_IF_ERROR(Rank());
    HMANN_RETURN_IF_ERROR(Promote());
    HMANN_RETURN_IF_ERROR(MakeCells());
    HMANN_RETURN_IF_ERROR(EncodeCodes());
    SearchItself();
    HMANN_RETURN_IF_ERROR(Write());
    report_.phases.push_back(
        {"total", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
         ProcessCpuSeconds() - cpu_start});
    report_.peak_rss_bytes = PeakRssBytes();
    return std::move(report_);
  }

 private:
  /// Opens and checks every input, then encodes the vectors (or takes them from a
  /// finished index).
  absl::Status Load();
  absl::Status CheckMemory(const BuildInputs& inputs) const;
  /// Finds copies, and puts vectors that are to be inserted into that order; returns how
  /// many are.
  absl::StatusOr<NodeId> Order();
  /// Phase 1: L0 by insertion or import, copies hung below their firsts.
  absl::Status BuildBottom();
  /// Degree ranks; every node made reachable from the one of rank 0.
  absl::Status Rank();
  /// Phase 2: the upper layers.
  absl::Status Promote();
  /// Centroids of the unpromoted nodes, whose ids are put into the order of cells.
  absl::Status MakeCells();
  absl::Status EncodeCodes();
  void SearchItself();
  bool Lifted() const { return Lifts(kernels_.dtype, kernels_.metric); }
  absl::Status Write();
  /// Codes as Write hands them over; `contents.row` must be set.
  absl::Status AddCodes(IndexContents& contents);
  /// Links of `id` in L0, as ids. From Write on.
  void AppendBottomLinks(NodeId id, std::vector<NodeId>& links) const;

  const BuildOptions& options_;
  ThreadPool pool_;
  Job job_;
  BuildReport report_;
  Phases phases_{job_.progress, report_.phases};

  std::uint64_t seed_ = 0;
  BuildMethod method_ = BuildMethod::kInsertion;
  Kernels kernels_;  ///< of the index
  Kernels links_;    ///< that links and cells are made with
  NodeId n_ = 0;
  Layers layers_;
  std::uint32_t m_ = 0, ef_construction_ = 0;
  float alpha_ = 1;  ///< of links that are made
  std::vector<std::uint64_t> user_labels_;
  std::unique_ptr<ImportedGraph> imported_;

  Partition partition_;                ///< from Order to BuildBottom
  std::vector<std::uint32_t> row_of_;  ///< [node]
  std::vector<NodeId> node_of_id_;     ///< [id]
  StoredVectors rows_;                 ///< by node
  std::vector<std::vector<NodeId>>
      equal_;  ///< nodes with equal vectors, first the one that was inserted; up to Promote
  std::unique_ptr<InsertionGraph> bottom_;
  std::unique_ptr<UpperLayers> upper_;  ///< none where nothing is promoted
  CellAssignment centroids_;
  Codes codes_;                          ///< of nodes; bits 0: none
  std::optional<LinkCodes> link_codes_;  ///< made while the index is written
  std::vector<NodeId> id_of_node_;       ///< from Write on
};

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
  const auto n1 =
      static_cast<NodeId>(static_cast<double>(n_) * options_.promote.value_or(kDefaultPromote));
  layers_ = Layers::Make(n_, n1, m_);
  HMANN_RETURN_IF_ERROR(CheckMemory(inputs));
  phases_.Begin("load", n_, "vectors");
  HMANN_ASSIGN_OR_RETURN(rows_, inputs.Load(job_));
  links_ = kernels_;
  if (Lifted()) {
    HMANN_ASSIGN_OR_RETURN(links_, LiftedKernels(kernels_));
    LiftRows(kernels_, n_, job_, rows_);
  }
  user_labels_ = inputs.user_labels();
  imported_ = inputs.TakeGraph();
  phases_.End("load");
  return absl::OkStatus();
}

absl::Status Pipeline::CheckMemory(const BuildInputs& inputs) const {
  const std::uint64_t need = BuildBytes(inputs.Shape(layers_.n1()));
  const std::uint64_t have = UsableMemoryBytes();
  if (need <= have) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the build needs about ", FormatSize(need), " of memory, ", FormatSize(have),
                   " are available to this process: take fewer rows (--rows) or a smaller --m"));
}

absl::StatusOr<NodeId> Pipeline::Order() {
  phases_.Begin("order", n_, "vectors");
  DuplicateGroups duplicates =
      FindDuplicates(rows_.rows.data(), n_, kernels_.row_bytes, rows_.stride, pool_);
  report_.duplicates = duplicates.copies;
  InsertionOrder order;
  if (imported_ != nullptr) {
    order = OrderOfRows(std::move(duplicates), n_);
  } else if (method_ == BuildMethod::kPartition) {
    HMANN_ASSIGN_OR_RETURN(partition_,
                           Partition::Make(rows_, links_, duplicates.unique,
                                           PartitionFor(duplicates.unique.size(), seed_), job_));
    order = OrderOf(std::move(duplicates), n_, partition_.order());
  } else {
    order = RandomOrder(std::move(duplicates), n_, seed_);
  }
  const NodeId inserted = order.inserted;
  row_of_ = std::move(order.row_of);
  equal_ = std::move(order.equal);
  if (imported_ == nullptr) {
    // The block ends the old rows' life: they would stay in memory through the insertion.
    HMANN_ASSIGN_OR_RETURN(rows_, GatherVectors(rows_, row_of_, pool_));
  }
  phases_.End("order");
  return inserted;
}

absl::Status Pipeline::BuildBottom() {
  HMANN_ASSIGN_OR_RETURN(const NodeId made, Order());
  if (imported_ != nullptr) {
    // In the memory that the links came in: a second copy would be the largest thing that
    // a promotion holds beside the vectors.
    bottom_ = std::make_unique<InsertionGraph>(
        InsertionGraph::Over(std::move(imported_->links), n_, imported_->max_degree,
                             rows_.rows.data(), rows_.stride, links_));
    imported_.reset();
    return absl::OkStatus();
  }
  const BottomSource source{rows_, links_, n_, made, m_, ef_construction_, alpha_};
  HMANN_ASSIGN_OR_RETURN(InsertionGraph graph,
                         method_ == BuildMethod::kPartition
                             ? JoinBottom(source, std::move(partition_), "", phases_, job_)
                             : InsertBottom(source, phases_, job_));
  bottom_ = std::make_unique<InsertionGraph>(std::move(graph));
  if (method_ == BuildMethod::kPartition)
    HMANN_RETURN_IF_ERROR(LinkBackbone(source, *bottom_, phases_, job_));
  LinkDuplicates(equal_, *bottom_);
  bottom_->DropUpperLayers();
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
    if (round == 0)
      report_.promoted_by_norm =
          Lifted() && NormTellsMore(kernels_, rows_, ranked, layers_.n1(), job_);
    if (report_.promoted_by_norm) RankByNorm(kernels_, rows_, ranked);
    const ConnectReport connected = ConnectAll(*bottom_, n_, ranked[0], ef_construction_);
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
        UpperLayers made, UpperLayers::Make({layers_, kernels_, links_, rows_, node_of_id_, method_,
                                             m_, ef_construction_, alpha_, seed_},
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
        upper_->MakeCells(*bottom_, std::min(options_.replicas, layers_.n1()), phases_, job_));
    const auto others = node_of_id_.begin() + layers_.n1();
    std::vector<NodeId> ordered(n_ - layers_.n1());
    for (std::size_t j = 0; j < ordered.size(); ++j) ordered[j] = others[centroids_.order[j]];
    std::copy(ordered.begin(), ordered.end(), others);
    centroids_.order = {};
  }
  return absl::OkStatus();
}

absl::Status Pipeline::EncodeCodes() {
  if (options_.bits == 0 || options_.codes == CodePlace::kLink || layers_.n1() < options_.replicas)
    return absl::OkStatus();
  phases_.Begin("codes", n_ - layers_.n1(), "nodes");
  const CodeInfo codes{options_.bits, options_.replicas, CodeBytes(kernels_.dim, options_.bits)};
  const auto row = [this](NodeId id) { return rows_.Row(node_of_id_[id]); };
  HMANN_ASSIGN_OR_RETURN(
      codes_, MakeCodes(kernels_, codes, seed_, {n_, layers_.n1(), centroids_.cells, row}, job_));
  phases_.End("codes");
  return absl::OkStatus();
}

void Pipeline::SearchItself() {
  phases_.Begin("self-recall", kSelfRecallSample, "vectors");
  const auto entry = [this](const std::byte* query, LayerScratch& scratch) {
    return node_of_id_[upper_ == nullptr ? 0 : upper_->graph().Descend(query, 0, scratch)];
  };
  const SelfRecall recall = CheckSelfRecall(bottom_->View(0), entry, seed_, job_);
  report_.self_recall_sample = recall.sample;
  report_.self_recall_at_1 = recall.share();
  phases_.End("self-recall");
}

void Pipeline::AppendBottomLinks(NodeId id, std::vector<NodeId>& links) const {
  const NodeId* nodes = bottom_->Links(0, node_of_id_[id]);
  const std::size_t count = CountLinks(nodes, layers_.MaxDegree(0));
  for (std::size_t i = 0; i < count; ++i) links.push_back(id_of_node_[nodes[i]]);
}

absl::Status Pipeline::AddCodes(IndexContents& contents) {
  if (options_.bits > 0 && options_.codes == CodePlace::kLink && layers_.n1() > 0) {
    contents.codes = {options_.bits, 0, CodeBytes(kernels_.dim, options_.bits), CodePlace::kLink};
    LinkCodes::Source source{
        n_, layers_.MaxDegree(0), contents.row,
        [this](NodeId id, std::vector<NodeId>& links) { AppendBottomLinks(id, links); }};
    HMANN_ASSIGN_OR_RETURN(
        LinkCodes made, LinkCodes::Make(kernels_, contents.codes, seed_, std::move(source), pool_));
    LinkCodes& links = link_codes_.emplace(std::move(made));
    contents.code_mean = links.mean();
    contents.link_codes = [&links](NodeId id) { return links.Of(id); };
    return absl::OkStatus();
  }
  contents.codes = codes_.info;
  if (contents.codes.bits == 0) return absl::OkStatus();
  contents.cells = std::move(centroids_.cells);
  contents.second_centroids = std::move(centroids_.second_centroids);
  contents.code_mean = codes_.mean;
  contents.code = [this](NodeId id) {
    return codes_.bytes.data() +
           static_cast<std::size_t>(id - layers_.n1()) * codes_.info.code_bytes;
  };
  return absl::OkStatus();
}

absl::Status Pipeline::Write() {
  phases_.Begin("write", n_, "records");
  id_of_node_.resize(n_);
  for (NodeId id = 0; id < n_; ++id) id_of_node_[node_of_id_[id]] = id;
  std::vector<NodeId> renamed;
  IndexContents contents;
  contents.dtype = kernels_.dtype;
  contents.metric = kernels_.metric;
  contents.dim = kernels_.dim;
  contents.row_bytes = kernels_.row_bytes;
  contents.layers = layers_;
  contents.ef_construction = ef_construction_;
  contents.alpha = alpha_;
  contents.seed = seed_;
  contents.user_labels = !user_labels_.empty();
  contents.links = [&](std::uint32_t layer, NodeId id) -> std::span<const NodeId> {
    if (layer > 0) {
      const NodeId* links = upper_->graph().Links(layer - 1, id);
      return {links, CountLinks(links, layers_.MaxDegree(layer))};
    }
    renamed.clear();
    AppendBottomLinks(id, renamed);
    return renamed;
  };
  contents.row = [&](NodeId id) { return rows_.Row(node_of_id_[id]); };
  contents.label = [&](NodeId id) -> std::uint64_t {
    const std::uint32_t row = row_of_[node_of_id_[id]];
    return user_labels_.empty() ? row : user_labels_[row];
  };
  HMANN_RETURN_IF_ERROR(AddCodes(contents));
  HMANN_ASSIGN_OR_RETURN(report_.info,
                         WriteIndex(options_.out, contents, job_.progress, job_.cancelled));
  phases_.End("write");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BuildReport> BuildIndex(const BuildOptions& options, Progress& progress) {
  HMANN_RETURN_IF_ERROR(options.Validate());
  return Pipeline(options, progress).Run();
}

}  // namespace hmann
