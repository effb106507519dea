#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/base/cpu.h"
#include "index/base/job.h"
#include "index/construct/bounded.h"
#include "index/construct/cell_assignment.h"
#include "index/construct/codes.h"
#include "index/construct/id_window.h"
#include "index/construct/inputs.h"
#include "index/construct/insertion_graph.h"
#include "index/construct/lift.h"
#include "index/construct/options.h"
#include "index/construct/phases.h"
#include "index/construct/upper_layers.h"
#include "index/construct/vectors.h"
#include "index/construct/workers.h"
#include "index/format/writer.h"

namespace hmann {

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
    SearchItself();
    HMANN_RETURN_IF_ERROR(Write());
    report_.phases.push_back(
        {"total", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
         ProcessCpuSeconds() - cpu_start});
    report_.peak_rss_bytes = PeakRssBytes();
    report_.peak_anonymous_bytes = phases_.peak_anonymous_bytes();
    if (folder_ != nullptr) {
      report_.work_bytes = folder_->MostBytes();
      if (!options_.keep_work) folder_->Clear();
    }
    return std::move(report_);
  }

 private:
  /// Opens and checks every input but the vectors, which the first stage reads.
  absl::Status Load();
  absl::Status CheckMemory(const BuildInputs& inputs);
  /// Phase 1: L0, copies hung below their firsts.
  absl::Status BuildBottom();
  /// Degree ranks; every node made reachable from the one of rank 0.
  absl::Status Rank();
  /// Phase 2: the upper layers.
  absl::Status Promote();
  /// Centroids of the unpromoted nodes, whose ids are put into the order of cells.
  absl::Status MakeCells();
  void SearchItself();
  const Workers* workers() const { return workers_.has_value() ? &*workers_ : nullptr; }
  bool Lifted() const { return Lifts(kernels_.dtype, kernels_.metric); }
  absl::Status Write();
  /// Codes as Write hands them over; `contents.row` must be set.
  absl::Status AddCodes(IndexContents& contents);
  /// Vectors of ids that are written: promoted, or in the window.
  const std::byte* RowOf(NodeId id) const;
  std::vector<float> MeanOfSample();
  /// How the files of L0 are read from now on.
  void AdviseRandom(bool random) const;

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
  std::unique_ptr<BuildInputs> inputs_;
  std::unique_ptr<Artefacts> work_;
  WorkFolder* folder_ = nullptr;  ///< work_, where memory is bounded
  BoundedMemory memory_;
  std::optional<Workers> workers_;

  std::vector<std::uint32_t> row_of_;  ///< [node]
  std::vector<NodeId> node_of_id_;     ///< [id]
  StoredVectors lifted_;               ///< by row, of inner products
  StoredVectors rows_;                 ///< by node, where they were inserted
  NodeVectors vectors_;                ///< by node, wherever they are
  std::vector<std::vector<NodeId>>
      equal_;  ///< nodes with equal vectors, first the one that was inserted; up to Promote
  std::unique_ptr<InsertionGraph> bottom_;
  std::unique_ptr<UpperLayers> upper_;  ///< none where nothing is promoted
  CellAssignment centroids_;
  // While the index is written:
  std::vector<NodeId> id_of_node_;
  std::optional<IdWindow> window_;
  std::optional<NodeCodes> node_codes_;
};

}  // namespace hmann
