#include <algorithm>
#include <memory>
#include <utility>

#include "index/base/status_macros.h"
#include "index/construct/graph/insertion_graph.h"
#include "index/construct/graph/reverse_links.h"
#include "index/construct/jobs/joined_layer.h"
#include "index/construct/jobs/link_store.h"
#include "index/construct/jobs/nearest_links.h"

namespace hmann {
namespace {

constexpr std::size_t kLinkedPerStep = 256;

/// Chooses links out of the lists of nearest nodes.
class ListLinker {
 public:
  ListLinker(StoredLists& lists, const PartLoader& loader, const Kernels& kernels, float alpha,
             ThreadPool& pool)
      : lists_(lists),
        loader_(loader),
        kernels_(kernels),
        pool_(pool),
        asked_(loader.has_all() ? 0 : loader.nodes().most()),
        scratch_(static_cast<std::size_t>(pool.threads()),
                 Scratch{NodeLinker(lists.length(), alpha), {}, {}, {}, {}}) {}

  /// Collects all nodes whose vectors Choose reads for the nodes of `part`. Lists that it
  /// needs are copied, so that the file is read forwards. Returns the bytes of the
  /// copies.
  std::uint64_t Collect(NodeRange part, NodeSubset& loaded) {
    asked_.Clear();
    pool_.ParallelFor(part.size(), kLinkedPerStep, [&](std::size_t begin, std::size_t end, int) {
      std::vector<NodeId> scratch;
      for (std::size_t i = begin; i < end; ++i) {
        const auto node = static_cast<NodeId>(part.first + i);
        loaded.Add(node);
        lists_.ForEach(node, scratch, [&](NodeId id) { loaded.Add(id); });
        const std::span<const NodeId> first = lists_.First(node, scratch);
        for (const NodeId id :
             first.first(std::min<std::size_t>(first.size(), NodeLinker::kRequested)))
          asked_.Add(id);
      }
    });
    answers_.assign(std::size_t{asked_.Number()} * NodeLinker::kAnswered, kNoNode);
    const std::vector<NodeId> requested = asked_.Nodes();
    pool_.ParallelFor(
        requested.size(), kLinkedPerStep, [&](std::size_t begin, std::size_t end, int) {
          std::vector<NodeId> scratch;
          for (std::size_t i = begin; i < end; ++i) {
            const std::span<const NodeId> list = lists_.First(requested[i], scratch);
            std::copy(list.begin(), list.end(), answers_.data() + i * NodeLinker::kAnswered);
            for (const NodeId id : list) loaded.Add(id);
          }
        });
    return answers_.size() * sizeof(NodeId);
  }

  /// Renumbers the answers by the loaded nodes. Call it when the collected nodes are
  /// loaded.
  void Number() {
    if (std::exchange(loads_, loader_.loads()) == loader_.loads()) return;
    pool_.ParallelFor(answers_.size(), 4096, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i) {
        if (answers_[i] != kNoNode) answers_[i] = loader_.nodes().Local(answers_[i]);
      }
    });
  }

  /// Chooses the links of `node` out of the nearest `most` of its list; valid until the
  /// thread's next call. Call after Number.
  std::span<const NodeId> Choose(NodeId node, std::uint32_t most, std::span<const NodeId> nodes,
                                 const LayerView& view, int thread) {
    Scratch& own = scratch_[static_cast<std::size_t>(thread)];
    const NodeSubset& loaded = loader_.nodes();
    const NodeLinker::Answers answers = [&](NodeId requested) {
      if (loader_.has_all()) return lists_.First(requested, own.list);
      const NodeId* list =
          answers_.data() + std::size_t{asked_.Local(nodes[requested])} * NodeLinker::kAnswered;
      return std::span(list, CountLinks(list, NodeLinker::kAnswered));
    };
    const NodeId local = loaded.Local(node);
    own.batch.Reserve(lists_.length());
    own.batch.size = 0;
    lists_.ForEach(node, own.list, [&](NodeId id) {
      if (own.batch.size == most) return;
      const NodeId near = loaded.Local(id);
      own.batch.Add(near, view.Row(near));
    });
    own.batch.Score(kernels_, view.Row(local));
    own.candidates.clear();
    for (std::uint32_t c = 0; c < own.batch.size; ++c)
      own.candidates.push_back({own.batch.keys[c], own.batch.ids[c]});
    const std::span<const NodeId> links = own.linker.Choose(local, own.candidates, view, answers);
    own.links.clear();
    for (const NodeId link : links) own.links.push_back(nodes[link]);
    return own.links;
  }

 private:
  struct Scratch {
    NodeLinker linker;
    RowBatch batch;
    std::vector<Candidate> candidates;
    std::vector<NodeId> links, list;
  };

  StoredLists& lists_;
  const PartLoader& loader_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  NodeSubset asked_;
  std::vector<NodeId> answers_;  ///< [asked]: kAnswered each
  std::uint64_t loads_ = 0;      ///< load count that answers_ belong to
  std::vector<Scratch> scratch_;
};

/// The links of the ranges that a part lies in, and the links to them.
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

  /// Loads the ranges of `nodes`. Ranges behind these are dropped, because too much was
  /// loaded.
  absl::Status Need(NodeRange nodes) {
    for (std::size_t r = Of(nodes.last - 1) + 1; r < own_.size(); ++r) own_[r] = nullptr;
    for (std::size_t r = Of(nodes.first); r <= Of(nodes.last - 1); ++r) {
      if (own_[r] != nullptr) continue;
      HMANN_ASSIGN_OR_RETURN(StoredLinks links, StoredLinks::Map(*stages_, "links", r, ranges_[r]));
      HMANN_ASSIGN_OR_RETURN(LinkSources sources,
                             LinkSources::Make(ranges_, r, ways_, links, stages_->job().pool));
      own_[r] = std::make_unique<Own>(Own{std::move(links), std::move(sources)});
    }
    return absl::OkStatus();
  }
  void Drop(NodeRange nodes) { own_[Of(nodes.first)] = nullptr; }
  /// Bytes of the ranges that are not dropped yet.
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
  std::vector<std::unique_ptr<Own>> own_;  ///< [range]; nullptr: not needed, or not any more
};

/// A node's previous links and the new ones, and whether they are too many together.
struct Merging {
  std::vector<NodeId> old, more;

  bool Take(NodeId node, const JoinedLayer::LinksOf& old_of, const JoinedLayer::LinksOf& more_of,
            std::uint32_t most) {
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

absl::Status JoinedLayer::ChooseLinks() {
  ThreadPool& pool = stages_.job().pool;
  const std::size_t length = list_length();
  HMANN_ASSIGN_OR_RETURN(StoredLists lists, Lists());
  PartLoader loader(vectors_, source_.room,
                    {.of_loaded = sizeof(NodeId), .of_part = 2 * length * sizeof(NodeId)},
                    stages_.job());
  ListLinker linker(lists, loader, source_.kernels, source_.alpha, pool);
  absl::Status read;
  const auto collect = [&](NodeRange part, NodeSubset* nodes) {
    read = lists.NeedRest(part);
    return read.ok() && nodes != nullptr ? linker.Collect(part, *nodes) : std::uint64_t{0};
  };
  const std::vector<NodeRange> ranges = stages_.Ranges(count());
  return stages_.ForRanges(
      {.phase = "select", .stage = "links", .n = count(), .beside = "ways", .reads = "rest"},
      [&](NodeRange range, ArtifactWriter& writer, ArtifactWriter& ways) {
        WayWriter leading(ranges[0].size(), ranges.size());
        HMANN_RETURN_IF_ERROR(writer.Expect(std::uint64_t{range.size()} * length * sizeof(NodeId)));
        const auto make = [&](NodeRange part) {
          HMANN_RETURN_IF_ERROR(read);
          linker.Number();
          const std::vector<NodeId>& nodes = loader.list();
          const LayerView view{nullptr,
                               loader.nodes().size(),
                               list_length(),
                               loader.vectors().rows.data(),
                               loader.vectors().stride,
                               &source_.kernels};
          return ForParts(part, [&](NodeRange few) {
            std::vector<NodeId> links(few.size() * length, kNoNode);
            pool.ParallelFor(
                few.size(), kLinkedPerStep, [&](std::size_t begin, std::size_t end, int thread) {
                  for (std::size_t i = begin; i < end && !stages_.job().Cancelled(); ++i) {
                    const auto node = static_cast<NodeId>(few.first + i);
                    const std::uint32_t most =
                        source_.effort ? source_.effort(order_[node]).candidates : list_length();
                    const std::span<const NodeId> own =
                        linker.Choose(node, most, nodes, view, thread);
                    std::copy(own.begin(), own.end(), links.data() + i * length);
                  }
                  stages_.job().progress.Advance(end - begin);
                });
            std::vector<NodeId> out;
            for (NodeId i = 0; i < few.size(); ++i) {
              const NodeId* list = links.data() + i * length;
              const std::span<const NodeId> own(list, CountLinks(list, list_length()));
              PutList(own, &out);
              leading.Add(few.first + i, own);
            }
            HMANN_RETURN_IF_ERROR(stages_.job().CheckCancelled());
            return writer.Append(std::span<const NodeId>(out));
          });
        };
        HMANN_RETURN_IF_ERROR(loader.For(range, stages_.RunEnd(count()), collect, make));
        lists.DropRest(range);
        return leading.Write(ways);
      });
}

void JoinedLayer::CollectMerged(NodeRange part, const LinksOf& old, const LinksOf& more,
                                NodeSubset& nodes) const {
  stages_.job().pool.ParallelFor(part.size(), kLinkedPerStep,
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

absl::Status JoinedLayer::MergeInto(
    NodeRange part, const PartLoader& loader, const LinksOf& old, const LinksOf& more, NodeId n,
    ArtifactWriter& writer, const std::function<void(NodeId, std::span<NodeId>)>& finish) const {
  const std::uint32_t most = list_length();
  const NodeSubset& loaded = loader.nodes();
  const std::vector<NodeId>& nodes = loader.list();
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
  const LinkPacking packing = Packing(n);
  HMANN_RETURN_IF_ERROR(writer.Expect(std::uint64_t{part.size()} * packing.list_bytes));
  return ForParts(part, [&](NodeRange few) {
    std::vector<NodeId> out(std::size_t{few.size()} * most, kNoNode);
    stages_.job().pool.ParallelFor(few.size(), kLinkedPerStep,
                                   [&](std::size_t begin, std::size_t end, int thread) {
                                     if (stages_.job().Cancelled()) return;
                                     Merging merging;
                                     for (std::size_t i = begin; i < end; ++i)
                                       merge(static_cast<NodeId>(few.first + i),
                                             {out.data() + i * most, most}, merging, thread);
                                     stages_.job().progress.Advance(end - begin);
                                   });
    HMANN_RETURN_IF_ERROR(stages_.job().CheckCancelled());
    return writer.Append(std::span<const std::byte>(PackAll(packing, out, stages_.job().pool)));
  });
}

absl::Status JoinedLayer::LinkBackRanges() {
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
      [&](NodeRange range, ArtifactWriter& writer, ArtifactWriter&) {
        const auto make = [&](NodeRange part) {
          HMANN_RETURN_IF_ERROR(read);
          return MergeInto(part, loader, old, more, count(), writer);
        };
        HMANN_RETURN_IF_ERROR(loader.For(range, stages_.RunEnd(count()), collect, make));
        links.Drop(range);
        return absl::OkStatus();
      });
}

}  // namespace hmann
