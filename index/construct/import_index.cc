#include "index/construct/import_index.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "index/format/link_list.h"

namespace hmann {
namespace {

/// Row of each id.
absl::StatusOr<std::vector<std::uint32_t>> RowsOf(const IndexFile& file) {
  const NodeId n = file.layers().n();
  std::vector<std::uint32_t> row_of(n);
  std::vector<bool> seen(n);
  for (NodeId id = 0; id < n; ++id) {
    const std::uint64_t row = file.info().user_labels ? id : file.Label(id);
    if (row >= n || seen[row]) {
      return absl::DataLossError(absl::StrCat(file.file().path(), ": label of node ", id,
                                              ": expected a row number of its own below ", n,
                                              "; found ", row));
    }
    seen[row] = true;
    row_of[id] = static_cast<std::uint32_t>(row);
  }
  return row_of;
}

}  // namespace

absl::StatusOr<ImportedIndex> ImportIndex(const IndexFile& file, const Kernels& kernels,
                                          const Job& job) {
  constexpr std::size_t kNodesPerStep = 4096;
  const RecordLayout& records = file.records();
  const NodeId n = file.layers().n();
  HMANN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> row_of, RowsOf(file));
  ImportedIndex imported;
  HMANN_ASSIGN_OR_RETURN(imported.graph,
                         MakeUnlinked(n, {file.info().m, file.info().ef_construction}));
  imported.rows.stride = RowStride(kernels);
  HMANN_ASSIGN_OR_RETURN(imported.rows.rows,
                         Buffer::Allocate(std::size_t{n} * imported.rows.stride));
  if (file.info().user_labels) {
    imported.user_labels.reserve(n);
    for (NodeId id = 0; id < n; ++id) imported.user_labels.push_back(file.Label(id));
  }
  std::atomic<NodeId> wrong{kNoNode};
  job.pool.ParallelFor(n, kNodesPerStep, [&](std::size_t begin, std::size_t end, int) {
    if (job.Cancelled()) return;
    std::vector<NodeId> sorted;
    std::uint64_t count = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const auto id = static_cast<NodeId>(i);
      const std::byte* record = file.l0().data() + records.Offset(id);
      const std::span<const NodeId> links(
          reinterpret_cast<const NodeId*>(record + records.LinksOffset(id)), records.max_links);
      if (!CheckLinkList(links, id, n, sorted, count).ok()) {
        wrong = id;
        return;
      }
      NodeId* list = imported.graph.Links(row_of[id]);
      for (std::size_t l = 0; l < links.size() && links[l] != kNoNode; ++l)
        list[l] = row_of[links[l]];
      const std::byte* row = id < records.n1 ? file.fast_rows().data() + id * file.fast_row_stride()
                                             : record + records.row_offset;
      std::copy_n(row, records.row_bytes,
                  imported.rows.rows.data() + row_of[id] * imported.rows.stride);
    }
    job.progress.Advance(end - begin);
  });
  HMANN_RETURN_IF_ERROR(job.CheckCancelled());
  if (wrong != kNoNode) {
    return absl::DataLossError(absl::StrCat(file.file().path(), ": the links of node ",
                                            wrong.load(),
                                            " in L0 break their rules: see hmann verify"));
  }
  return imported;
}

}  // namespace hmann
