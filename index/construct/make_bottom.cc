#include "index/construct/make_bottom.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "index/base/checksum.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/bottom_layer.h"
#include "index/construct/duplicates.h"
#include "index/construct/import_index.h"
#include "index/construct/insertion_order.h"
#include "index/construct/streamed_bottom.h"

namespace hmann {
namespace {

/// A hash of each stored vector, which is checked on the way.
absl::Status MakeHashes(const BottomSource& source, Stages& stages) {
  const Job& job = stages.job();
  const auto load = [&](NodeRange part) -> absl::StatusOr<StoredVectors> {
    if (source.file != nullptr)
      return LoadVectors(*source.file, source.kernels, part.first, part.last, job);
    std::vector<NodeId> rows(part.size());
    std::iota(rows.begin(), rows.end(), part.first);
    job.progress.Advance(part.size());
    return source.rows.Gather(rows, job.pool);
  };
  const auto hash = [&](NodeRange part, ArtefactWriter& writer) {
    const absl::StatusOr<StoredVectors> rows = load(part);
    if (!rows.ok()) return rows.status();
    std::vector<std::uint64_t> hashes(part.size());
    job.pool.ParallelFor(part.size(), 4096, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i)
        hashes[i] = Checksum(rows->Row(i), source.row_bytes);
    });
    return writer.Append(std::span<const std::uint64_t>(hashes));
  };
  return stages.ForRanges(
      "load", "hash", source.rows.count, [&](NodeRange range, ArtefactWriter& writer) {
        HMANN_RETURN_IF_ERROR(writer.Expect(std::uint64_t{range.size()} * sizeof(std::uint64_t)));
        return ForParts(range, [&](NodeRange part) { return hash(part, writer); });
      });
}

/// Which rows are equal to which: from their hashes, or as it was found before.
absl::StatusOr<DuplicateGroups> FindGroups(const BottomSource& source, Stages& stages) {
  const NodeId n = source.rows.count;
  DuplicateGroups found;
  // Of each group its size, then its rows.
  const std::string unique = stages.Name("unique"), groups = stages.Name("groups");
  const bool known = stages.work().Has(unique) && stages.work().Has(groups);
  if (!known && stages.Done("hash") && !stages.HasAll("hash", n)) stages.Forget();
  HMANN_RETURN_IF_ERROR(MakeHashes(source, stages));
  if (known) {
    HMANN_ASSIGN_OR_RETURN(const Buffer rows, stages.work().Map({unique}));
    const auto* row = reinterpret_cast<const std::uint32_t*>(rows.data());
    found.unique.assign(row, row + rows.size() / sizeof(std::uint32_t));
    HMANN_ASSIGN_OR_RETURN(const Buffer flat, stages.work().Map({groups}));
    const auto* next = reinterpret_cast<const std::uint32_t*>(flat.data());
    for (const auto* end = next + flat.size() / sizeof(std::uint32_t); next < end;
         next += 1 + *next) {
      found.groups.emplace_back(next + 1, next + 1 + *next);
      found.copies += *next - 1;
    }
    return found;
  }
  {
    HMANN_ASSIGN_OR_RETURN(const Buffer hashes, stages.Map("hash", n));
    std::vector<HashedRow> hashed(n);
    for (NodeId i = 0; i < n; ++i)
      hashed[i] = {reinterpret_cast<const std::uint64_t*>(hashes.data())[i], i};
    std::vector<std::byte> a(source.rows.stride), b(a.size());
    found = GroupEqual(std::move(hashed), [&](std::uint32_t one, std::uint32_t other) {
      const std::byte* row = source.rows.Take(one, a.data());
      return std::equal(row, row + source.row_bytes, source.rows.Take(other, b.data()));
    });
  }
  if (stages.work().on_disk()) {
    HMANN_ASSIGN_OR_RETURN(ArtefactWriter writer, stages.work().Create(groups));
    for (const std::vector<std::uint32_t>& group : found.groups) {
      const auto size = static_cast<std::uint32_t>(group.size());
      HMANN_RETURN_IF_ERROR(writer.Append(&size, sizeof(size)));
      HMANN_RETURN_IF_ERROR(writer.Append(std::span<const std::uint32_t>(group)));
    }
    HMANN_RETURN_IF_ERROR(writer.Commit());
    HMANN_ASSIGN_OR_RETURN(writer, stages.work().Create(unique));
    HMANN_RETURN_IF_ERROR(writer.Append(std::span<const std::uint32_t>(found.unique)));
    HMANN_RETURN_IF_ERROR(writer.Commit());
  }
  stages.Retire("hash");
  return found;
}

absl::StatusOr<Bottom> InsertAll(const BottomSource& source, DuplicateGroups groups,
                                 Stages& stages) {
  const NodeId n = source.rows.count;
  Phases& phases = stages.phases();
  Bottom made;
  phases.Begin("order", n, "vectors");
  InsertionOrder order = RandomOrder(std::move(groups), n, source.seed);
  made.row_of = std::move(order.row_of);
  made.equal = std::move(order.equal);
  HMANN_ASSIGN_OR_RETURN(made.rows, source.rows.Gather(made.row_of, stages.job().pool));
  made.vectors = NodeVectors::InMemory(made.rows, n);
  phases.End("order");
  HMANN_ASSIGN_OR_RETURN(InsertionGraph graph,
                         InsertBottom({&made.rows, source.kernels, n, order.inserted, source.m,
                                       source.ef_construction, source.alpha},
                                      phases, stages.job()));
  LinkDuplicates(made.equal, graph);
  graph.DropUpperLayers();
  made.graph = std::make_unique<InsertionGraph>(std::move(graph));
  return made;
}

/// L0 as it was finished, by row.
absl::StatusOr<Bottom> TakeFinished(BottomSource& source, DuplicateGroups groups, Stages& stages) {
  const NodeId n = source.rows.count;
  Bottom made;
  InsertionOrder order = OrderOfRows(std::move(groups), n);
  made.equal = std::move(order.equal);
  made.row_of = std::move(order.row_of);
  made.vectors = source.rows.ByNode({});
  Buffer links;
  std::uint32_t most = 0;
  if (source.index != nullptr) {
    HMANN_ASSIGN_OR_RETURN(made.row_of, RowsOfIds(*source.index));
    HMANN_ASSIGN_OR_RETURN(links, ImportLinks(*source.index, stages));
    most = source.index->records().max_links;
  } else {
    // In the memory that they came in.
    links = std::move(source.imported->links);
    most = source.imported->max_degree;
  }
  made.graph = std::make_unique<InsertionGraph>(
      InsertionGraph::Over(std::move(links), n, most, nullptr, 0, source.kernels));
  return made;
}

}  // namespace

std::uint64_t FixedBottomBytes(std::uint64_t n) {
  // Groups are found with 16 bytes a row and 4 of a unique one; later there are the
  // unique rows, the order of nodes, and rows by node; the bits of subsets.
  return n * 20 + n / 2 + 64_MiB;
}

absl::StatusOr<Bottom> MakeBottom(BottomSource source, Stages stages) {
  stages.RangedBy(source.rows.count);
  HMANN_ASSIGN_OR_RETURN(DuplicateGroups groups, FindGroups(source, stages));
  const std::uint64_t copies = groups.copies;
  const auto make = [&] {
    if (source.index != nullptr || source.imported != nullptr)
      return TakeFinished(source, std::move(groups), stages);
    if (source.method == BuildMethod::kInsertion)
      return InsertAll(source, std::move(groups), stages);
    return MakeStreamedBottom(source, std::move(groups), stages);
  };
  HMANN_ASSIGN_OR_RETURN(Bottom made, make());
  made.copies = copies;
  return made;
}

}  // namespace hmann
