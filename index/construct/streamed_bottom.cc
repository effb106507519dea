#include "index/construct/streamed_bottom.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "index/base/status_macros.h"
#include "index/construct/bottom_layer.h"
#include "index/construct/duplicates.h"
#include "index/construct/insertion_order.h"
#include "index/construct/node_subset.h"
#include "index/construct/streamed_layer.h"

namespace hmann {
namespace {

/// The nodes of the backbone, ascending, and the links of each.
absl::Status WriteBackbone(const StreamedLayer& layer, std::uint32_t ef_construction) {
  const Stages& stages = layer.stages();
  const Kernels& kernels = layer.source().kernels;
  HMANN_ASSIGN_OR_RETURN(Buffer links_so_far, layer.Back());
  InsertionGraph graph = InsertionGraph::Over(std::move(links_so_far), layer.count(),
                                              layer.list_length(), nullptr, 0, kernels);
  const InsertionSource source{.kernels = kernels,
                               .n = layer.count(),
                               .made = layer.count(),
                               .m = layer.source().m,
                               .ef_construction = ef_construction,
                               .alpha = layer.source().alpha};
  const auto gather = [&](const std::vector<NodeId>& nodes) {
    return layer.vectors().Gather(nodes, stages.job().pool);
  };
  HMANN_ASSIGN_OR_RETURN(const Backbone backbone,
                         MakeBackbone(source, graph, gather, stages.job()));
  std::vector<std::pair<NodeId, NodeId>> by_node;
  for (NodeId i = 0; i < backbone.nodes.size(); ++i) by_node.emplace_back(backbone.nodes[i], i);
  std::sort(by_node.begin(), by_node.end());
  HMANN_ASSIGN_OR_RETURN(ArtefactWriter nodes, stages.work().Create(stages.Name("hubs-nodes")));
  HMANN_ASSIGN_OR_RETURN(ArtefactWriter links, stages.work().Create(stages.Name("hubs-links")));
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

/// The backbone, which is one job.
absl::Status MakeHubs(const StreamedLayer& layer, std::uint32_t ef_construction, Stages& stages) {
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

/// The links that hubs have of their own graph.
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

/// Links with those of the backbone and of copies: L0 as it will be.
absl::Status MakeFinal(const StreamedLayer& layer, NodeId n,
                       const std::vector<std::vector<NodeId>>& equal, Stages& stages) {
  const std::uint32_t most = layer.list_length();
  HMANN_ASSIGN_OR_RETURN(const HubLinks hubs, HubLinks::Map(stages, n, most));
  const CopyPlaces copies(equal, n);
  const std::vector<NodeRange> ranges = stages.Ranges(layer.count());
  std::vector<Buffer> back(ranges.size());  // of each range its own, where it is needed
  const StreamedLayer::LinksOf old = [&](NodeId node, std::vector<NodeId>* list) {
    if (node >= layer.count()) return;  // a copy
    const std::size_t range = node / ranges[0].size();
    const NodeId* own = reinterpret_cast<const NodeId*>(back[range].data()) +
                        std::size_t{node - ranges[range].first} * most;
    list->insert(list->end(), own, own + CountLinks(own, most));
  };
  const StreamedLayer::LinksOf more = [&](NodeId node, std::vector<NodeId>* list) {
    hubs.Append(node, list);
  };
  const auto finish = [&](NodeId node, std::span<NodeId> list) { copies.Link(node, list); };
  PartLoader loader(layer.vectors(), layer.source().room, layer.MergeCosts(), stages.job());
  absl::Status read;
  const auto collect = [&](NodeRange part, NodeSubset* nodes) -> std::uint64_t {
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      if (ranges[r].first >= part.last || ranges[r].last <= part.first || back[r].size() > 0)
        continue;
      absl::StatusOr<Buffer> mapped = stages.MapOne("back", r);
      if (!mapped.ok()) read = mapped.status();
      if (!mapped.ok()) return 0;
      back[r] = *std::move(mapped);
    }
    if (nodes != nullptr) layer.CollectMerged(part, old, more, *nodes);
    return 0;
  };
  return stages.ForRanges(
      {.phase = "merge backbone", .stage = "final", .n = n, .reads = "back"},
      [&](NodeRange range, ArtefactWriter& writer, ArtefactWriter&) {
        HMANN_RETURN_IF_ERROR(loader.For(range, stages.RunEnd(n), collect, [&](NodeRange part) {
          HMANN_RETURN_IF_ERROR(read);
          return layer.MergeInto(part, loader, old, more, writer, finish);
        }));
        // What is mapped takes room on the disk, though its name is gone.
        if (range.first < layer.count()) back[range.first / ranges[0].size()] = {};
        return absl::OkStatus();
      });
}

}  // namespace

absl::StatusOr<Bottom> MakeStreamedBottom(const BottomSource& source, DuplicateGroups groups,
                                          Stages& stages) {
  const NodeId n = source.rows.count;
  Bottom made;
  const std::vector<std::uint32_t> unique = groups.unique;
  StreamedLayer layer({.kernels = source.kernels,
                       .stride = source.rows.stride,
                       .unique = unique,
                       .copy = source.rows.Copier(),
                       .m = source.m,
                       .alpha = source.alpha,
                       .seed = source.seed,
                       .room = source.room},
                      stages);
  HMANN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> order, layer.Order());
  InsertionOrder nodes = OrderOf(std::move(groups), n, order);
  made.row_of = std::move(nodes.row_of);
  made.equal = std::move(nodes.equal);
  if (!stages.Done("final")) {
    HMANN_RETURN_IF_ERROR(layer.MakeLinks(made.row_of, order));
    HMANN_RETURN_IF_ERROR(MakeHubs(layer, source.ef_construction, stages));
    HMANN_RETURN_IF_ERROR(MakeFinal(layer, n, made.equal, stages));
  }
  stages.Retire("back");
  stages.Retire("hubs");
  made.vectors = source.rows.ByNode(made.row_of);
  HMANN_ASSIGN_OR_RETURN(Buffer links, stages.Map("final", n));
  made.graph = std::make_unique<InsertionGraph>(
      InsertionGraph::Over(std::move(links), n, 2 * source.m, nullptr, 0, source.kernels));
  return made;
}

}  // namespace hmann
