#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/vector_file.h"
#include "hmann/build_options.h"
#include "index/base/task_context.h"
#include "index/construct/build_bytes.h"
#include "index/construct/graph/node_vectors.h"
#include "index/construct/import/import_graph.h"
#include "index/format/reader.h"

namespace hmann {

/// The inputs of a build: a vector file, with or without a graph that another library
/// finished over it, or a finished index of our own. Open reads headers and takes no
/// memory. Load follows when it is known that the memory will do. Move-only.
class BuildInputs {
 public:
  /// `options` must outlive the inputs. Errors: those of the files; INVALID_ARGUMENT for
  /// more vectors than an index can have.
  static absl::StatusOr<BuildInputs> Open(const BuildOptions& options);

  NodeId n() const { return n_; }
  const Kernels& kernels() const { return kernels_; }
  std::uint32_t m() const { return m_; }
  std::uint32_t ef_construction() const { return ef_construction_; }
  /// For links that the build makes, as the metric admits it. A finished index keeps its
  /// own alpha.
  float alpha() const { return alpha_; }
  std::uint64_t seed() const { return seed_; }
  BuildMethod method() const {
    return options_->method.value_or(DefaultMethod(kernels_.dtype, kernels_.metric));
  }
  bool has_user_labels() const {
    return index_ != nullptr ? index_->info().user_labels
                             : !(options_->labels.empty() && options_->label_values.empty());
  }
  /// Whether L0 comes with the inputs.
  bool has_graph() const {
    return index_ != nullptr || !options_->from_hnswlib.empty() || !options_->from_faiss.empty();
  }
  /// The quantities that determine the memory of a build with `n1` promoted nodes.
  BuildShape Shape(NodeId n1) const;
  /// The number of promoted nodes, the bits of a code, and the number of cells that list
  /// a node. The options decide; otherwise a finished index, or defaults.
  NodeId n1() const;
  std::uint32_t bits() const;
  std::uint32_t replicas() const;

  /// Loads the labels and the links of another library. Errors: those of ReadLabels and
  /// of the imports.
  absl::Status Load();
  absl::Status LoadLabels();  ///< these alone
  /// Vectors in stored form by row (for a finished index: by id), copied from the opened
  /// files. The inputs must not move any more.
  NodeVectors Rows() const;
  /// Loads and checks all rows. Errors: those of LoadVectors.
  absl::StatusOr<StoredVectors> LoadRows(const TaskContext& job) const;
  /// Exactly one of the two is set: vectors, or a finished index whose nodes are
  /// promoted.
  const VectorFile* file() const { return file_.get(); }
  const IndexFile* index() const { return index_.get(); }
  /// When loaded: by row; empty where labels are row numbers.
  const std::vector<std::uint64_t>& user_labels() const { return user_labels_; }
  /// After Load: L0 of another library, or nullptr. Given away only once.
  std::unique_ptr<ImportedGraph> TakeGraph() { return std::move(graph_); }

 private:
  explicit BuildInputs(const BuildOptions& options) : options_(&options), seed_(options.seed) {}
  absl::Status OpenBase();
  absl::Status OpenIndex();
  absl::Status LoadGraph();

  const BuildOptions* options_;
  std::unique_ptr<VectorFile> file_;
  std::unique_ptr<IndexFile> index_;  ///< instead of file_
  NodeId n_ = 0;
  Kernels kernels_;
  std::uint32_t m_ = 0, ef_construction_ = 0;
  float alpha_ = 1;
  std::uint64_t seed_;
  std::vector<std::uint64_t> user_labels_;
  std::unique_ptr<ImportedGraph> graph_;
};

}  // namespace hmann
