#include "index/construct/build_bytes.h"

#include <algorithm>

#include "index/base/cpu.h"
#include "index/base/errors.h"
#include "index/base/units.h"
#include "index/construct/codes.h"
#include "index/construct/fast_memory.h"
#include "index/construct/jobs/leaf_store.h"
#include "index/construct/jobs/nearest_lists.h"
#include "index/construct/jobs/partition.h"
#include "index/graph/layers.h"
#include "index/graph/link_packing.h"

namespace hmann {
namespace {

constexpr std::uint64_t kId = sizeof(NodeId);
/// A group of two equal vectors, per vector: half of a list, and of its heap block.
constexpr std::uint64_t kGroup = 28;

/// While a layer of n vectors is joined: the vectors, the nearest of each as key and id,
/// the packed lists that are written, leaves, and four orders.
std::uint64_t JoinBytes(const BuildShape& shape, std::uint64_t n) {
  const PartitionOptions options = PartitionFor(n, 0);
  const std::uint64_t list = std::uint64_t{2} * shape.m * sizeof(NearestLists::Entry) +
                             LinkPacking::Of(2 * shape.m, n).list_bytes;
  return n * (shape.stride + list + 4 * kId) +
         static_cast<std::uint64_t>(kBytesOfMember * static_cast<double>(n) * options.fan *
                                    options.fan_below);
}

}  // namespace

std::uint64_t BuildBytes(const BuildShape& shape) {
  const std::uint64_t n = shape.n, n1 = shape.n1, others = n - n1;
  const std::uint64_t code = shape.bits > 0 ? CodeBytes(shape.dim, shape.bits) : 0,
                      second = shape.replicas == 2 ? kId : 0;
  const std::uint64_t labels = shape.user_labels ? 8 * n : 0;
  const bool joined = shape.method == BuildMethod::kPartition && !shape.finished_graph;
  const bool packed = joined || (shape.finished_graph && !shape.imported);
  const std::uint64_t links =
      packed ? LinkPacking::Of(2 * shape.m, n).list_bytes : std::uint64_t{2} * shape.m * kId;
  // Vectors that are lifted, or inserted, stay; others are copied from their file.
  const std::uint64_t vectors =
      shape.inner_product || !(joined || shape.finished_graph) ? n * shape.stride : 0;
  // Links of another library are there before the rest.
  const std::uint64_t hashes =
      n * (6 * kId + kId + kGroup) + vectors + (shape.finished_graph ? n * links : 0);
  const std::uint64_t joining =
      joined ? n * kGroup + JoinBytes(shape, n) + (shape.inner_product ? vectors : 0) : 0;
  // From now on: links of L0, rows, groups.
  const std::uint64_t bottom = vectors + n * (links + kId + kGroup);
  // Three degrees, the ranking, and the tree that reaches every node with its queue. The
  // layers above L0 that insertion had took less.
  const std::uint64_t ranking = bottom + n * 6 * kId;
  // From now on: nodes by id, the upper layers.
  const std::uint64_t upper_links = Layers::Make(shape.n, shape.n1, shape.m).UpperLinkBytes();
  const std::uint64_t upper = bottom + n * kId + n1 * shape.stride + upper_links;
  // Under inner product there are two sets, the second for the centroids.
  const std::uint64_t second_links = shape.inner_product ? upper_links : 0;
  const std::uint64_t joining_l1 =
      shape.method == BuildMethod::kPartition ? upper + second_links + JoinBytes(shape, n1) : 0;
  const auto copied = [&](std::uint64_t each) {
    return std::min<std::uint64_t>(n * each, kCopyRoom);
  };
  // Ids by node, two nearest centroids of each twice, and a place; a rank and a cell, or
  // two places, for each centroid.
  const std::uint64_t cells = upper + n * 3 * kId + others * (3 * kId + second) + n1 * 3 * kId +
                              second_links + copied(shape.stride);
  // Ids by node, and by label.
  const std::uint64_t writing = upper + n * 2 * kId + others * second + n1 * 2 * kId +
                                copied(shape.stride + links + 2 * kId + code);
  // The rest is scratch of two threads and the last huge pages; of many threads a guess.
  return labels +
         std::max(
             {hashes, joining, ranking, n1 > 0 ? cells : 0, n1 > 0 ? joining_l1 : 0, writing}) +
         16_MiB;
}

absl::Status CheckBuildBytes(const BuildShape& shape) {
  const std::uint64_t need = BuildBytes(shape), have = UsableMemoryBytes();
  if (need <= have) return absl::OkStatus();
  return ResourceExhausted(
      "the build needs about ", FormatSize(need), " of memory, ", FormatSize(have),
      " are available to this process: bound it (--build-memory), or take fewer rows "
      "(--rows) or a smaller --m");
}

}  // namespace hmann
