#include "index/construct/inputs.h"

#include <algorithm>
#include <numeric>

#include "datasets/labels.h"
#include "index/base/status_macros.h"
#include "index/construct/import/import_faiss.h"
#include "index/construct/import/import_hnswlib.h"
#include "index/construct/import_index.h"
#include "index/graph/select.h"

namespace hmann {
namespace {

absl::StatusOr<VectorFile> OpenVectors(const BuildOptions& options) {
  const auto& [data, dtype, dim, n, stride] = options.vectors;
  if (data == nullptr) return VectorFile::Open(options.base, options.rows);
  if (options.rows > n)
    return InvalidArgument("rows: ", options.rows, " asked for, ", n, " vectors found");
  const std::uint64_t rows = options.rows > 0 ? options.rows : n;
  return VectorFile::View("base", data, dtype,
                          {.offset = 0, .stride = stride, .n = rows, .dim = dim});
}

}  // namespace

absl::StatusOr<BuildInputs> BuildInputs::Open(const BuildOptions& options) {
  BuildInputs inputs(options);
  HMANN_RETURN_IF_ERROR(options.from_index.empty() ? inputs.OpenBase() : inputs.OpenIndex());
  return inputs;
}

absl::Status BuildInputs::OpenBase() {
  HMANN_ASSIGN_OR_RETURN(VectorFile file, OpenVectors(*options_));
  file_ = std::make_unique<VectorFile>(std::move(file));
  if (file_->n() > kMaxNodes) {
    return InvalidArgument(file_->path(), ": ", file_->n(), " vectors, at most ", kMaxNodes,
                           " in one index");
  }
  n_ = static_cast<NodeId>(file_->n());
  const DType dtype = options_->dtype.value_or(file_->dtype());
  if (!Encodes(file_->dtype(), dtype)) {
    return InvalidArgument("dtype: ", std::string(Name(dtype)), " asked for; ", file_->path(),
                           " holds ", std::string(Name(file_->dtype())), ", expected this",
                           file_->dtype() == DType::kF32 ? " or f16" : "",
                           " (`hmann data convert` makes other files)");
  }
  HMANN_ASSIGN_OR_RETURN(kernels_, ChooseKernels(dtype, options_->metric, file_->dim()));
  if (dtype == DType::kF32) HMANN_RETURN_IF_ERROR(file_->CheckScale(options_->metric));
  m_ = options_->m.value_or(DefaultM(dtype, file_->dim()));
  ef_construction_ = options_->ef_construction;
  alpha_ = AlphaFor(dtype, options_->metric, options_->alpha);
  if (!has_graph()) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(
      const GraphParameters graph,
      !options_->from_hnswlib.empty()
          ? ReadHnswlibParameters(options_->from_hnswlib, *file_, options_->metric)
          : ReadFaissParameters(options_->from_faiss, *file_, options_->metric));
  m_ = graph.m;
  ef_construction_ = graph.ef_construction;
  return absl::OkStatus();
}

absl::Status BuildInputs::LoadGraph() {
  HMANN_ASSIGN_OR_RETURN(ImportedGraph graph,
                         !options_->from_hnswlib.empty()
                             ? ImportHnswlib(options_->from_hnswlib, *file_, options_->metric)
                             : ImportFaiss(options_->from_faiss, *file_, options_->metric));
  graph_ = std::make_unique<ImportedGraph>(std::move(graph));
  return absl::OkStatus();
}

absl::Status BuildInputs::OpenIndex() {
  HMANN_ASSIGN_OR_RETURN(IndexFile file, IndexFile::Open(options_->from_index));
  index_ = std::make_unique<IndexFile>(std::move(file));
  const IndexInfo& info = index_->info();
  n_ = index_->layers().n();
  HMANN_ASSIGN_OR_RETURN(kernels_, ChooseKernels(info.dtype, info.metric, info.dim));
  m_ = info.m;
  ef_construction_ = info.ef_construction;
  alpha_ = info.alpha;
  seed_ = info.seed;
  return absl::OkStatus();
}

BuildShape BuildInputs::Shape(NodeId n1) const {
  return {.n = n_,
          .n1 = n1,
          .m = m_,
          .dim = kernels_.dim,
          .stride = RowStride(kernels_),
          .bits = bits(),
          .replicas = replicas(),
          .user_labels = has_user_labels(),
          .finished_graph = has_graph(),
          .imported = has_graph() && index_ == nullptr,
          .method = method(),
          .inner_product = kernels_.metric == Metric::kInnerProduct};
}

NodeId BuildInputs::n1() const {
  if (index_ != nullptr && !options_->promote.has_value()) return index_->layers().n1();
  return static_cast<NodeId>(static_cast<double>(n_) * options_->promote.value_or(kDefaultPromote));
}

std::uint32_t BuildInputs::bits() const {
  constexpr std::uint32_t kDefaultBits = 2;
  return options_->bits.value_or(index_ != nullptr ? index_->info().codes.bits : kDefaultBits);
}

std::uint32_t BuildInputs::replicas() const {
  const std::uint32_t before = index_ != nullptr ? index_->info().codes.replicas : 1;
  return options_->replicas.value_or(std::max(before, 1u));
}

absl::Status BuildInputs::LoadLabels() {
  if (!has_user_labels()) return absl::OkStatus();
  if (index_ != nullptr) {
    user_labels_ = UserLabelsOf(*index_);
    return absl::OkStatus();
  }
  if (const auto& values = options_->label_values; !values.empty()) {
    if (values.size() != n_)
      return InvalidArgument("labels: ", values.size(), " found, ", n_, " expected");
    user_labels_.assign(values.begin(), values.end());
    return absl::OkStatus();
  }
  HMANN_ASSIGN_OR_RETURN(user_labels_, ReadLabels(options_->labels, n_));
  return absl::OkStatus();
}

absl::Status BuildInputs::Load() {
  HMANN_RETURN_IF_ERROR(LoadLabels());
  return index_ == nullptr && has_graph() ? LoadGraph() : absl::OkStatus();
}

absl::StatusOr<StoredVectors> BuildInputs::LoadRows(const TaskContext& job) const {
  if (index_ == nullptr) return LoadVectors(*file_, kernels_, job);
  std::vector<NodeId> ids(n_);
  std::iota(ids.begin(), ids.end(), NodeId{0});
  return Rows().Gather(ids, job.pool);
}

NodeVectors BuildInputs::Rows() const {
  using Access = MappedFile::Access;
  NodeVectors rows{.stride = RowStride(kernels_), .count = n_};
  if (index_ == nullptr) {
    rows.copy = CopyFrom(*file_, kernels_);
    rows.advise_random = [file = file_.get()](bool random) {
      file->Advise(random ? Access::kRandom : Access::kSequential, 0, file->n());
    };
    return rows;
  }
  rows.copy = [index = index_.get()](std::uint32_t id, std::byte* place) {
    std::copy_n(index->Row(id), index->records().row_bytes, place);
  };
  rows.advise_random = [file = &index_->file()](bool random) {
    file->Advise(random ? Access::kRandom : Access::kSequential, 0, file->bytes().size());
  };
  return rows;
}

}  // namespace hmann
