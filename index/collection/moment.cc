#include "index/collection/moment.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "index/attributes/bound_filter.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann {

std::uint64_t Tail::bytes(std::size_t stride) const {
  const std::size_t chunk = TailChunk::kRows * stride + sizeof(TailChunk);
  return chunks_.size() * chunk + words_.size() * sizeof(std::uint64_t);
}

absl::Status Tail::Append(std::uint64_t label, std::span<const std::byte> row, std::size_t stride,
                          AttributeCells cells) {
  const std::uint64_t at = At(end_);
  if (at / TailChunk::kRows == chunks_.size()) {
    auto chunk = std::make_shared<TailChunk>();
    HMANN_ASSIGN_OR_RETURN(chunk->rows, Buffer::Allocate(TailChunk::kRows * stride));
    chunks_.push_back(std::move(chunk));
  }
  TailChunk& chunk = *chunks_[at / TailChunk::kRows];
  const std::uint64_t place = end_ % TailChunk::kRows;
  std::memcpy(chunk.rows.data() + place * stride, row.data(), row.size());
  chunk.labels[place] = label;
  chunk.cells[place] = std::move(cells);
  if (at / 64 == words_.size()) words_.push_back(0);
  words_[at / 64] |= std::uint64_t{1} << (at % 64);
  ++end_;
  ++live_;
  return absl::OkStatus();
}

void Tail::DropBefore(std::uint64_t row) {
  if (row <= first_) return;
  const std::uint64_t old_base = base();
  first_ = row;
  end_ = std::max(end_, row);
  const std::uint64_t chunks = (base() - old_base) / TailChunk::kRows;
  chunks_.erase(chunks_.begin(),
                chunks_.begin() +
                    static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(chunks, chunks_.size())));
  const std::uint64_t words = std::min<std::uint64_t>((base() - old_base) / 64, words_.size());
  words_.erase(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(words));
  const std::uint64_t whole = std::min<std::uint64_t>(At(row) / 64, words_.size());
  std::fill_n(words_.begin(), whole, 0);
  if (whole < words_.size()) words_[whole] &= ~std::uint64_t{0} << (row % 64);
  live_ = 0;
  for (const std::uint64_t word : words_) live_ += static_cast<std::uint64_t>(std::popcount(word));
}

void Moment::Part::Settle() {
  if (killed.empty()) return;
  const IndexInfo& info = segment->index()->info();
  const Matches before = live == nullptr ? Matches::All(info.n, info.content_hash) : Matches(*live);
  live = std::make_shared<const Matches>(before.Without(killed));
  killed.clear();
}

void Moment::Settle() {
  sealed.Settle();
  for (Part& graph : graphs) graph.Settle();
}

std::uint64_t Moment::delta_rows() const {
  std::uint64_t rows = tail.live();
  for (const Part& graph : graphs) rows += graph.rows();
  return rows;
}

std::uint64_t Moment::delta_bytes() const {
  std::uint64_t bytes = tail.bytes(shape->stride);
  for (const Part& graph : graphs)
    bytes += graph.segment->bytes() + (graph.live == nullptr ? 0 : graph.live->bytes());
  return bytes;
}

absl::Status Moment::CheckLive(std::uint64_t more) const {
  return live() + more <= kMostLive
             ? absl::OkStatus()
             : ResourceExhausted("a collection holds at most ", kMostLive, " vectors");
}

const Moment::Part* Moment::GraphOf(std::uint64_t row) const {
  for (const Part& graph : graphs)
    if (row >= graph.segment->first() && row < graph.segment->end()) return &graph;
  return nullptr;
}

std::uint64_t SequenceOf(const Moment& moment) { return moment.sequence; }
std::uint64_t LiveRows(const Moment& moment) { return moment.live(); }
std::shared_ptr<const Index> SealedOf(const Moment& moment) {
  return moment.sealed.segment == nullptr ? nullptr : moment.sealed.segment->index();
}
ResolvedParams ParamsOf(const PreparedSearch& prepared) {
  ResolvedParams params = prepared.sealed.has_value() ? prepared.sealed->params : ResolvedParams();
  params.k = prepared.k;
  return params;
}

std::uint64_t MatchingRows(const PreparedSearch& prepared) { return prepared.matching; }

namespace {

/// The rows of a part that are alive and match. nullptr: all of them.
absl::StatusOr<std::shared_ptr<const Matches>> Accepted(const Moment& moment,
                                                        const Moment::Part& part,
                                                        const Filter* filter) {
  if (filter == nullptr) return part.live;
  HMANN_ASSIGN_OR_RETURN(std::shared_ptr<const Matches> matches,
                         part.segment->Filtered(*filter, *moment.fields));
  if (part.live == nullptr) return matches;
  return std::make_shared<const Matches>(matches->And(*part.live));
}

absl::StatusOr<PreparedSearch::Part> PreparePart(const Moment& moment, const Moment::Part& part,
                                                 SearchParams params, const Filter* filter) {
  PreparedSearch::Part prepared{part.segment, nullptr, {}};
  HMANN_ASSIGN_OR_RETURN(prepared.matches, Accepted(moment, part, filter));
  params.k = static_cast<std::uint32_t>(std::min<std::uint64_t>(params.k, part.segment->n()));
  params.matches = prepared.matches.get();
  HMANN_ASSIGN_OR_RETURN(const ResolvedSearch resolved, part.segment->index()->Resolve(params));
  prepared.params = resolved.params;
  return prepared;
}

/// The parameters for a graph over the delta, which is in memory and has no codes.
SearchParams OfDelta(const SearchParams& params) {
  SearchParams of_delta;
  of_delta.k = params.k;
  of_delta.recall = params.recall;
  // A search ends at the distance of the kth that is found already.
  of_delta.max_distance = params.max_distance.value_or(std::numeric_limits<float>::max());
  const SearchMode mode = params.mode.value_or(SearchMode::kGraph);
  if (mode == SearchMode::kScan) of_delta.mode = mode;
  if (mode == SearchMode::kGraph) {
    of_delta.epsilon = params.epsilon;
    of_delta.ef_l0 = params.ef_l0;
    of_delta.ef_l1 = params.ef_l1;
  }
  return of_delta;
}

absl::Status MatchTail(const Moment& moment, const Filter& filter, PreparedSearch* prepared) {
  HMANN_ASSIGN_OR_RETURN(const BoundNode on_rows, BindFilter(filter, *moment.fields));
  std::vector<std::uint64_t>& rows = prepared->tail.emplace();
  moment.tail.ForLive([&](std::uint64_t row) {
    if (on_rows.Holds(moment.tail.Cells(row))) rows.push_back(row);
  });
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PreparedSearch>> Prepare(std::shared_ptr<const Moment> moment,
                                                              const SearchParams& params,
                                                              const Filter* filter) {
  if (params.matches != nullptr)
    return InvalidArgument("matches: a collection takes a filter instead");
  if (params.latency.has_value())
    return InvalidArgument("latency: a collection takes the target recall instead");
  auto prepared = std::make_shared<PreparedSearch>();
  prepared->k = params.k;
  prepared->max_distance = params.max_distance;
  prepared->budget = params.budget;
  HMANN_RETURN_IF_ERROR(params.Validate(kMaxEf));
  if (filter != nullptr) HMANN_RETURN_IF_ERROR(MatchTail(*moment, *filter, prepared.get()));
  prepared->matching = prepared->tail.has_value() ? prepared->tail->size() : moment->tail.live();
  const auto add = [&](const PreparedSearch::Part& part) {
    const std::uint64_t rows = part.matches == nullptr ? part.segment->n() : part.matches->size();
    prepared->matching += rows;
    return rows > 0;
  };
  if (moment->sealed.segment != nullptr) {
    HMANN_ASSIGN_OR_RETURN(PreparedSearch::Part part,
                           PreparePart(*moment, moment->sealed, params, filter));
    if (add(part)) prepared->sealed = std::move(part);
  }
  for (const Moment::Part& graph : moment->graphs) {
    HMANN_ASSIGN_OR_RETURN(PreparedSearch::Part part,
                           PreparePart(*moment, graph, OfDelta(params), filter));
    if (add(part)) prepared->graphs.push_back(std::move(part));
  }
  prepared->moment = std::move(moment);
  return std::shared_ptr<const PreparedSearch>(std::move(prepared));
}

}  // namespace hmann
