#include "index/construct/pipeline.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/build_options.h"
#include "index/base/clock.h"
#include "index/base/cpu.h"
#include "index/base/random.h"
#include "index/base/status_macros.h"
#include "index/base/task_context.h"
#include "index/construct/bounded.h"
#include "index/construct/codes.h"
#include "index/construct/graph/connect.h"
#include "index/construct/graph/degree.h"
#include "index/construct/graph/insertion_graph.h"
#include "index/construct/graph/lift.h"
#include "index/construct/graph/phases.h"
#include "index/construct/graph/self_recall.h"
#include "index/construct/graph/vectors.h"
#include "index/construct/id_window.h"
#include "index/construct/inputs.h"
#include "index/construct/jobs/cell_assignment.h"
#include "index/construct/jobs/part_loader.h"
#include "index/construct/jobs/workers.h"
#include "index/construct/make_bottom.h"
#include "index/construct/upper_layers.h"
#include "index/format/scalar_codes.h"
#include "index/format/writer.h"

namespace hmann {
namespace {

/// The state of one build, handed from phase to phase. Nodes are named by *node* (place
/// in the order of insertion), *row* (place in the base file) or *id* (place in the
/// finished index).
class Pipeline {
 public:
  Pipeline(const BuildOptions& options, Progress& progress)
      : options_(options),
        pool_(options.threads > 0 ? options.threads : UsableCores()),
        job_{pool_, progress, options.cancelled, options.slowed} {
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
    SearchItself();
    HMANN_RETURN_IF_ERROR(Write());
    double serial = 0;
    for (const PhaseTime& phase : report_.phases) serial += phase.serial_seconds;
    report_.phases.push_back(
        {"total", SecondsSince(start), ProcessCpuSeconds() - cpu_start, 0, serial});
    report_.peak_rss_bytes = PeakRssBytes();
    report_.peak_anonymous_bytes = phases_.peak_anonymous_bytes();
    if (folder_ != nullptr) {
      report_.work_bytes = folder_->MostBytes();
      if (!options_.keep_work) folder_->Clear();
    }
    return std::move(report_);
  }

 private:
  /// Opens and checks every input except the vectors, which the first stage reads.
  absl::Status Load();
  absl::Status CheckMemory(const BuildInputs& inputs);
  /// Phase 1: L0, with copies below their first nodes.
  absl::Status BuildBottom();
  /// Ranks nodes by degree and makes every node reachable from the one of rank 0.
  absl::Status Rank();
  /// Keeps copies out of the upper layers: there they would only fill the beam. `ranked`:
  /// nodes by rank.
  void PutCopiesLast(std::vector<NodeId>& ranked);
  /// Phase 2: the upper layers.
  absl::Status Promote();
  /// Finds the centroids of the unpromoted nodes, whose ids are put into the order of
  /// cells.
  absl::Status MakeCells();
  void SearchItself();
  const BuildJobRunner* workers() const { return workers_.has_value() ? &*workers_ : nullptr; }
  bool Lifted() const { return Lifts(kernels_.dtype, kernels_.metric); }
  absl::Status Write();
  /// Adds the codes as Write hands them over; `contents.row` must be set.
  absl::Status AddCodes(IndexContents& contents);
  /// The vectors of ids being written: promoted, or in the window.
  const std::byte* RowOf(NodeId id) const;
  std::vector<float> MeanOfSample();
  /// Sets how the files of L0 are read from now on.
  void AdviseRandom(bool random) const;

  const BuildOptions& options_;
  ThreadPool pool_;
  TaskContext job_;
  BuildReport report_;
  Phases phases_{job_.progress, report_.phases};

  std::uint64_t seed_ = 0;
  BuildMethod method_ = BuildMethod::kInsertion;
  Kernels kernels_;  ///< of the index
  Kernels links_;    ///< for making links and cells
  NodeId n_ = 0;
  Layers layers_;
  std::uint32_t m_ = 0, ef_construction_ = 0;
  float alpha_ = 1;  ///< for links that are made
  std::vector<std::uint64_t> user_labels_;
  std::unique_ptr<BuildInputs> inputs_;
  std::unique_ptr<Artifacts> work_;
  WorkFolder* folder_ = nullptr;  ///< work_, where memory is bounded
  BoundedMemory memory_;
  std::optional<LocalWorkers> workers_;

  std::vector<std::uint32_t> row_of_;  ///< [node]
  std::vector<NodeId> node_of_id_;     ///< [id]
  StoredVectors lifted_;               ///< by row, for inner product
  StoredVectors rows_;                 ///< by node, if they were inserted
  NodeVectors vectors_;                ///< by node, wherever they lie
  /// Nodes with equal vectors, the inserted one first; up to Rank.
  std::vector<std::vector<NodeId>> equal_;
  std::unique_ptr<InsertionGraph> bottom_;
  std::unique_ptr<UpperLayers> upper_;  ///< nullptr if nothing is promoted
  CellAssignment centroids_;
  // While the index is written:
  std::vector<NodeId> id_of_node_;
  std::optional<IdWindow> window_;
  std::optional<NodeCodes> node_codes_;
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
    work_ = std::make_unique<MemoryArtifacts>();
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
      workers_.emplace(options_.worker_program, options_.work, options_.workers,
                       std::max(1, pool_.threads() / options_.workers),
                       WorkerMemory(shape, options_.memory, options_.workers));
    }
    return absl::OkStatus();
  }
  memory_ = {.bottom_room = kUnbounded, .upper_room = kUnbounded, .write_room = kCopyRoom};
  return CheckBuildBytes(shape);
}

absl::Status Pipeline::BuildBottom() {
  BottomSource source{.rows = inputs_->Rows(),
                      .file = inputs_->file(),
                      .kernels = links_,
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
  // Mapped artifacts stay.
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
  // A repair adds links and so may change the highest rank. In practice it settles at
  // once.
  for (int round = 0; round < 8; ++round) {
    std::vector<std::uint32_t> degrees = ComputeDegrees(*bottom_, pool_, memory_.bottom_room);
    ranked = RankNodes(degrees, row_of_);
    if (round == 0 && Lifted()) {
      HMANN_ASSIGN_OR_RETURN(report_.promoted_by_norm,
                             NormTellsMore(kernels_, vectors_, ranked, layers_.n1(), job_));
    }
    if (report_.promoted_by_norm) RankByNorm(kernels_, vectors_, ranked);
    if (options_.rank_at_random) ranked = RandomPermutation(n_, seed_);
    PutCopiesLast(ranked);
    // A tree of paths follows no memory order, so it is used only where some node needs a
    // link.
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
    return Internal("the repair of unreachable nodes did not settle after 8 rounds");
  equal_ = {};
  // Promoted nodes by rank, the others by row.
  SortByRow(std::span(ranked).subspan(layers_.n1()), row_of_);
  node_of_id_ = std::move(ranked);
  phases_.End("rank");
  return absl::OkStatus();
}

void Pipeline::PutCopiesLast(std::vector<NodeId>& ranked) {
  if (equal_.empty()) return;
  std::vector<bool> is_copy(n_);
  for (const std::vector<NodeId>& group : equal_) {
    for (std::size_t i = 1; i < group.size(); ++i) is_copy[group[i]] = true;
  }
  const auto copies = std::stable_partition(ranked.begin(), ranked.end(),
                                            [&](NodeId node) { return !is_copy[node]; });
  const auto unique = static_cast<NodeId>(copies - ranked.begin());
  if (layers_.n1() > unique) layers_ = Layers::Make(n_, unique, m_);
}

absl::Status Pipeline::Promote() {
  if (layers_.n1() > 0) {
    HMANN_ASSIGN_OR_RETURN(
        UpperLayers made,
        UpperLayers::Make({layers_, kernels_, links_, vectors_, row_of_, node_of_id_, method_, m_,
                           ef_construction_, alpha_, seed_, *work_, workers(), memory_.upper_room},
                          phases_, job_));
    upper_ = std::make_unique<UpperLayers>(std::move(made));
    report_.repaired_nodes += upper_->added_links();
  }
  return absl::OkStatus();
}

absl::Status Pipeline::MakeCells() {
  // Ids are ordered by cells without codes, too: neighbors share blocks then.
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
  // A search reads a file at random. So does the sample whose mean codes use.
  AdviseRandom(true);
  const SelfRecall recall = CheckSelfRecall(*bottom_, vectors_, entry, seed_, job_);
  report_.self_recall_sample = recall.sample;
  report_.self_recall_at_1 = recall.share();
  if (recall.of_unit_length == recall.sample && options_.from_index.empty())
    report_.notes.push_back(
        "metric l2 of vectors of length 1: the nearest are those of cosine and ip, in another "
        "unit");
  phases_.End("self-recall");
}

void Pipeline::AdviseRandom(bool random) const {
  if (vectors_.advise_random) vectors_.advise_random(random);
  bottom_->AdviseRandom(random);
}

const std::byte* Pipeline::RowOf(NodeId id) const {
  if (upper_ != nullptr && id < layers_.n1()) return upper_->Row(id);
  return window_->Row(id);
}

std::vector<float> Pipeline::MeanOfSample() {
  // Takes some at a time, in the order of ids.
  constexpr NodeId kAtOnce = 4096;
  const NodeId step = MeanStep(n_);
  std::vector<NodeId> nodes;
  std::vector<std::byte> loaded(kAtOnce * vectors_.stride);
  return MeanOf(kernels_, n_, [&](NodeId id) {
    const NodeId place = id / step % kAtOnce;
    if (place == 0) {
      nodes.clear();
      for (std::uint64_t next = id; next < n_ && nodes.size() < kAtOnce; next += step)
        nodes.push_back(node_of_id_[next]);
      vectors_.Gather(nodes, pool_, loaded.data());
    }
    return std::as_const(loaded).data() + std::size_t{place} * vectors_.stride;
  });
}

absl::Status Pipeline::AddCodes(IndexContents& contents) {
  const NodeId n1 = layers_.n1();
  const std::uint32_t bits = inputs_->bits(), replicas = inputs_->replicas();
  if (bits == 0 || n1 < replicas) return absl::OkStatus();
  const CodeInfo info{bits, replicas, CodeBytes(kernels_.dim, bits)};
  contents.codes = info;
  contents.code_mean = MeanOfSample();
  contents.cells = std::move(centroids_.cells);
  contents.second_centroids = std::move(centroids_.second_centroids);
  NodeCodes::Source source{n_,
                           n1,
                           contents.cells,
                           [this](NodeId id) { return RowOf(id); },
                           [this](NodeId first) { window_->Load(first); },
                           window_->size()};
  HMANN_ASSIGN_OR_RETURN(NodeCodes made, NodeCodes::Make(kernels_, info, seed_, contents.code_mean,
                                                         std::move(source), pool_));
  NodeCodes& codes = node_codes_.emplace(std::move(made));
  contents.code = [&codes](NodeId id) { return codes.Of(id); };
  return absl::OkStatus();
}

absl::Status Pipeline::Write() {
  phases_.Begin("codes", 0, "vectors");
  id_of_node_.resize(n_);
  for (NodeId id = 0; id < n_; ++id) id_of_node_[node_of_id_[id]] = id;
  const std::size_t code = inputs_->bits() > 0 ? CodeBytes(kernels_.dim, inputs_->bits()) : 0;
  HMANN_ASSIGN_OR_RETURN(
      window_, IdWindow::Make({n_, &vectors_, bottom_.get(), &node_of_id_, &id_of_node_, code},
                              memory_.write_room, pool_));
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
    window_->Need(id);
    return window_->Links(id);
  };
  contents.row = [&](NodeId id) {
    if (id >= layers_.n1()) window_->Need(id);
    return RowOf(id);
  };
  contents.label = [&](NodeId id) -> std::uint64_t {
    const std::uint32_t row = row_of_[node_of_id_[id]];
    return user_labels_.empty() ? row : user_labels_[row];
  };
  HMANN_RETURN_IF_ERROR(AddCodes(contents));
  AdviseRandom(false);
  phases_.End("codes");
  phases_.Begin("write", n_, "records");
  HMANN_ASSIGN_OR_RETURN(report_.info,
                         WriteIndex(options_.out, contents, job_.progress, job_.cancelled));
  if (MayHaveScalarCodes(kernels_.dtype, n_, kernels_.row_bytes) && report_.info.scalar_bits == 0) {
    report_.notes.push_back(
        "no scalar codes: with 4 or 8 bits a component, searches would miss neighbors or read more "
        "than half of the bytes");
  }
  phases_.End("write");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BuildReport> BuildIndex(const BuildOptions& options, Progress& progress) {
  HMANN_RETURN_IF_ERROR(options.Validate());
  return Pipeline(options, progress).Run();
}

}  // namespace hmann
