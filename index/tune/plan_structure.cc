#include "index/tune/plan_structure.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/status_macros.h"
#include "index/construct/build_bytes.h"
#include "index/construct/graph/vectors.h"
#include "index/construct/inputs.h"
#include "index/format/scalar_codes.h"

namespace hmann {

absl::Status PlanShape::Validate() const {
  if (n < 2 || n > kMaxNodes)
    return InvalidArgument("rows: expected 2 to ", kMaxNodes, ", found ", n);
  if (m < 2 || m > 512) return InvalidArgument("m: expected 2 to 512, found ", m);
  return ChooseKernels(dtype, metric, dim).status();
}

PlanShape ShapeOf(const BuildOptions& build, std::uint64_t n, std::uint32_t dim, DType dtype) {
  return {n,
          dim,
          dtype,
          build.metric,
          build.m.value_or(DefaultM(dtype, dim)),
          !build.labels.empty(),
          build.method.value_or(DefaultMethod(dtype, build.metric))};
}

absl::StatusOr<PlanShape> ShapeOf(const BuildOptions& build) {
  HMANN_ASSIGN_OR_RETURN(const BuildInputs inputs, BuildInputs::Open(build));
  const Kernels& kernels = inputs.kernels();
  return PlanShape{inputs.n(),     kernels.dim, kernels.dtype,
                   kernels.metric, inputs.m(),  inputs.has_user_labels(),
                   inputs.method()};
}

double ShareOf(const PlanShape& shape, NodeId n1) {
  return (n1 + 0.5) / static_cast<double>(shape.n);
}

std::string DescribeStructure(const PlanShape& shape, const PlanStructure& structure) {
  const std::string promoted =
      absl::StrFormat("%.3g %% promoted", 100.0 * structure.n1 / static_cast<double>(shape.n));
  if (structure.bits == 0) return absl::StrCat(promoted, ", no codes");
  return absl::StrCat(promoted, ", ", structure.bits, " bits, replicas ", structure.replicas);
}

absl::StatusOr<Header> HeaderOf(const PlanShape& shape, const PlanStructure& structure) {
  HMANN_RETURN_IF_ERROR(shape.Validate());
  HMANN_ASSIGN_OR_RETURN(const Kernels kernels,
                         ChooseKernels(shape.dtype, shape.metric, shape.dim));
  Header header;
  header.dtype = shape.dtype;
  header.metric = shape.metric;
  header.dim = shape.dim;
  header.row_bytes = kernels.row_bytes;
  header.layers = Layers::Make(static_cast<NodeId>(shape.n), structure.n1, shape.m);
  header.label_bytes = shape.user_labels ? 8 : 4;
  // The build chooses; these are usual, and the most that it takes but for rare data.
  if (MayHaveScalarCodes(shape.dtype, shape.n, kernels.row_bytes)) header.scalar_bits = 4;
  if (structure.bits > 0) {
    header.codes = {structure.bits, structure.replicas, CodeBytes(shape.dim, structure.bits)};
    const auto others = static_cast<NodeId>(shape.n) - structure.n1;
    header.cell_count = std::min(structure.n1, others);  // upper bound: some centroids have no cell
  }
  return header;
}

FastShape FastShapeOf(const Header& header) {
  FastShape fast{header.layers.n(), header.layers.m,
                 static_cast<std::uint32_t>(FastRowStride(header.row_bytes)), header.label_bytes,
                 0};
  if (header.codes.bits > 0) {
    fast.code_bytes = header.codes.code_bytes + (header.codes.replicas == 2 ? sizeof(NodeId) : 0);
  }
  return fast;
}

absl::StatusOr<std::uint64_t> PlannedFileBytes(const PlanShape& shape,
                                               const PlanStructure& structure) {
  HMANN_ASSIGN_OR_RETURN(const Header header, HeaderOf(shape, structure));
  const Section last = PlanSections(header).back();
  return last.offset + RoundUp(last.bytes, kBlockBytes);
}

absl::StatusOr<BuildEstimate> EstimateBuild(const PlanShape& shape, const PlanStructure& structure,
                                            std::uint64_t memory) {
  HMANN_ASSIGN_OR_RETURN(const Header header, HeaderOf(shape, structure));
  BuildEstimate estimate;
  BuildShape build{static_cast<NodeId>(shape.n),
                   structure.n1,
                   shape.m,
                   shape.dim,
                   RowStride(header.row_bytes, shape.dtype, shape.metric),
                   structure.bits,
                   structure.replicas};
  build.user_labels = shape.user_labels;
  build.method = shape.method;
  build.inner_product = shape.metric == Metric::kInnerProduct;
  estimate.memory_bytes = BuildBytes(build);
  if (memory > 0 && !build.inner_product) estimate.bounded = PlanBounded(build, memory);
  HMANN_ASSIGN_OR_RETURN(estimate.file_bytes, PlannedFileBytes(shape, structure));
  return estimate;
}

}  // namespace hmann
