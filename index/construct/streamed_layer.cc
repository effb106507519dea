#include "index/construct/streamed_layer.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "index/base/status_macros.h"
#include "index/construct/leaders.h"

namespace hmann {
StreamedLayer::StreamedLayer(StreamedSource source, const Stages& stages)
    : source_(std::move(source)), stages_(stages) {
  partition_ = PartitionFor(count(), source_.seed);
  groups_ = FirstLeaders(count(), partition_);
  fan_ = std::min(partition_.fan, groups_);
  CheckWhatIsThere();
}

bool StreamedLayer::HasAllLeaves() const {
  for (std::size_t j = 0; j < LeafJobs(groups_).size(); ++j) {
    if (!stages_.work().Has(stages_.Name("leaves", j))) return false;
  }
  return true;
}

void StreamedLayer::CheckWhatIsThere() {
  // Which stage is the last that reads what another made, all of it or only the same
  // range; "none": it is always read.
  struct Kept {
    const char *files, *stage, *until;
    bool by_range;
  };
  constexpr Kept kKept[] = {{"lead", "lead", "near", false},    {"near", "near", "leaves", false},
                            {"lists", "lists", "links", false}, {"rest", "lists", "links", true},
                            {"ways", "links", "back", false},   {"links", "links", "back", true},
                            {"back", "back", "final", true},    {"final", "final", "none", false}};
  bool whole = !stages_.LostMarker() &&
               (!stages_.Done("leaves") || stages_.Done("lists") || HasAllLeaves()) &&
               (!stages_.Done("lead") || stages_.work().Has(stages_.Name("order")) ||
                stages_.HasAll("lead", count()));
  // Hubs can be made again of all that they were made of.
  const bool hubs = stages_.work().Has(stages_.Name("hubs-nodes")) &&
                    stages_.work().Has(stages_.Name("hubs-links"));
  whole = whole && (!stages_.Done("backbone") || stages_.Done("final") || hubs ||
                    stages_.HasAll("back", count()));
  for (const Kept& kept : kKept) {
    if (!stages_.Done(kept.stage) || stages_.Done(kept.until)) continue;
    whole = whole && stages_.HasAll(kept.files, count(), kept.by_range ? kept.until : "");
  }
  if (!whole) stages_.Forget();
}

absl::StatusOr<std::vector<std::uint32_t>> StreamedLayer::Order() {
  if (!stages_.Done("lead")) {
    StoredVectors copies;
    copies.stride = source_.stride;
    HMANN_ASSIGN_OR_RETURN(copies.rows, Buffer::Allocate(source_.stride));
    HMANN_ASSIGN_OR_RETURN(const FirstSplit split, FirstSplit::Make(
                                                       source_.kernels, source_.stride, count(),
                                                       [&](std::size_t i) {
                                                         source_.copy(source_.unique[i],
                                                                      copies.rows.data());
                                                         return copies.rows.data();
                                                       },
                                                       partition_));
    std::vector<NearestLeaders> find(static_cast<std::size_t>(stages_.job().pool.threads()),
                                     split.Finder(source_.kernels, partition_));
    const std::size_t at_once = find[0].rows_at_once();
    HMANN_ASSIGN_OR_RETURN(copies.rows, Buffer::Allocate(find.size() * at_once * source_.stride));
    const auto lead = [&](NodeRange part, std::vector<std::uint32_t>& nearest) {
      stages_.job().pool.ParallelFor(
          part.size(), at_once, [&](std::size_t begin, std::size_t end, int thread) {
            if (stages_.job().Cancelled()) return;
            std::vector<const std::byte*> rows;
            for (std::size_t i = begin; i < end; ++i) {
              std::byte* place =
                  copies.rows.data() +
                  (static_cast<std::size_t>(thread) * at_once + (i - begin)) * source_.stride;
              source_.copy(source_.unique[part.first + i], place);
              rows.push_back(place);
            }
            find[static_cast<std::size_t>(thread)].Find(rows, nearest.data() + begin * fan_);
            stages_.job().progress.Advance(end - begin);
          });
    };
    HMANN_RETURN_IF_ERROR(
        stages_.ForRanges("lead", "lead", count(), [&](NodeRange range, ArtefactWriter& writer) {
          HMANN_RETURN_IF_ERROR(
              writer.Expect(std::uint64_t{range.size()} * fan_ * sizeof(std::uint32_t)));
          return ForParts(range, [&](NodeRange part) {
            std::vector<std::uint32_t> nearest(std::size_t{part.size()} * fan_);
            lead(part, nearest);
            HMANN_RETURN_IF_ERROR(stages_.job().CheckCancelled());
            return writer.Append(std::span<const std::uint32_t>(nearest));
          });
        }));
  }
  if (!stages_.work().Has(stages_.Name("order"))) {
    HMANN_ASSIGN_OR_RETURN(const Buffer lead, stages_.Map("lead", count()));
    const auto* nearest = reinterpret_cast<const std::uint32_t*>(lead.data());
    std::vector<std::uint32_t> first(count()), order;
    for (NodeId i = 0; i < count(); ++i) first[i] = nearest[std::size_t{i} * fan_];
    std::vector<std::size_t> ends;
    Gather(first, 1, groups_, &order, &ends);
    HMANN_ASSIGN_OR_RETURN(ArtefactWriter writer, stages_.work().Create(stages_.Name("order")));
    HMANN_RETURN_IF_ERROR(writer.Append(std::span<const std::uint32_t>(order)));
    HMANN_RETURN_IF_ERROR(writer.Commit());
    return order;
  }
  HMANN_ASSIGN_OR_RETURN(const Buffer mapped, stages_.work().Map({stages_.Name("order")}));
  const auto* order = reinterpret_cast<const std::uint32_t*>(mapped.data());
  return std::vector<std::uint32_t>(order, order + mapped.size() / sizeof(std::uint32_t));
}

absl::Status StreamedLayer::MakeNear(std::span<const std::uint32_t> order) {
  HMANN_ASSIGN_OR_RETURN(const Buffer lead, stages_.Map("lead", count()));
  const std::size_t bytes = fan_ * sizeof(std::uint32_t);
  return stages_.ForRanges(
      "leaders by node", "near", count(), [&](NodeRange range, ArtefactWriter& writer) {
        HMANN_RETURN_IF_ERROR(writer.Expect(range.size() * bytes));
        return ForParts(range, [&](NodeRange part) {
          std::vector<std::pair<std::uint32_t, NodeId>> moves;
          for (NodeId node = part.first; node < part.last; ++node)
            moves.emplace_back(order[node], node - part.first);
          std::sort(moves.begin(), moves.end());
          std::vector<std::uint32_t> near(moves.size() * fan_);
          for (const auto& [from, to] : moves)
            std::memcpy(near.data() + std::size_t{to} * fan_, lead.data() + from * bytes, bytes);
          stages_.job().progress.Advance(part.size());
          return writer.Append(std::span<const std::uint32_t>(near));
        });
      });
}

absl::Status StreamedLayer::MakeLinks(std::span<const std::uint32_t> row_of,
                                      std::span<const std::uint32_t> order) {
  vectors_ = {.stride = source_.stride,
              .count = static_cast<NodeId>(row_of.size()),
              .row_of = row_of,
              .copy = source_.copy};
  if (!stages_.work().on_disk()) {
    std::vector<NodeId> nodes(count());
    std::iota(nodes.begin(), nodes.end(), NodeId{0});
    HMANN_ASSIGN_OR_RETURN(rows_, vectors_.Gather(nodes, stages_.job().pool));
    vectors_ = NodeVectors::InMemory(rows_, count());
  }
  if (!stages_.Done("near")) HMANN_RETURN_IF_ERROR(MakeNear(order));
  stages_.Retire("lead");
  if (!stages_.Done("leaves")) HMANN_RETURN_IF_ERROR(MakeLeaves());
  stages_.Retire("near");
  if (!stages_.Done("lists")) HMANN_RETURN_IF_ERROR(MakeLists());
  stages_.Retire("leaves");
  if (!stages_.Done("links")) HMANN_RETURN_IF_ERROR(ChooseLinks());
  stages_.Retire("lists");
  stages_.Retire("rest");
  if (!stages_.Done("back")) HMANN_RETURN_IF_ERROR(LinkBackRanges());
  stages_.Retire("links");
  stages_.Retire("ways");
  return absl::OkStatus();
}

}  // namespace hmann
