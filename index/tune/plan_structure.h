#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/build_options.h"
#include "hmann/distance.h"
#include "index/construct/bounded.h"
#include "index/construct/fast_memory.h"
#include "index/format/header.h"
#include "index/graph/types.h"

namespace hmann {

/// The shape of the index to place.
struct PlanShape {
  std::uint64_t n = 0;
  std::uint32_t dim = 0;
  DType dtype = DType::kU8;
  Metric metric = Metric::kL2;
  std::uint32_t m = 16;
  bool user_labels = false;
  BuildMethod method = BuildMethod::kPartition;  ///< of the build; it affects memory

  /// Errors: INVALID_ARGUMENT naming the field, for a shape that no index can have.
  absl::Status Validate() const;
};

/// The shape of an index that Build(build) would make from n vectors that do not exist
/// yet.
PlanShape ShapeOf(const BuildOptions& build, std::uint64_t n, std::uint32_t dim, DType dtype);
/// The same for its existing inputs: a vector file, with or without another library's
/// graph, whose M counts then; or a finished index. Reads headers only. Errors: those of
/// BuildInputs::Open.
absl::StatusOr<PlanShape> ShapeOf(const BuildOptions& build);

/// The structure of an index, which determines its bytes and its work.
struct PlanStructure {
  NodeId n1 = 0;
  std::uint32_t bits = 0, replicas = 1;
};

/// A share of promoted nodes from which N_1 follows exactly: halfway to the next node.
double ShareOf(const PlanShape& shape, NodeId n1);
/// "16 % promoted, 2 bits, replicas 1".
std::string DescribeStructure(const PlanShape& shape, const PlanStructure& structure);

/// All bytes of the index file. Errors: those of HeaderOf.
absl::StatusOr<std::uint64_t> PlannedFileBytes(const PlanShape& shape,
                                               const PlanStructure& structure);

/// The header of such an index, without sections. Errors: those of PlanShape::Validate.
absl::StatusOr<Header> HeaderOf(const PlanShape& shape, const PlanStructure& structure);
/// The part of it that fast memory would hold, without reserve, cache and rounding to
/// pages.
FastShape FastShapeOf(const Header& header);

/// Estimated cost of building such an index from vectors.
struct BuildEstimate {
  std::uint64_t memory_bytes = 0;  ///< at its highest
  std::uint64_t file_bytes = 0;
  /// Within the planned fast memory, unless under inner product.
  std::optional<BoundedPlan> bounded;
};

/// `memory`: memory of a bounded build. Errors: those of HeaderOf.
absl::StatusOr<BuildEstimate> EstimateBuild(const PlanShape& shape, const PlanStructure& structure,
                                            std::uint64_t memory = 0);

}  // namespace hmann
