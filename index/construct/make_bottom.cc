#include "index/construct/make_bottom.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/checkpoints.h"
#include "index/construct/graph/bottom_layer.h"
#include "index/construct/graph/duplicates.h"
#include "index/construct/graph/insertion_order.h"
#include "index/construct/import_index.h"
#include "index/construct/jobs/joined_layer.h"
#include "index/construct/jobs/node_subset.h"

namespace hmann {
namespace {

/// Hashes each stored vector, and checks it on the way.
absl::Status MakeHashes(const BottomSource& source, Stages& stages) {
  const TaskContext& job = stages.job();
  const auto load = [&](NodeRange part) -> absl::StatusOr<StoredVectors> {
    if (source.file != nullptr)
      return LoadVectors(*source.file, source.kernels, part.first, part.last, job);
    std::vector<NodeId> rows(part.size());
    std::iota(rows.begin(), rows.end(), part.first);
    job.progress.Advance(part.size());
    return source.rows.Gather(rows, job.pool);
  };
  const auto hash = [&](NodeRange part, ArtifactWriter& writer) {
    const absl::StatusOr<StoredVectors> rows = load(part);
    if (!rows.ok()) return rows.status();
    std::vector<std::uint64_t> hashes(part.size());
    job.pool.ParallelFor(part.size(), 4096, [&](std::size_t begin, std::size_t end, int) {
      CopyFinder copies(source.kernels);
      for (std::size_t i = begin; i < end; ++i) hashes[i] = copies.Hash(rows->Row(i));
    });
    return writer.Append(std::span<const std::uint64_t>(hashes));
  };
  return stages.ForRanges(
      "load", "hash", source.rows.count, [&](NodeRange range, ArtifactWriter& writer) {
        HMANN_RETURN_IF_ERROR(writer.Expect(std::uint64_t{range.size()} * sizeof(std::uint64_t)));
        return ForParts(range, [&](NodeRange part) { return hash(part, writer); });
      });
}

/// Groups copies by their hashes, or reads the groups found earlier.
absl::StatusOr<DuplicateGroups> FindGroups(const BottomSource& source, Stages& stages) {
  const NodeId n = source.rows.count;
  DuplicateGroups found;
  // `groups` holds for each group its size, then its rows.
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
    CopyFinder copies(source.kernels);
    found = GroupEqual(std::move(hashed), [&](std::uint32_t one, std::uint32_t other) {
      return copies.AreCopies(source.rows.Take(one, a.data()), source.rows.Take(other, b.data()));
    });
  }
  if (stages.work().on_disk()) {
    HMANN_ASSIGN_OR_RETURN(ArtifactWriter writer, stages.work().Create(groups));
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

/// Copies the vectors to memory or to a scratch file, in the order of nodes.
absl::StatusOr<StoredVectors> GatherAll(const BottomSource& source,
                                        std::span<const std::uint32_t> row_of,
                                        const Stages& stages) {
  StoredVectors rows{.rows = {}, .stride = source.rows.stride};
  HMANN_ASSIGN_OR_RETURN(rows.rows, stages.work().Scratch(row_of.size() * rows.stride));
  const std::size_t at_once =
      std::max<std::size_t>(source.room / (rows.stride + NodeVectors::kBytesOfGather), 4096);
  for (std::size_t first = 0; first < row_of.size(); first += at_once) {
    HMANN_RETURN_IF_ERROR(stages.job().CheckCancelled());
    source.rows.Gather(row_of.subspan(first, std::min(at_once, row_of.size() - first)),
                       stages.job().pool, rows.rows.data() + first * rows.stride);
  }
  return rows;
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
  const bool on_disk = stages.work().on_disk();
  const LinkPacking packing = LinkPacking::Of(2 * source.m, n);
  if (!stages.Done("final")) {
    HMANN_ASSIGN_OR_RETURN(made.rows, GatherAll(source, made.row_of, stages));
    const InsertionSource inserted{&made.rows, source.kernels,         n,           order.inserted,
                                   source.m,   source.ef_construction, source.alpha};
    HMANN_ASSIGN_OR_RETURN(InsertionGraph graph, OpenLayers(inserted, [&](std::size_t bytes) {
                             return stages.work().Scratch(bytes);
                           }));
    phases.End("order");
    Checkpoints kept(stages.work(), stages.Name("inserted"), graph, order.inserted);
    const LinkedSoFar from = kept.Restore();
    HMANN_RETURN_IF_ERROR(
        InsertBottom(inserted, graph, from, kept.AfterEach(), phases, stages.job()));
    HMANN_RETURN_IF_ERROR(stages.MarkDone("inserted"));
    LinkDuplicates(made.equal, graph);
    graph.DropUpperLayers();
    if (!on_disk) {
      made.vectors = NodeVectors::InMemory(made.rows, n);
      made.graph = std::make_unique<InsertionGraph>(std::move(graph));
      return made;
    }
    HMANN_RETURN_IF_ERROR(stages.ForRanges("pack", "final", n, [&](NodeRange range, auto& writer) {
      const std::size_t length = graph.max_degree(0);
      return ForParts(range, [&](NodeRange few) {
        stages.job().progress.Advance(few.size());
        return writer.Append(std::span<const std::byte>(
            PackAll(packing, {graph.Links(0, few.first), few.size() * length}, stages.job().pool)));
      });
    }));
    made.rows = {};
  } else {
    phases.End("order");
  }
  stages.Retire("inserted");
  made.vectors = source.rows.ByNode(made.row_of);
  HMANN_ASSIGN_OR_RETURN(Buffer links, stages.Map("final", n));
  made.graph = std::make_unique<InsertionGraph>(
      InsertionGraph::Over(PackedLists(std::move(links), packing), n, source.kernels));
  return made;
}

/// Makes L0 from finished links, by row.
absl::StatusOr<Bottom> TakeFinished(BottomSource& source, DuplicateGroups groups, Stages& stages) {
  const NodeId n = source.rows.count;
  Bottom made;
  InsertionOrder order = OrderOfRows(std::move(groups), n);
  made.equal = std::move(order.equal);
  made.row_of = std::move(order.row_of);
  made.vectors = source.rows.ByNode({});
  if (source.index != nullptr) {
    HMANN_ASSIGN_OR_RETURN(made.row_of, RowsOfIds(*source.index));
    HMANN_ASSIGN_OR_RETURN(PackedLists links, ImportLinks(*source.index, stages));
    made.graph =
        std::make_unique<InsertionGraph>(InsertionGraph::Over(std::move(links), n, source.kernels));
  } else {
    // The links stay in the memory in which they came.
    made.graph = std::make_unique<InsertionGraph>(InsertionGraph::Over(
        std::move(source.imported->links), n, source.imported->max_degree, source.kernels));
  }
  return made;
}

/// Writes the nodes of the backbone, ascending, and the links of each.
absl::Status WriteBackbone(const JoinedLayer& layer, std::uint32_t ef_construction) {
  const Stages& stages = layer.stages();
  const Kernels& kernels = layer.source().kernels;
  HMANN_ASSIGN_OR_RETURN(PackedLists links_so_far, layer.Back());
  const InsertionGraph graph =
      InsertionGraph::Over(std::move(links_so_far), layer.count(), kernels);
  const InsertionSource source{.kernels = kernels,
                               .n = layer.count(),
                               .made = layer.count(),
                               .m = layer.source().m,
                               .ef_construction = ef_construction,
                               .alpha = layer.source().alpha,
                               .room = layer.source().room};
  const auto gather = [&](const std::vector<NodeId>& nodes) {
    return layer.vectors().Gather(nodes, stages.job().pool);
  };
  HMANN_ASSIGN_OR_RETURN(const Backbone backbone,
                         MakeBackbone(source, graph, gather, stages.job()));
  std::vector<std::pair<NodeId, NodeId>> by_node;
  for (NodeId i = 0; i < backbone.nodes.size(); ++i) by_node.emplace_back(backbone.nodes[i], i);
  std::sort(by_node.begin(), by_node.end());
  HMANN_ASSIGN_OR_RETURN(ArtifactWriter nodes, stages.work().Create(stages.Name("hubs-nodes")));
  HMANN_ASSIGN_OR_RETURN(ArtifactWriter links, stages.work().Create(stages.Name("hubs-links")));
  const std::uint32_t most = 2 * source.m;
  std::vector<NodeId> list(most);
  for (const auto& [node, i] : by_node) {
    HMANN_RETURN_IF_ERROR(nodes.Append(&node, sizeof(node)));
    const NodeId* own = backbone.graph.View(0).Links(i);
    for (std::uint32_t l = 0; l < most; ++l)
      list[l] = own[l] == kNoNode ? kNoNode : backbone.nodes[own[l]];
    HMANN_RETURN_IF_ERROR(links.Append(std::span<const NodeId>(list)));
  }
  HMANN_RETURN_IF_ERROR(nodes.Commit());
  return links.Commit();
}

/// Makes the backbone, which is one job.
absl::Status MakeHubs(const JoinedLayer& layer, std::uint32_t ef_construction, Stages& stages) {
  const std::uint64_t hubs = BackboneOf(layer.count(), kBackboneOfL0);
  const auto has = [&](std::size_t) {
    return stages.work().Has(stages.Name("hubs-nodes")) &&
           stages.work().Has(stages.Name("hubs-links"));
  };
  if (!has(0)) stages.Undo("backbone");
  return stages.Make({.stage = "backbone",
                      .phase = "backbone",
                      .total = hubs,
                      .count = 1,
                      .size = [&](std::size_t) { return hubs; },
                      .has = has,
                      .make = [&](std::size_t) { return WriteBackbone(layer, ef_construction); },
                      .advances = true});
}

/// The places of group members: node, group, place in the group; ordered by node.
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

/// The links of hubs in their own graph.
class HubLinks {
 public:
  static absl::StatusOr<HubLinks> Map(const Stages& stages, NodeId n, std::uint32_t most) {
    HubLinks hubs(n, most);
    HMANN_ASSIGN_OR_RETURN(const Buffer nodes, stages.work().Map({stages.Name("hubs-nodes")}));
    HMANN_ASSIGN_OR_RETURN(hubs.links_, stages.work().Map({stages.Name("hubs-links")}));
    for (std::size_t i = 0; i < nodes.size() / sizeof(NodeId); ++i)
      hubs.nodes_.Add(reinterpret_cast<const NodeId*>(nodes.data())[i]);
    hubs.nodes_.Number();
    return hubs;
  }
  void Append(NodeId node, std::vector<NodeId>* list) const {
    if (!nodes_.Has(node)) return;
    const auto* links = reinterpret_cast<const NodeId*>(links_.data());
    const NodeId* own = links + std::size_t{nodes_.Local(node)} * most_;
    list->insert(list->end(), own, own + CountLinks(own, most_));
  }

 private:
  HubLinks(NodeId n, std::uint32_t most) : nodes_(n), most_(most) {}

  NodeSubset nodes_;
  std::uint32_t most_;
  Buffer links_;
};

/// Adds the links of the backbone and of copies: makes the final L0.
absl::Status MakeFinal(const JoinedLayer& layer, NodeId n,
                       const std::vector<std::vector<NodeId>>& equal, Stages& stages) {
  const std::uint32_t most = layer.list_length();
  HMANN_ASSIGN_OR_RETURN(const HubLinks hubs, HubLinks::Map(stages, n, most));
  const CopyPlaces copies(equal, n);
  const std::vector<NodeRange> ranges = stages.Ranges(layer.count());
  std::vector<PackedLists> back(ranges.size());  // each range's own links, while needed
  const JoinedLayer::LinksOf old = [&](NodeId node, std::vector<NodeId>* list) {
    if (node >= layer.count()) return;  // a copy
    const std::size_t range = node / ranges[0].size();
    std::vector<NodeId> scratch;
    const std::span<const NodeId> own = back[range].Read(node - ranges[range].first, scratch);
    list->insert(list->end(), own.begin(), own.end());
  };
  const JoinedLayer::LinksOf more = [&](NodeId node, std::vector<NodeId>* list) {
    hubs.Append(node, list);
  };
  const auto finish = [&](NodeId node, std::span<NodeId> list) { copies.Link(node, list); };
  PartLoader loader(layer.vectors(), layer.source().room, layer.MergeCosts(), stages.job());
  absl::Status read;
  const auto collect = [&](NodeRange part, NodeSubset* nodes) -> std::uint64_t {
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      if (ranges[r].first >= part.last || ranges[r].last <= part.first || !back[r].empty())
        continue;
      absl::StatusOr<Buffer> mapped = stages.MapOne("back", r);
      if (!mapped.ok()) read = mapped.status();
      if (!mapped.ok()) return 0;
      back[r] = {*std::move(mapped), layer.Packing(layer.count())};
    }
    if (nodes != nullptr) layer.CollectMerged(part, old, more, *nodes);
    return 0;
  };
  return stages.ForRanges(
      {.phase = "merge backbone", .stage = "final", .n = n, .reads = "back"},
      [&](NodeRange range, ArtifactWriter& writer, ArtifactWriter&) {
        HMANN_RETURN_IF_ERROR(loader.For(range, stages.RunEnd(n), collect, [&](NodeRange part) {
          HMANN_RETURN_IF_ERROR(read);
          return layer.MergeInto(part, loader, old, more, n, writer, finish);
        }));
        // A mapped file takes disk space though its name is gone.
        if (range.first < layer.count()) back[range.first / ranges[0].size()] = {};
        return absl::OkStatus();
      });
}

/// Joins L0 by leaves, with its backbone and its copies.
absl::StatusOr<Bottom> JoinAll(const BottomSource& source, DuplicateGroups groups, Stages& stages) {
  const NodeId n = source.rows.count;
  Bottom made;
  const std::vector<std::uint32_t> unique = groups.unique;
  JoinedLayer layer({.kernels = source.kernels,
                     .stride = source.rows.stride,
                     .unique = unique,
                     .copy = source.rows.Copier(),
                     .m = source.m,
                     .alpha = source.alpha,
                     .partition = PartitionFor(unique.size(), source.seed),
                     .room = source.room},
                    stages);
  HMANN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> order, layer.Order());
  InsertionOrder nodes = OrderOf(std::move(groups), n, order);
  made.row_of = std::move(nodes.row_of);
  made.equal = std::move(nodes.equal);
  if (!stages.Done("final")) {
    HMANN_RETURN_IF_ERROR(layer.Make("back", made.row_of, order));
    HMANN_RETURN_IF_ERROR(MakeHubs(layer, source.ef_construction, stages));
    HMANN_RETURN_IF_ERROR(MakeFinal(layer, n, made.equal, stages));
  }
  stages.Retire("back");
  stages.Retire("hubs");
  made.vectors = source.rows.ByNode(made.row_of);
  HMANN_ASSIGN_OR_RETURN(Buffer links, stages.Map("final", n));
  made.graph = std::make_unique<InsertionGraph>(
      InsertionGraph::Over(PackedLists(std::move(links), layer.Packing(n)), n, source.kernels));
  return made;
}

}  // namespace

std::uint64_t BytesAround(std::uint64_t stride) {
  // The smallest part of PartLoader is 4,096 places with their neighbors, three times as
  // many as they are: a guess, as the rest. (43 MiB were seen where 64 are allowed.)
  return 24_MiB + stride * 3 * 4096;
}

std::uint64_t FixedBottomBytes(std::uint64_t n, std::uint64_t stride) {
  // Finding groups takes 16 bytes per row and 4 per unique one. Later there are the
  // unique rows, the order of nodes, and rows by node, and the bits of subsets.
  return n * 20 + n / 2 + BytesAround(stride);
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
    return JoinAll(source, std::move(groups), stages);
  };
  HMANN_ASSIGN_OR_RETURN(Bottom made, make());
  made.copies = copies;
  return made;
}

}  // namespace hmann
