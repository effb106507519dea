#include <algorithm>
#include <utility>

#include "index/base/status_macros.h"
#include "index/construct/insertion_graph.h"
#include "index/construct/link_store.h"
#include "index/construct/nearest_links.h"
#include "index/construct/streamed_layer.h"

namespace hmann {
namespace {

constexpr std::size_t kNodesPerStep = 256;

/// Lists of the nearest, in two files of a range: what others read is always mapped, the
/// rest where it is wanted.
class StoredLists {
 public:
  static absl::StatusOr<StoredLists> Map(const Stages& stages, NodeId n, std::uint32_t length) {
    StoredLists lists;
    lists.stages_ = &stages;
    lists.length_ = length;
    lists.first_length_ = NodeLinker::AnsweredOf(length);
    lists.range_ = stages.Ranges(n)[0].size();
    lists.rest_.resize(stages.Ranges(n).size());
    HMANN_ASSIGN_OR_RETURN(lists.first_, stages.Map("lists", n));
    return lists;
  }
  std::uint32_t length() const { return length_; }

  absl::Status NeedRest(NodeRange nodes) {
    for (std::size_t r = nodes.first / range_; r <= (nodes.last - 1) / range_; ++r) {
      if (rest_[r].size() > 0) continue;
      HMANN_ASSIGN_OR_RETURN(rest_[r], stages_->MapOne("rest", r));
    }
    return absl::OkStatus();
  }
  /// What is mapped takes room on the disk, though its name is gone.
  void DropRest(NodeRange nodes) { rest_[nodes.first / range_] = {}; }

  /// The nearest that others read.
  std::span<const NodeId> First(NodeId node) const { return Cut(first_, node, first_length_); }
  /// Calls `take` with each of the list, nearest first. After NeedRest.
  template <typename Take>
  void ForEach(NodeId node, const Take& take) const {
    for (const NodeId id : First(node)) take(id);
    for (const NodeId id : Cut(rest_[node / range_], node % range_, length_ - first_length_))
      take(id);
  }

 private:
  static std::span<const NodeId> Cut(const Buffer& file, std::size_t place, std::uint32_t length) {
    const NodeId* ids = reinterpret_cast<const NodeId*>(file.data()) + place * length;
    return {ids, CountLinks(ids, length)};
  }

  const Stages* stages_ = nullptr;
  std::uint32_t length_ = 0, first_length_ = 0;
  NodeId range_ = 0;
  Buffer first_;
  std::vector<Buffer> rest_;  ///< [range]
};

/// Chooses links out of lists of the nearest.
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
                 Scratch{NodeLinker(lists.length(), alpha), {}, {}, {}}) {}

  /// All whose vectors Choose reads for the nodes of `part`; lists that it asks for are
  /// copied, for the file to be read forwards. Returns the bytes of these.
  std::uint64_t Collect(NodeRange part, NodeSubset& loaded) {
    asked_.Clear();
    pool_.ParallelFor(part.size(), kNodesPerStep, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i) {
        const auto node = static_cast<NodeId>(part.first + i);
        loaded.Add(node);
        lists_.ForEach(node, [&](NodeId id) { loaded.Add(id); });
        const std::span<const NodeId> first = lists_.First(node);
        for (const NodeId id : first.first(std::min<std::size_t>(first.size(), NodeLinker::kAsked)))
          asked_.Add(id);
      }
    });
    answers_.assign(std::size_t{asked_.Number()} * NodeLinker::kAnswered, kNoNode);
    const std::vector<NodeId> asked = asked_.Nodes();
    pool_.ParallelFor(asked.size(), kNodesPerStep, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i) {
        const std::span<const NodeId> list = lists_.First(asked[i]);
        std::copy(list.begin(), list.end(), answers_.data() + i * NodeLinker::kAnswered);
        for (const NodeId id : list) loaded.Add(id);
      }
    });
    return answers_.size() * sizeof(NodeId);
  }

  /// Once what was collected is loaded: the answers by number among it.
  void Number() {
    if (std::exchange(loads_, loader_.loads()) == loader_.loads()) return;
    pool_.ParallelFor(answers_.size(), 4096, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i) {
        if (answers_[i] != kNoNode) answers_[i] = loader_.nodes().Local(answers_[i]);
      }
    });
  }

  /// The links of `node`; valid until the thread's next call. After Number.
  std::span<const NodeId> Choose(NodeId node, std::span<const NodeId> nodes, const LayerView& view,
                                 int thread) {
    Scratch& own = scratch_[static_cast<std::size_t>(thread)];
    const NodeSubset& loaded = loader_.nodes();
    const NodeLinker::Answers answers = [&](NodeId asked) {
      if (loader_.has_all()) return lists_.First(asked);
      const NodeId* list =
          answers_.data() + std::size_t{asked_.Local(nodes[asked])} * NodeLinker::kAnswered;
      return std::span(list, CountLinks(list, NodeLinker::kAnswered));
    };
    const NodeId local = loaded.Local(node);
    own.batch.Reserve(lists_.length());
    own.batch.size = 0;
    lists_.ForEach(node, [&](NodeId id) {
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
    std::vector<NodeId> links;
  };

  StoredLists& lists_;
  const PartLoader& loader_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  NodeSubset asked_;
  std::vector<NodeId> answers_;  ///< [asked]: kAnswered each
  std::uint64_t loads_ = 0;      ///< of which they are
  std::vector<Scratch> scratch_;
};

}  // namespace

absl::Status StreamedLayer::ChooseLinks() {
  ThreadPool& pool = stages_.job().pool;
  const std::size_t length = list_length();
  HMANN_ASSIGN_OR_RETURN(StoredLists lists, StoredLists::Map(stages_, count(), list_length()));
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
      [&](NodeRange range, ArtefactWriter& writer, ArtefactWriter& ways) {
        WayWriter leading(ranges[0].size(), ranges.size());
        HMANN_RETURN_IF_ERROR(writer.Expect(std::uint64_t{range.size()} * length * sizeof(NodeId)));
        const auto make = [&](NodeRange part) {
          HMANN_RETURN_IF_ERROR(read);
          linker.Number();
          const std::vector<NodeId> nodes = loader.nodes().Nodes();
          const LayerView view{nullptr,
                               loader.nodes().size(),
                               list_length(),
                               loader.vectors().rows.data(),
                               loader.vectors().stride,
                               &source_.kernels};
          return ForParts(part, [&](NodeRange few) {
            std::vector<NodeId> links(few.size() * length, kNoNode);
            pool.ParallelFor(
                few.size(), kNodesPerStep, [&](std::size_t begin, std::size_t end, int thread) {
                  for (std::size_t i = begin; i < end && !stages_.job().Cancelled(); ++i) {
                    const std::span<const NodeId> own =
                        linker.Choose(static_cast<NodeId>(few.first + i), nodes, view, thread);
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

}  // namespace hmann
