#include "index/tune/build_estimate.h"

#include <algorithm>
#include <cmath>

#include "index/base/status_macros.h"
#include "index/construct/build_bytes.h"
#include "index/graph/select.h"
#include "index/tune/placement_costs.h"

namespace hmann {
namespace {

/// Vectors that an insertion meets for each place of its beam and doubling of n: 100
/// thousand SIFT vectors took 70 us each on one core.
constexpr double kMetByPlace = 2;
/// What alpha adds, on the same vectors at M = 8, 16 and 32: a sixth to the insertion,
/// whose lists are chosen in two rounds, and to the refinement of a node as much as this
/// for each link of M, whatever ef_construction is. 1M in two threads: 66 s instead of
/// 40.
constexpr double kRelaxedInsertion = 1.15, kRefinedByLink = 140;
/// Loads that are under way at once meanwhile.
constexpr double kInsertionLoads = 8;

}  // namespace

absl::StatusOr<BuildEstimate> EstimateBuild(const PlanShape& shape, const PlanStructure& structure,
                                            const DeviceProfile& profile, int threads) {
  HMANN_ASSIGN_OR_RETURN(const Header header, HeaderOf(shape, structure));
  HMANN_ASSIGN_OR_RETURN(const TierCost dram, CostOf(profile, "dram"));
  BuildEstimate estimate;
  BuildShape build{static_cast<NodeId>(shape.n),
                   structure.n1,
                   shape.m,
                   shape.dim,
                   FastRowStride(header.row_bytes),
                   structure.bits,
                   structure.replicas,
                   structure.codes};
  build.user_labels = shape.user_labels;
  build.inner_product = shape.metric == Metric::kInnerProduct;
  estimate.memory_bytes = BuildBytes(build);
  HMANN_ASSIGN_OR_RETURN(estimate.file_bytes, PlannedFileBytes(shape, structure));
  const bool refined = AlphaFor(shape.metric, shape.alpha) > 1;
  const auto nodes = static_cast<double>(shape.n), inserted = nodes + structure.n1;
  double vectors = inserted * kMetByPlace * shape.ef_construction * std::log2(nodes);
  if (refined) vectors = kRelaxedInsertion * vectors + nodes * kRefinedByLink * shape.m;
  const double one = NsPerDistance(profile, shape.dtype, shape.dim) +
                     Lines(header.row_bytes) * NsPerLine(dram.memory, kInsertionLoads);
  estimate.seconds = vectors * one / 1e9 / std::max(1, threads);
  return estimate;
}

}  // namespace hmann
