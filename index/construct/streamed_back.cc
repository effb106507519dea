#include <algorithm>
#include <memory>

#include "index/base/status_macros.h"
#include "index/construct/insertion_graph.h"
#include "index/construct/link_store.h"
#include "index/construct/reverse_links.h"
#include "index/construct/streamed_layer.h"

namespace hmann {
namespace {

constexpr std::size_t kNodesPerStep = 256;

/// Links of the ranges that a part is of, and what leads to them.
class LinksBothWays {
 public:
  static absl::StatusOr<LinksBothWays> Map(const Stages& stages, NodeId n) {
    LinksBothWays links;
    links.stages_ = &stages;
    links.ranges_ = stages.Ranges(n);
    links.own_.resize(links.ranges_.size());
    for (std::size_t r = 0; r < links.ranges_.size(); ++r) {
      HMANN_ASSIGN_OR_RETURN(links.ways_.emplace_back(), stages.MapOne("ways", r));
    }
    return links;
  }

  /// Ranges behind these are forgotten: it was too much.
  absl::Status Need(NodeRange nodes) {
    for (std::size_t r = Of(nodes.last - 1) + 1; r < own_.size(); ++r) own_[r] = nullptr;
    for (std::size_t r = Of(nodes.first); r <= Of(nodes.last - 1); ++r) {
      if (own_[r] != nullptr) continue;
      HMANN_ASSIGN_OR_RETURN(StoredLinks links, StoredLinks::Map(*stages_, "links", r, ranges_[r]));
      HMANN_ASSIGN_OR_RETURN(LinkSources sources, LinkSources::Make(ranges_, r, ways_, links));
      own_[r] = std::make_unique<Own>(Own{std::move(links), std::move(sources)});
    }
    return absl::OkStatus();
  }
  void Drop(NodeRange nodes) { own_[Of(nodes.first)] = nullptr; }
  /// Of what is not dropped yet.
  std::uint64_t bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& own : own_) bytes += own == nullptr ? 0 : own->bytes();
    return bytes;
  }

  void AppendLinks(NodeId node, std::vector<NodeId>* list) const {
    own_[Of(node)]->links.Append(node, list);
  }
  void AppendSources(NodeId node, std::vector<NodeId>* list) const {
    const std::span<const NodeId> sources = own_[Of(node)]->sources.Of(node);
    list->insert(list->end(), sources.begin(), sources.end());
  }

 private:
  struct Own {
    StoredLinks links;
    LinkSources sources;
    std::uint64_t bytes() const { return links.bytes() + sources.bytes(); }
  };
  std::size_t Of(NodeId node) const { return node / ranges_[0].size(); }

  const Stages* stages_ = nullptr;
  std::vector<NodeRange> ranges_;
  std::vector<Buffer> ways_;               ///< [range]
  std::vector<std::unique_ptr<Own>> own_;  ///< [range]; none: not needed, or not any more
};

/// The links of a node before and what comes to them; whether they are too many together.
struct Merging {
  std::vector<NodeId> old, more;

  bool Take(NodeId node, const StreamedLayer::LinksOf& old_of,
            const StreamedLayer::LinksOf& more_of, std::uint32_t most) {
    old.clear();
    more.clear();
    more_of(node, &more);
    old_of(node, &old);
    if (more.empty()) return false;
    const auto known = [&](NodeId id) {
      return std::find(old.begin(), old.end(), id) != old.end();
    };
    more.erase(std::remove_if(more.begin(), more.end(), known), more.end());
    return old.size() + more.size() > most;
  }
};

}  // namespace

void StreamedLayer::CollectMerged(NodeRange part, const LinksOf& old, const LinksOf& more,
                                  NodeSubset& nodes) const {
  stages_.job().pool.ParallelFor(part.size(), kNodesPerStep,
                                 [&](std::size_t begin, std::size_t end, int) {
                                   Merging merging;
                                   for (std::size_t i = begin; i < end; ++i) {
                                     const auto node = static_cast<NodeId>(part.first + i);
                                     if (!merging.Take(node, old, more, list_length())) continue;
                                     nodes.Add(node);
                                     for (const NodeId id : merging.old) nodes.Add(id);
                                     for (const NodeId id : merging.more) nodes.Add(id);
                                   }
                                 });
}

absl::Status StreamedLayer::MergeInto(
    NodeRange part, const PartLoader& loader, const LinksOf& old, const LinksOf& more,
    ArtefactWriter& writer, const std::function<void(NodeId, std::span<NodeId>)>& finish) const {
  const std::uint32_t most = list_length();
  const NodeSubset& loaded = loader.nodes();
  const std::vector<NodeId> nodes = loaded.Nodes();
  const LayerView view{
      nullptr,         loaded.size(), most, loader.vectors().rows.data(), loader.vectors().stride,
      &source_.kernels};
  std::vector<LinkMerger> mergers(static_cast<std::size_t>(stages_.job().pool.threads()));
  const auto merge = [&](NodeId node, std::span<NodeId> list, Merging& merging, int thread) {
    const bool chosen = merging.Take(node, old, more, most);
    if (chosen) {
      for (NodeId& id : merging.old) id = loaded.Local(id);
      for (NodeId& id : merging.more) id = loaded.Local(id);
    }
    std::copy(merging.old.begin(), merging.old.end(), list.begin());
    if (chosen) {
      mergers[static_cast<std::size_t>(thread)].AddTo(list, view, loaded.Local(node), merging.more,
                                                      source_.alpha, most);
      for (NodeId& id : list.first(CountLinks(list.data(), most))) id = nodes[id];
    } else {
      std::copy(merging.more.begin(), merging.more.end(),
                list.begin() + static_cast<std::ptrdiff_t>(merging.old.size()));
    }
    if (finish) finish(node, list);
  };
  HMANN_RETURN_IF_ERROR(writer.Expect(std::uint64_t{part.size()} * most * sizeof(NodeId)));
  return ForParts(part, [&](NodeRange few) {
    std::vector<NodeId> out(std::size_t{few.size()} * most, kNoNode);
    stages_.job().pool.ParallelFor(few.size(), kNodesPerStep,
                                   [&](std::size_t begin, std::size_t end, int thread) {
                                     if (stages_.job().Cancelled()) return;
                                     Merging merging;
                                     for (std::size_t i = begin; i < end; ++i)
                                       merge(static_cast<NodeId>(few.first + i),
                                             {out.data() + i * most, most}, merging, thread);
                                     stages_.job().progress.Advance(end - begin);
                                   });
    HMANN_RETURN_IF_ERROR(stages_.job().CheckCancelled());
    return writer.Append(std::span<const NodeId>(out));
  });
}

absl::Status StreamedLayer::LinkBackRanges() {
  HMANN_ASSIGN_OR_RETURN(LinksBothWays links, LinksBothWays::Map(stages_, count()));
  const LinksOf old = [&](NodeId node, std::vector<NodeId>* list) {
    links.AppendLinks(node, list);
  };
  const LinksOf more = [&](NodeId node, std::vector<NodeId>* list) {
    links.AppendSources(node, list);
  };
  PartLoader loader(vectors_, source_.room, MergeCosts(), stages_.job());
  absl::Status read;
  const auto collect = [&](NodeRange part, NodeSubset* nodes) {
    read = links.Need(part);
    if (read.ok() && nodes != nullptr) CollectMerged(part, old, more, *nodes);
    return links.bytes();
  };
  return stages_.ForRanges(
      {.phase = "link back", .stage = "back", .n = count(), .reads = "links"},
      [&](NodeRange range, ArtefactWriter& writer, ArtefactWriter&) {
        const auto make = [&](NodeRange part) {
          HMANN_RETURN_IF_ERROR(read);
          return MergeInto(part, loader, old, more, writer);
        };
        HMANN_RETURN_IF_ERROR(loader.For(range, stages_.RunEnd(count()), collect, make));
        links.Drop(range);
        return absl::OkStatus();
      });
}

}  // namespace hmann
