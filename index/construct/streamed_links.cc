#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "index/base/status_macros.h"
#include "index/construct/insertion_graph.h"
#include "index/construct/nearest_links.h"
#include "index/construct/reverse_links.h"
#include "index/construct/streamed_layer.h"

namespace hmann {
namespace {

constexpr std::size_t kNodesPerStep = 256;

/// Chooses links out of lists of the nearest.
class ListLinker {
 public:
  ListLinker(const Buffer& lists, NodeId n, std::uint32_t length, float alpha,
             const ThreadPool& pool)
      : lists_(reinterpret_cast<const NodeId*>(lists.data())),
        length_(length),
        asked_(n),
        scratch_(static_cast<std::size_t>(pool.threads()),
                 Scratch{NodeLinker(length, alpha), {}, {}, {}}) {}

  /// All whose vectors Choose reads for the nodes of `part`; lists that it asks for are
  /// copied, for the file to be read forwards.
  void Collect(NodeRange part, NodeSubset& loaded, ThreadPool& pool) {
    asked_.Clear();
    pool.ParallelFor(part.size(), kNodesPerStep, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i) {
        const auto node = static_cast<NodeId>(part.first + i);
        loaded.Add(node);
        for (const NodeId id : List(node, length_)) loaded.Add(id);
        for (const NodeId id : List(node, NodeLinker::kAsked)) asked_.Add(id);
      }
    });
    answers_.assign(std::size_t{asked_.Number()} * NodeLinker::kAnswered, kNoNode);
    const std::vector<NodeId> asked = asked_.Nodes();
    pool.ParallelFor(asked.size(), kNodesPerStep, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i) {
        const std::span<const NodeId> list = List(asked[i], NodeLinker::kAnswered);
        std::copy(list.begin(), list.end(), answers_.data() + i * NodeLinker::kAnswered);
        for (const NodeId id : list) loaded.Add(id);
      }
    });
  }
  /// What Collect copies of a node that is asked.
  static constexpr std::size_t kBytesOfAsked = NodeLinker::kAnswered * sizeof(NodeId);

  /// Writes the links of `node` to `out`. `nodes`: what is loaded, as `view` numbers it.
  void Choose(NodeId node, const NodeSubset& loaded, std::span<const NodeId> nodes,
              const LayerView& view, int thread, NodeId* out) {
    Scratch& own = scratch_[static_cast<std::size_t>(thread)];
    const NodeLinker::Answers answers = [&](NodeId asked) {
      own.answers.clear();
      const NodeId* list =
          answers_.data() + std::size_t{asked_.Local(nodes[asked])} * NodeLinker::kAnswered;
      for (std::uint32_t l = 0; l < CountLinks(list, NodeLinker::kAnswered); ++l)
        own.answers.push_back(loaded.Local(list[l]));
      return std::span<const NodeId>(own.answers);
    };
    const NodeId local = loaded.Local(node);
    own.batch.Reserve(length_);
    own.batch.size = 0;
    for (const NodeId id : List(node, length_)) {
      const NodeId near = loaded.Local(id);
      own.batch.Add(near, view.Row(near));
    }
    own.batch.Score(*view.kernels, view.Row(local));
    own.candidates.clear();
    for (std::uint32_t c = 0; c < own.batch.size; ++c)
      own.candidates.push_back({own.batch.keys[c], own.batch.ids[c]});
    for (const NodeId link : own.linker.Choose(local, own.candidates, view, answers))
      *out++ = nodes[link];
  }

 private:
  struct Scratch {
    NodeLinker linker;
    RowBatch batch;
    std::vector<Candidate> candidates;
    std::vector<NodeId> answers;
  };
  /// The nearest of a node, at most so many.
  std::span<const NodeId> List(NodeId node, std::size_t most) const {
    const NodeId* ids = lists_ + std::size_t{node} * length_;
    return {ids, std::min<std::size_t>(CountLinks(ids, length_), most)};
  }

  const NodeId* lists_;
  std::uint32_t length_;
  NodeSubset asked_;
  std::vector<NodeId> answers_;  ///< [asked]: kAnswered each
  std::vector<Scratch> scratch_;
};

}  // namespace

absl::Status StreamedLayer::MakeLinks(const std::byte* rows) {
  if (stages_.Done("links")) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(const Buffer mapped, stages_.Map("lists", count()));
  const std::uint32_t length = list_length();
  ThreadPool& pool = stages_.job().pool;
  ListLinker linker(mapped, count(), length, source_.alpha, pool);
  NodeSubset loaded(count());
  const auto collect = [&](NodeRange part) { linker.Collect(part, loaded, pool); };
  HMANN_RETURN_IF_ERROR(
      stages_.ForRanges("select", "links", count(), [&](NodeRange range, ArtefactWriter& writer) {
        const auto make = [&](NodeRange part) {
          const std::vector<NodeId> nodes = loaded.Nodes();
          const absl::StatusOr<StoredVectors> vectors =
              GatherRecords(rows, source_.stride, nodes, pool);
          if (!vectors.ok()) return vectors.status();
          const LayerView view{nullptr,         loaded.size(),   length, vectors->rows.data(),
                               vectors->stride, &source_.kernels};
          std::vector<NodeId> links(std::size_t{part.size()} * length, kNoNode);
          pool.ParallelFor(part.size(), kNodesPerStep,
                           [&](std::size_t begin, std::size_t end, int thread) {
                             if (stages_.job().Cancelled()) return;
                             for (std::size_t i = begin; i < end; ++i)
                               linker.Choose(static_cast<NodeId>(part.first + i), loaded, nodes,
                                             view, thread, links.data() + i * length);
                           });
          return writer.Append(std::span<const NodeId>(links));
        };
        return ForParts(range, source_.stride + sizeof(NodeId) + ListLinker::kBytesOfAsked,
                        length * sizeof(NodeId), loaded, collect, make);
      }));
  stages_.Retire("lists");
  return absl::OkStatus();
}

namespace {

/// Which ranges the links of some neighbouring nodes lead to, a bit each, so that most of
/// the links need not be read for the targets in one range.
class TargetRanges {
 public:
  static constexpr NodeId kBlock = 1024;

  TargetRanges(const NodeId* links, NodeId n, std::uint32_t length,
               const std::vector<NodeRange>& ranges, ThreadPool& pool)
      : masks_((std::size_t{n} + kBlock - 1) / kBlock) {
    const NodeId size = ranges[0].last - ranges[0].first;
    pool.ParallelFor(masks_.size(), 1, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t block = begin; block < end; ++block) {
        const std::size_t last = std::min<std::size_t>(n, (block + 1) * kBlock);
        for (std::size_t i = block * kBlock * length; i < last * length; ++i) {
          if (links[i] != kNoNode) masks_[block] |= std::uint32_t{1} << links[i] / size;
        }
      }
    });
  }
  bool Leads(std::size_t block, std::size_t range) const { return masks_[block] >> range & 1; }
  std::size_t blocks() const { return masks_.size(); }

 private:
  std::vector<std::uint32_t> masks_;
};

/// The links into one range, target by target.
struct Sources {
  std::vector<std::uint32_t> ends;  ///< [target - first]
  std::vector<NodeId> nodes;

  Sources(const NodeId* links, NodeId n, std::uint32_t length, const TargetRanges& leads,
          NodeRange range, std::size_t number, ThreadPool& pool)
      : ends(std::size_t{range.last - range.first} + 1) {
    using Link = std::pair<NodeId, NodeId>;
    std::vector<std::vector<Link>> found(static_cast<std::size_t>(pool.threads()));
    pool.ParallelFor(leads.blocks(), 1, [&](std::size_t begin, std::size_t end, int thread) {
      for (std::size_t block = begin; block < end; ++block) {
        if (!leads.Leads(block, number)) continue;
        const auto first = static_cast<NodeId>(block * TargetRanges::kBlock);
        const NodeId last = first + std::min(n - first, TargetRanges::kBlock);
        for (NodeId node = first; node < last; ++node) {
          const NodeId* list = links + std::size_t{node} * length;
          for (std::uint32_t i = 0; i < length && list[i] != kNoNode; ++i) {
            if (list[i] >= range.first && list[i] < range.last)
              found[static_cast<std::size_t>(thread)].emplace_back(list[i] - range.first, node);
          }
        }
      }
    });
    for (const std::vector<Link>& own : found) {
      for (const Link& link : own) ++ends[link.first + 1];
    }
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    nodes.resize(ends.back());
    for (std::vector<Link>& own : found) {
      for (const Link& link : own) nodes[ends[link.first]++] = link.second;
      own = {};
    }
    pool.ParallelFor(ends.size() - 1, kNodesPerStep, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i) {
        const std::span<NodeId> own = Of(static_cast<NodeId>(i));
        std::sort(own.begin(), own.end());
      }
    });
  }
  std::span<NodeId> Of(NodeId place) {
    const std::uint32_t begin = place == 0 ? 0 : ends[place - 1];
    return {nodes.data() + begin, ends[place] - begin};
  }
};

}  // namespace

absl::Status StreamedLayer::LinkBackRanges(const std::byte* rows) {
  if (stages_.Done("back")) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(const Buffer mapped, stages_.Map("links", count()));
  const auto* links = reinterpret_cast<const NodeId*>(mapped.data());
  const std::uint32_t most = list_length();
  const std::vector<NodeRange> ranges = RangesOf(count());
  const TargetRanges leads(links, count(), most, ranges, stages_.job().pool);
  NodeSubset loaded(count());
  HMANN_RETURN_IF_ERROR(
      stages_.ForRanges("link back", "back", count(), [&](NodeRange range, ArtefactWriter& writer) {
        const std::size_t number = range.first / (ranges[0].last - ranges[0].first);
        Sources sources(links, count(), most, leads, range, number, stages_.job().pool);
        const auto collect = [&](NodeRange part) {
          for (NodeId node = part.first; node < part.last; ++node) {
            loaded.Add(node);
            const NodeId* list = links + std::size_t{node} * most;
            for (std::uint32_t i = 0; i < CountLinks(list, most); ++i) loaded.Add(list[i]);
            for (const NodeId source : sources.Of(node - range.first)) loaded.Add(source);
          }
        };
        const auto make = [&](NodeRange part) {
          return MergeInto(
              part, loaded, rows, links,
              [&](NodeId node) { return std::span<const NodeId>(sources.Of(node - range.first)); },
              writer);
        };
        return ForParts(range, source_.stride + (most + 1) * sizeof(NodeId), most * sizeof(NodeId),
                        loaded, collect, make);
      }));
  stages_.Retire("links");
  return absl::OkStatus();
}

absl::Status StreamedLayer::MergeInto(
    NodeRange part, const NodeSubset& loaded, const std::byte* rows, const NodeId* links,
    const std::function<std::span<const NodeId>(NodeId)>& more, ArtefactWriter& writer,
    const std::function<void(NodeId, std::span<NodeId>)>& finish) {
  const std::uint32_t most = list_length();
  const std::vector<NodeId> nodes = loaded.Nodes();
  HMANN_ASSIGN_OR_RETURN(const StoredVectors vectors,
                         GatherRecords(rows, source_.stride, nodes, stages_.job().pool));
  HMANN_ASSIGN_OR_RETURN(InsertionGraph graph,
                         InsertionGraph::Make({loaded.size()}, {most}, vectors.rows.data(),
                                              vectors.stride, source_.kernels));
  std::vector<LinkMerger> mergers(static_cast<std::size_t>(stages_.job().pool.threads()));
  std::vector<NodeId> out(std::size_t{part.last - part.first} * most, kNoNode);
  stages_.job().pool.ParallelFor(
      part.last - part.first, kNodesPerStep, [&](std::size_t begin, std::size_t end, int thread) {
        if (stages_.job().Cancelled()) return;
        std::vector<NodeId> added;
        for (std::size_t i = begin; i < end; ++i) {
          const auto node = static_cast<NodeId>(part.first + i);
          const NodeId* old = node < count() ? links + std::size_t{node} * most : nullptr;
          const std::uint32_t before = old == nullptr ? 0 : CountLinks(old, most);
          NodeId* list = out.data() + i * most;
          std::copy_n(old, before, list);
          if (const std::span<const NodeId> others = more(node); !others.empty()) {
            const NodeId local = loaded.Local(node);
            NodeId* own = graph.Links(0, local);
            for (std::uint32_t l = 0; l < before; ++l) own[l] = loaded.Local(old[l]);
            added.clear();
            for (const NodeId other : others) added.push_back(loaded.Local(other));
            mergers[static_cast<std::size_t>(thread)].Add(graph, 0, local, added, source_.alpha,
                                                          most);
            std::fill_n(list, most, kNoNode);
            for (std::uint32_t l = 0; l < most && own[l] != kNoNode; ++l) list[l] = nodes[own[l]];
          }
          if (finish) finish(node, {list, most});
        }
      });
  return writer.Append(std::span<const NodeId>(out));
}

}  // namespace hmann
