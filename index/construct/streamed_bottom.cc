#include "index/construct/streamed_bottom.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "index/base/checksum.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/bottom_layer.h"
#include "index/construct/duplicates.h"
#include "index/construct/insertion_order.h"
#include "index/construct/node_subset.h"
#include "index/construct/streamed_layer.h"

namespace hmann {
namespace {

/// The stored form of row `row`, again: it was checked when it was hashed.
void Encode(const StreamedBottomSource& source, std::uint32_t row, std::byte* place) {
  (void)EncodeRow(source.kernels, source.file.dtype(), source.file.Row(row), place);
}

/// A hash of each stored vector, which is checked on the way.
absl::Status MakeHashes(const StreamedBottomSource& source, Stages& stages) {
  Progress quiet(Progress::Show::kNever);
  const Job inner{stages.job().pool, quiet, stages.job().cancelled};
  const auto n = static_cast<NodeId>(source.file.n());
  return stages.ForRanges("load", "hash", n, [&](NodeRange range, ArtefactWriter& writer) {
    const absl::StatusOr<StoredVectors> rows =
        LoadVectors(source.file, source.kernels, range.first, range.last, inner);
    if (!rows.ok()) return rows.status();
    std::vector<std::uint64_t> hashes(range.size());
    inner.pool.ParallelFor(range.size(), 4096, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i)
        hashes[i] = Checksum(rows->Row(i), source.kernels.row_bytes);
    });
    return writer.Append(std::span<const std::uint64_t>(hashes));
  });
}

/// Which rows are equal to which: from their hashes, or as it was found before.
absl::StatusOr<DuplicateGroups> FindGroups(const StreamedBottomSource& source, Stages& stages) {
  const auto n = static_cast<NodeId>(source.file.n());
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
    std::vector<std::byte> a(source.kernels.row_bytes), b(a.size());
    found = GroupEqual(std::move(hashed), [&](std::uint32_t one, std::uint32_t other) {
      Encode(source, one, a.data());
      Encode(source, other, b.data());
      return a == b;
    });
  }
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
  stages.Retire("hash");
  return found;
}

/// The nodes of the backbone, ascending, and the links of each.
absl::Status WriteBackbone(const BottomSource& source, InsertionGraph& graph, Stages& stages) {
  HMANN_ASSIGN_OR_RETURN(Backbone backbone, MakeBackbone(source, graph, stages.job()));
  std::vector<std::pair<NodeId, NodeId>> by_node;
  for (NodeId i = 0; i < backbone.nodes.size(); ++i) by_node.emplace_back(backbone.nodes[i], i);
  std::sort(by_node.begin(), by_node.end());
  HMANN_ASSIGN_OR_RETURN(ArtefactWriter nodes, stages.work().Create(stages.Name("hubs")));
  HMANN_ASSIGN_OR_RETURN(ArtefactWriter links, stages.work().Create(stages.Name("hub-links")));
  const std::uint32_t most = 2 * source.m;
  std::vector<NodeId> list(most);
  for (const auto& [node, i] : by_node) {
    HMANN_RETURN_IF_ERROR(nodes.Append(&node, sizeof(node)));
    const NodeId* own = backbone.graph.Links(0, i);
    for (std::uint32_t l = 0; l < most; ++l)
      list[l] = own[l] == kNoNode ? kNoNode : backbone.nodes[own[l]];
    HMANN_RETURN_IF_ERROR(links.Append(std::span<const NodeId>(list)));
  }
  HMANN_RETURN_IF_ERROR(nodes.Commit());
  return links.Commit();
}

/// Where the members of groups are: node, group, place in it; by node.
struct CopyPlaces {
  struct Place {
    NodeId node;
    std::uint32_t group, i;
    bool operator<(const Place& other) const { return node < other.node; }
  };
  const std::vector<std::vector<NodeId>>& groups;
  std::vector<Place> places;
  NodeSubset copies;

  CopyPlaces(const std::vector<std::vector<NodeId>>& of, NodeId n) : groups(of), copies(n) {
    for (std::uint32_t g = 0; g < groups.size(); ++g) {
      for (std::uint32_t i = 0; i < groups[g].size(); ++i) {
        places.push_back({groups[g][i], g, i});
        copies.Add(groups[g][i]);
      }
    }
    std::sort(places.begin(), places.end());
  }
  void Link(NodeId node, std::span<NodeId> links) const {
    if (!copies.Has(node)) return;
    const auto at = std::lower_bound(places.begin(), places.end(), Place{node, 0, 0});
    LinkCopy(groups[at->group], at->i, links);
  }
};

/// Links with those of the backbone and of copies: L0 as it will be.
absl::Status MakeFinal(StreamedLayer& layer, const std::byte* rows, const Buffer& back, NodeId n,
                       const std::vector<std::vector<NodeId>>& equal) {
  Stages& stages = layer.stages();
  HMANN_ASSIGN_OR_RETURN(const Buffer hub_bytes, stages.work().Map({stages.Name("hubs")}));
  HMANN_ASSIGN_OR_RETURN(const Buffer link_bytes, stages.work().Map({stages.Name("hub-links")}));
  const std::uint32_t most = layer.list_length();
  const auto* hub_links = reinterpret_cast<const NodeId*>(link_bytes.data());
  NodeSubset hubs(n);
  for (std::size_t i = 0; i < hub_bytes.size() / sizeof(NodeId); ++i)
    hubs.Add(reinterpret_cast<const NodeId*>(hub_bytes.data())[i]);
  hubs.Number();
  const CopyPlaces copies(equal, n);
  const auto* links = reinterpret_cast<const NodeId*>(back.data());
  const auto more = [&](NodeId node) -> std::span<const NodeId> {
    if (!hubs.Has(node)) return {};
    const NodeId* list = hub_links + std::size_t{hubs.Local(node)} * most;
    return {list, CountLinks(list, most)};
  };
  NodeSubset loaded(n);
  return stages.ForRanges(
      "merge backbone", "final", n, [&](NodeRange range, ArtefactWriter& writer) {
        const auto collect = [&](NodeRange part) {
          for (NodeId node = part.first; node < part.last; ++node) {
            if (!hubs.Has(node)) continue;
            loaded.Add(node);
            const NodeId* own = links + std::size_t{node} * most;
            for (std::uint32_t i = 0; i < CountLinks(own, most); ++i) loaded.Add(own[i]);
            for (const NodeId id : more(node)) loaded.Add(id);
          }
        };
        const auto make = [&](NodeRange part) {
          return layer.MergeInto(
              part, loaded, rows, links, more, writer,
              [&](NodeId node, std::span<NodeId> list) { copies.Link(node, list); });
        };
        return layer.ForParts(range, layer.source().stride + (most + 1) * sizeof(NodeId),
                              most * sizeof(NodeId), loaded, collect, make);
      });
}

}  // namespace

std::uint64_t FixedBottomBytes(std::uint64_t n) {
  // Groups are found with 16 bytes a row and 4 of a unique one; later there are the
  // unique rows, the order of nodes, and rows by node; the bits of subsets.
  return n * 20 + n / 2 + 64_MiB;
}

absl::StatusOr<Bottom> MakeStreamedBottom(const StreamedBottomSource& source, Stages stages) {
  const auto n = static_cast<NodeId>(source.file.n());
  Bottom made;
  HMANN_ASSIGN_OR_RETURN(DuplicateGroups groups, FindGroups(source, stages));
  made.copies = groups.copies;
  const std::vector<std::uint32_t> unique = groups.unique;
  StreamedLayer layer(
      {.kernels = source.kernels,
       .stride = RowStride(source.kernels),
       .unique = unique,
       .copy = [&](std::uint32_t row, std::byte* place) { Encode(source, row, place); },
       .m = source.m,
       .alpha = source.alpha,
       .seed = source.seed,
       .room = source.room},
      stages);
  HMANN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> order, layer.Order());
  InsertionOrder nodes = OrderOf(std::move(groups), n, order);
  made.row_of = std::move(nodes.row_of);
  made.equal = std::move(nodes.equal);
  made.rows.stride = layer.source().stride;
  HMANN_ASSIGN_OR_RETURN(made.rows.rows, layer.Rows(made.row_of, order));
  if (!layer.stages().Done("final")) {
    const NodeId count = layer.count();
    HMANN_ASSIGN_OR_RETURN(Buffer back, layer.Links(made.rows.rows.data()));
    const BottomSource bottom{made.rows, source.kernels,         n,           count,
                              source.m,  source.ef_construction, source.alpha};
    const std::uint64_t hubs = BackboneOf(count, kBackboneOfL0);
    const auto write_backbone = [&](std::size_t) {
      absl::StatusOr<Buffer> again = layer.Links(made.rows.rows.data());
      if (!again.ok()) return again.status();
      InsertionGraph graph =
          InsertionGraph::Over(*std::move(again), count, 2 * source.m, made.rows.rows.data(),
                               made.rows.stride, source.kernels);
      return WriteBackbone(bottom, graph, layer.stages());
    };
    const auto has_backbone = [&](std::size_t) {
      return layer.stages().work().Has(layer.stages().Name("hubs")) &&
             layer.stages().work().Has(layer.stages().Name("hub-links"));
    };
    if (!has_backbone(0)) layer.stages().Undo("backbone");
    HMANN_RETURN_IF_ERROR(layer.stages().Make({.stage = "backbone",
                                               .phase = "backbone",
                                               .total = hubs,
                                               .count = 1,
                                               .size = [&](std::size_t) { return hubs; },
                                               .has = has_backbone,
                                               .make = write_backbone,
                                               .advances = true}));
    HMANN_RETURN_IF_ERROR(MakeFinal(layer, made.rows.rows.data(), back, n, made.equal));
    layer.stages().Retire("back");
  }
  HMANN_ASSIGN_OR_RETURN(Buffer links, layer.stages().Map("final", n));
  made.graph = std::make_unique<InsertionGraph>(InsertionGraph::Over(
      std::move(links), n, 2 * source.m, made.rows.rows.data(), made.rows.stride, source.kernels));
  return made;
}

}  // namespace hmann
