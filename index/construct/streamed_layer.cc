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

bool StreamedLayer::HasShards() const {
  const absl::StatusOr<std::string> shards = stages_.work().Read(stages_.Name("shards"));
  std::uint32_t chosen = 0;
  if (!shards.ok() || shards->size() != sizeof(chosen)) return false;
  std::memcpy(&chosen, shards->data(), sizeof(chosen));
  for (std::uint32_t s = 0; s < chosen; ++s) {
    if (!stages_.work().Has(stages_.Name("shard", s)) ||
        !stages_.work().Has(stages_.Name("shard-nodes", s)))
      return false;
  }
  return true;
}

void StreamedLayer::CheckWhatIsThere() {
  // Which stage is the last that reads what another made; "none": it is always read.
  const std::pair<const char*, const char*> kept[] = {
      {"lead", "near"},  {"near", "lists"}, {"lists", "links"}, {"links", "back"},
      {"back", "final"}, {"rows", "none"},  {"final", "none"}};
  bool whole = !stages_.LostMarker() &&
               (!stages_.Done("shard") || stages_.Done("lists") || HasShards()) &&
               (!stages_.Done("lead") || stages_.work().Has(stages_.Name("order")) ||
                stages_.HasAll("lead", count()));
  for (const auto& [stage, until] : kept) {
    whole =
        whole && (!stages_.Done(stage) || stages_.Done(until) || stages_.HasAll(stage, count()));
  }
  if (!whole) stages_.Forget();
}

absl::Status StreamedLayer::ForParts(NodeRange range, std::uint64_t bytes_of_loaded,
                                     std::uint64_t bytes_of_own, NodeSubset& loaded,
                                     const std::function<void(NodeRange)>& collect,
                                     const std::function<absl::Status(NodeRange)>& make) const {
  constexpr NodeId kFew = 4096;
  NodeId size = range.size();
  for (NodeId first = range.first; first < range.last;) {
    HMANN_RETURN_IF_ERROR(stages_.job().CheckCancelled());
    const NodeRange part{first, first + std::min(size, range.last - first)};
    loaded.Clear();
    collect(part);
    const std::uint64_t need = loaded.Number() * bytes_of_loaded + size * bytes_of_own;
    // A part that cannot be halved any more takes what it takes: some tens of MiB.
    if (need > source_.room && size > kFew) {
      size = (size + 1) / 2;
      continue;
    }
    HMANN_RETURN_IF_ERROR(make(part));
    first = part.last;
  }
  return absl::OkStatus();
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
    HMANN_RETURN_IF_ERROR(
        stages_.ForRanges("lead", "lead", count(), [&](NodeRange range, ArtefactWriter& writer) {
          std::vector<std::uint32_t> nearest(std::size_t{range.last - range.first} * fan_);
          stages_.job().pool.ParallelFor(
              range.last - range.first, at_once,
              [&](std::size_t begin, std::size_t end, int thread) {
                if (stages_.job().Cancelled()) return;
                std::vector<const std::byte*> rows;
                for (std::size_t i = begin; i < end; ++i) {
                  std::byte* place =
                      copies.rows.data() +
                      (static_cast<std::size_t>(thread) * at_once + (i - begin)) * source_.stride;
                  source_.copy(source_.unique[range.first + i], place);
                  rows.push_back(place);
                }
                find[static_cast<std::size_t>(thread)].Find(rows, nearest.data() + begin * fan_);
              });
          return writer.Append(std::span<const std::uint32_t>(nearest));
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

absl::StatusOr<Buffer> StreamedLayer::Rows(std::span<const std::uint32_t> row_of,
                                           std::span<const std::uint32_t> order) {
  using Move = std::pair<std::uint32_t, NodeId>;  // from, to: sorted, the source is read forwards
  const auto n = static_cast<NodeId>(row_of.size());
  HMANN_RETURN_IF_ERROR(
      stages_.ForRanges("rows", "rows", n, [&](NodeRange range, ArtefactWriter& writer) {
        std::vector<Move> moves;
        for (NodeId node = range.first; node < range.last; ++node)
          moves.emplace_back(row_of[node], node - range.first);
        std::sort(moves.begin(), moves.end());
        absl::StatusOr<Buffer> rows = Buffer::Allocate(moves.size() * source_.stride);
        if (!rows.ok()) return rows.status();
        stages_.job().pool.ParallelFor(
            moves.size(), 4096, [&](std::size_t begin, std::size_t end, int) {
              for (std::size_t i = begin; i < end; ++i)
                source_.copy(moves[i].first,
                             rows->data() + std::size_t{moves[i].second} * source_.stride);
            });
        return writer.Append(rows->data(), rows->size());
      }));
  HMANN_RETURN_IF_ERROR(MakeNear(order));
  return stages_.Map("rows", n);
}

absl::Status StreamedLayer::MakeNear(std::span<const std::uint32_t> order) {
  if (stages_.Done("near")) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(const Buffer lead, stages_.Map("lead", count()));
  const std::size_t bytes = fan_ * sizeof(std::uint32_t);
  HMANN_RETURN_IF_ERROR(stages_.ForRanges(
      "leaders by node", "near", count(), [&](NodeRange range, ArtefactWriter& writer) {
        std::vector<std::pair<std::uint32_t, NodeId>> moves;
        for (NodeId node = range.first; node < range.last; ++node)
          moves.emplace_back(order[node], node - range.first);
        std::sort(moves.begin(), moves.end());
        std::vector<std::uint32_t> near(moves.size() * fan_);
        for (const auto& [from, to] : moves)
          std::memcpy(near.data() + std::size_t{to} * fan_, lead.data() + from * bytes, bytes);
        return writer.Append(std::span<const std::uint32_t>(near));
      }));
  stages_.Retire("lead");
  return absl::OkStatus();
}

absl::StatusOr<Buffer> StreamedLayer::Links(const std::byte* rows) {
  HMANN_RETURN_IF_ERROR(JoinShards(rows));
  HMANN_RETURN_IF_ERROR(MergeLists(rows));
  HMANN_RETURN_IF_ERROR(MakeLinks(rows));
  HMANN_RETURN_IF_ERROR(LinkBackRanges(rows));
  return stages_.Map("back", count());
}

}  // namespace hmann
