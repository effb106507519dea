#include "index/construct/build_bytes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "index/base/cpu.h"
#include "index/base/units.h"
#include "index/construct/codes.h"
#include "index/construct/fast_memory.h"
#include "index/construct/nearest_lists.h"
#include "index/construct/partition.h"
#include "index/graph/layers.h"

namespace hmann {
namespace {

constexpr std::uint64_t kId = sizeof(NodeId);
/// A group of two equal vectors, by vector: half of a list, and of its block on the heap.
constexpr std::uint64_t kGroup = 28;

}  // namespace

std::uint64_t BuildBytes(const BuildShape& shape) {
  const std::uint64_t n = shape.n, n1 = shape.n1, others = n - n1;
  const std::uint64_t code = shape.bits > 0 ? CodeBytes(shape.dim, shape.bits) : 0,
                      second = shape.replicas == 2 ? kId : 0;
  const std::uint64_t labels = shape.user_labels ? 8 * n : 0;
  const bool joined = shape.method == BuildMethod::kPartition;
  // Who follows which leader, in L0.
  const std::uint64_t memberships =
      joined && !shape.finished_graph ? n * PartitionFor(n, 0).fan * kId : 0;
  // Vectors once as read and once in the order of insertion, which a finished graph is in
  // already; the row of each.
  const std::uint64_t ordering =
      shape.finished_graph ? 0 : n * (2 * shape.stride + kId + kGroup) + memberships;
  // From now on: vectors, links of L0, rows, groups.
  const std::uint64_t bottom = n * (shape.stride + std::uint64_t{2} * shape.m * kId + kId + kGroup);
  // The nearest of each, as key and id.
  const std::uint64_t lists = std::uint64_t{2} * shape.m * sizeof(NearestLists::Entry);
  const std::uint64_t joining =
      joined && !shape.finished_graph ? bottom + n * lists + memberships : 0;
  // Three degrees, the ranking, and the tree that reaches every node with its queue. The
  // layers above L0 that insertion had took less.
  const std::uint64_t ranking = bottom + n * 6 * kId;
  // From now on: nodes by id, the upper layers.
  const std::uint64_t upper_links = Layers::Make(shape.n, shape.n1, shape.m).UpperLinkBytes();
  const std::uint64_t upper = bottom + n * kId + n1 * shape.stride + upper_links;
  // Under inner product there are two of them, the second for the centroids.
  const std::uint64_t second_links = shape.inner_product ? upper_links : 0;
  // The promoted vectors in the order of their leaves, with places, links and lists.
  const std::uint64_t joining_l1 = joined
                                       ? upper + second_links +
                                             n1 * (shape.stride + std::uint64_t{2} * shape.m * kId +
                                                   lists + (PartitionFor(n1, 0).fan + 3) * kId)
                                       : 0;
  // Ids by node, two nearest centroids and a place for each unpromoted node; a rank and a
  // cell, or two places, for each centroid.
  const std::uint64_t cells =
      upper + n * kId + others * (3 * kId + second) + n1 * 3 * kId + second_links;
  // Ids by node, and by label.
  const std::uint64_t writing = upper + n * 2 * kId + others * second + n1 * 2 * kId +
                                std::min<std::uint64_t>(others, 1 << 16) * code;
  return labels +
         std::max(
             {ordering, joining, ranking, n1 > 0 ? cells : 0, n1 > 0 ? joining_l1 : 0, writing}) +
         64_MiB;
}

absl::Status CheckBuildBytes(const BuildShape& shape) {
  const std::uint64_t need = BuildBytes(shape), have = UsableMemoryBytes();
  if (need <= have) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the build needs about ", FormatSize(need), " of memory, ", FormatSize(have),
                   " are available to this process: bound it (--build-memory), or take fewer rows "
                   "(--rows) or a smaller --m"));
}

}  // namespace hmann
