#include "index/tune/build_estimate.h"

#include <algorithm>
#include <cmath>

#include "index/base/status_macros.h"
#include "index/construct/bottom_layer.h"
#include "index/construct/build_bytes.h"
#include "index/construct/partition.h"
#include "index/construct/vectors.h"
#include "index/graph/select.h"

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
/// A line of DRAM with as many loads under way as an insertion has, 8.
constexpr double kNsPerLine = 13;
/// What a distance in a leaf costs beside one to a batch: half, as one of a block, but
/// lists are kept besides. SIFT u8 128-d 1.7 (1M), Fashion u8 784-d 1.9, RootSIFT f32
/// 96-d 2.1 (both on two busy threads). One to a leader is of a block and leaves nothing
/// behind.
constexpr double kInLeaf = 1.9, kToLeader = 0.5;
/// Vectors from anywhere that a node's links are chosen among and their way back merged.
constexpr double kMetBySelection = 500;
/// What ranking, cells, codes and writing take of a vector, in distances to a batch. As
/// the numbers above of SIFT (25 thousand to ten million: within 15 %), elsewhere a
/// guess.
constexpr double kRest = 1600;

/// Distances in leaves that a bounded build computes once more, of one; nanoseconds of a
/// vector that is read once: of ten million vectors within 2 GiB, elsewhere a guess.
constexpr double kJoinedAgain = 0.79, kOfAPass = 150;

/// A distance in the CPU's caches, on a usual machine.
double NsPerDistance(DType dtype, std::uint32_t dim) {
  switch (dtype) {
    case DType::kF32:
      return 9.0 / 96 * dim;
    case DType::kF16:
      return 12.0 / 96 * dim;
    default:
      return 6.0 / 128 * dim;
  }
}

/// Distances of `nodes` insertions among that many.
double MetByInsertion(const PlanShape& shape, double nodes, bool refined) {
  return (refined ? kRelaxedInsertion : 1) * nodes * kMetByPlace * shape.ef_construction *
         std::log2(std::max(2.0, nodes));
}

}  // namespace

absl::StatusOr<BuildEstimate> EstimateBuild(const PlanShape& shape, const PlanStructure& structure,
                                            int threads, std::uint64_t memory) {
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
  if (memory > 0 && build.method == BuildMethod::kPartition && !build.inner_product)
    estimate.bounded = PlanBounded(build, memory);
  HMANN_ASSIGN_OR_RETURN(estimate.file_bytes, PlannedFileBytes(shape, structure));
  const bool refined = AlphaFor(shape.dtype, shape.metric, shape.alpha) > 1;
  const auto nodes = static_cast<double>(shape.n), promoted = static_cast<double>(structure.n1);
  const double cached = NsPerDistance(shape.dtype, shape.dim),
               anywhere = cached + std::ceil(header.row_bytes / 64.0) * kNsPerLine;
  double ns = 0;
  if (shape.method == BuildMethod::kPartition) {
    const auto joined = [&](double count) {
      const PartitionWork work = WorkOfPartition(static_cast<std::uint64_t>(count));
      return count * (cached * (kInLeaf * work.in_leaves + kToLeader * work.to_leaders) +
                      kMetBySelection * anywhere);
    };
    ns = joined(nodes) + joined(promoted) + nodes * kRest * cached +
         MetByInsertion(shape, promoted / kBackboneOfL1, refined) * anywhere;
  } else {
    ns = (MetByInsertion(shape, nodes, refined) + MetByInsertion(shape, promoted, refined) +
          (refined ? nodes * kRefinedByLink * shape.m : 0)) *
         anywhere;
  }
  estimate.cpu_seconds = ns / 1e9;
  estimate.seconds = estimate.cpu_seconds / std::max(1, threads);
  if (estimate.bounded.has_value()) {
    const double again = kJoinedAgain * kInLeaf * cached * WorkOfPartition(shape.n).in_leaves,
                 read = kOfAPass * estimate.bounded->base_passes;
    estimate.bounded->cpu_seconds = estimate.cpu_seconds + 1e-9 * nodes * (again + read);
  }
  return estimate;
}

}  // namespace hmann
