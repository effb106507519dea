#include "index/construct/import_index.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/checksum.h"
#include "index/base/status_macros.h"
#include "index/construct/duplicates.h"
#include "index/format/link_list.h"

namespace hmann {
namespace {

constexpr std::size_t kNodesPerStep = 4096;

/// Vectors and links of ids [first, last) to `rows` (of `stride`) and `links`, either of
/// which may be none.
absl::Status CopyNodes(const IndexFile& file, NodeRange ids, std::byte* rows, std::size_t stride,
                       NodeId* links, const Job& job) {
  const RecordLayout& records = file.records();
  const NodeId n = file.layers().n();
  std::atomic<NodeId> wrong{kNoNode};
  job.pool.ParallelFor(ids.size(), kNodesPerStep, [&](std::size_t begin, std::size_t end, int) {
    if (job.Cancelled()) return;
    std::vector<NodeId> sorted;
    std::uint64_t count = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const auto id = static_cast<NodeId>(ids.first + i);
      if (rows != nullptr) std::copy_n(file.Row(id), records.row_bytes, rows + i * stride);
      if (links == nullptr) continue;
      const std::byte* record = file.l0().data() + records.Offset(id);
      const std::span<const NodeId> list(
          reinterpret_cast<const NodeId*>(record + records.LinksOffset(id)), records.max_links);
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
  return absl::DataLossError(absl::StrCat(file.file().path(), ": the links of node ", wrong.load(),
                                          " in L0 break their rules: see hmann verify"));
}

/// Ids with equal vectors.
absl::StatusOr<DuplicateGroups> FindGroups(const IndexFile& file, Stages& stages) {
  const NodeId n = file.layers().n();
  const std::uint32_t bytes = file.records().row_bytes;
  if (stages.Done("hash") && !stages.HasAll("hash", n)) stages.Undo("hash");
  HMANN_RETURN_IF_ERROR(
      stages.ForRanges("load", "hash", n, [&](NodeRange range, ArtefactWriter& writer) {
        std::vector<std::uint64_t> hashes(range.size());
        stages.job().pool.ParallelFor(
            range.size(), kNodesPerStep, [&](std::size_t begin, std::size_t end, int) {
              for (std::size_t i = begin; i < end; ++i)
                hashes[i] = Checksum(file.Row(static_cast<NodeId>(range.first + i)), bytes);
            });
        return writer.Append(std::span<const std::uint64_t>(hashes));
      }));
  HMANN_ASSIGN_OR_RETURN(const Buffer hashes, stages.Map("hash", n));
  std::vector<HashedRow> hashed(n);
  for (NodeId id = 0; id < n; ++id)
    hashed[id] = {reinterpret_cast<const std::uint64_t*>(hashes.data())[id], id};
  return GroupEqual(std::move(hashed), [&](std::uint32_t a, std::uint32_t b) {
    return std::equal(file.Row(a), file.Row(a) + bytes, file.Row(b));
  });
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
      return absl::DataLossError(absl::StrCat(file.file().path(), ": label of node ", id,
                                              ": expected a row number of its own below ", n,
                                              "; found ", row));
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

absl::StatusOr<ImportedIndex> ImportIndex(const IndexFile& file, const Kernels& kernels,
                                          const Job& job) {
  const NodeId n = file.layers().n();
  ImportedIndex imported;
  HMANN_ASSIGN_OR_RETURN(imported.graph,
                         MakeUnlinked(n, {file.info().m, file.info().ef_construction}));
  imported.rows.stride = RowStride(kernels);
  HMANN_ASSIGN_OR_RETURN(imported.rows.rows,
                         Buffer::Allocate(std::size_t{n} * imported.rows.stride));
  HMANN_RETURN_IF_ERROR(CopyNodes(file, {0, n}, imported.rows.rows.data(), imported.rows.stride,
                                  imported.graph.Links(0), job));
  return imported;
}

absl::StatusOr<Bottom> ImportStreamedIndex(const IndexFile& file, const Kernels& kernels,
                                           Stages stages) {
  const NodeId n = file.layers().n();
  Progress quiet(Progress::Show::kNever);
  const Job inner{stages.job().pool, quiet, stages.job().cancelled};
  Bottom made;
  HMANN_ASSIGN_OR_RETURN(DuplicateGroups groups, FindGroups(file, stages));
  made.copies = groups.copies;
  made.equal = std::move(groups.groups);
  HMANN_ASSIGN_OR_RETURN(made.row_of, RowsOfIds(file));
  made.vectors = {.stride = RowStride(kernels),
                  .count = n,
                  .copy =
                      [&file](std::uint32_t id, std::byte* place) {
                        std::copy_n(file.Row(id), file.records().row_bytes, place);
                      },
                  .advise_random =
                      [&file](bool random) {
                        file.file().Advise(
                            random ? MappedFile::Access::kRandom : MappedFile::Access::kSequential,
                            0, file.file().bytes().size());
                      }};
  if (!stages.HasAll("final", n)) stages.Undo("final");
  const std::uint32_t most = file.records().max_links;
  HMANN_RETURN_IF_ERROR(
      stages.ForRanges("links", "final", n, [&](NodeRange range, ArtefactWriter& writer) {
        std::vector<NodeId> links(std::size_t{range.size()} * most, kNoNode);
        HMANN_RETURN_IF_ERROR(CopyNodes(file, range, nullptr, 0, links.data(), inner));
        return writer.Append(std::span<const NodeId>(links));
      }));
  HMANN_ASSIGN_OR_RETURN(Buffer links, stages.Map("final", n));
  made.graph = std::make_unique<InsertionGraph>(
      InsertionGraph::Over(std::move(links), n, most, nullptr, 0, kernels));
  return made;
}

}  // namespace hmann
