#include "index/construct/import_index.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "index/base/status_macros.h"
#include "index/construct/graph/insertion_graph.h"
#include "index/format/link_list.h"

namespace hmann {
namespace {

constexpr std::size_t kNodesPerStep = 4096;

/// Copies the links of some ids.
absl::Status CopyLinks(const IndexFile& file, NodeRange ids, NodeId* links,
                       const TaskContext& job) {
  const RecordLayout& records = file.records();
  const NodeId n = file.layers().n();
  std::atomic<NodeId> wrong{kNoNode};
  job.pool.ParallelFor(ids.size(), kNodesPerStep, [&](std::size_t begin, std::size_t end, int) {
    if (job.Cancelled()) return;
    std::vector<NodeId> sorted, list(records.max_links);
    std::uint64_t count = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const auto id = static_cast<NodeId>(ids.first + i);
      const std::byte* record = file.l0().data() + records.Offset(id);
      records.UnpackPadded(record + records.LinksOffset(id), list.data());
      if (!CheckLinkList(list, id, n, sorted, count).ok()) {
        wrong = id;
        return;
      }
      std::copy_n(list.data(), CountLinks(list.data(), records.max_links),
                  links + i * records.max_links);
    }
    job.progress.Advance(end - begin);
  });
  HMANN_RETURN_IF_ERROR(job.CheckCancelled());
  if (wrong == kNoNode) return absl::OkStatus();
  return DataLoss(file.file().path(), ": the links of node ", wrong.load(),
                  " in L0 break their rules: see hmann verify");
}

}  // namespace

absl::StatusOr<std::vector<std::uint32_t>> RowsOfIds(const IndexFile& file) {
  const NodeId n = file.layers().n();
  std::vector<std::uint32_t> row_of(n);
  if (file.info().user_labels) {
    std::iota(row_of.begin(), row_of.end(), 0u);
    return row_of;
  }
  std::vector<bool> seen(n);
  for (NodeId id = 0; id < n; ++id) {
    const std::uint64_t row = file.Label(id);
    if (row >= n || seen[row]) {
      return DataLoss(file.file().path(), ": label of node ", id,
                      ": expected a row number of its own below ", n, "; found ", row);
    }
    seen[row] = true;
    row_of[id] = static_cast<std::uint32_t>(row);
  }
  return row_of;
}

std::vector<std::uint64_t> UserLabelsOf(const IndexFile& file) {
  std::vector<std::uint64_t> labels;
  if (!file.info().user_labels) return labels;
  labels.reserve(file.layers().n());
  for (NodeId id = 0; id < file.layers().n(); ++id) labels.push_back(file.Label(id));
  return labels;
}

absl::StatusOr<PackedLists> ImportLinks(const IndexFile& file, Stages& stages) {
  const NodeId n = file.layers().n();
  if (!stages.HasAll("final", n)) stages.Undo("final");
  const std::uint32_t most = file.records().max_links;
  const auto copy = [&](NodeRange part, ArtifactWriter& writer) {
    std::vector<NodeId> links(std::size_t{part.size()} * most, kNoNode);
    HMANN_RETURN_IF_ERROR(CopyLinks(file, part, links.data(), stages.job()));
    return writer.Append(std::span<const std::byte>(file.records().PackAll(links)));
  };
  HMANN_RETURN_IF_ERROR(
      stages.ForRanges("links", "final", n, [&](NodeRange range, ArtifactWriter& writer) {
        HMANN_RETURN_IF_ERROR(
            writer.Expect(std::uint64_t{range.size()} * file.records().list_bytes));
        return ForParts(range, [&](NodeRange part) { return copy(part, writer); });
      }));
  HMANN_ASSIGN_OR_RETURN(Buffer links, stages.Map("final", n));
  return PackedLists(std::move(links), file.records());
}

}  // namespace hmann
