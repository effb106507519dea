#include "index/collection/moment.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "index/attributes/bound_filter.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/index_impl.h"

namespace hmann {

void Moment::Part::Settle() {
  if (killed.empty()) return;
  const IndexInfo& info = segment->index()->info();
  const Matches before = live == nullptr ? Matches::All(info.n, info.content_hash) : Matches(*live);
  live = std::make_shared<const Matches>(before.Without(killed));
  killed.clear();
}

std::uint64_t Moment::delta_bytes() const {
  std::uint64_t bytes = tail.bytes() + facts->rows.bytes();
  if (fields != nullptr)
    for (const AttributeField& field : *fields) bytes += sizeof(field) + field.name.capacity();
  return bytes;
}

std::uint64_t Moment::wasted_bytes() const {
  const std::uint64_t rows = tail.end() - tail.first(), dead = rows - tail.live();
  return rows == 0 ? 0 : std::max(tail.bytes(), unmerged_bytes) / rows * dead;
}

std::uint64_t Moment::most_wasted() const {
  // Guesses: a merge of little that lives takes about a second, and less is no burden.
  constexpr std::uint64_t kLeast = 128 << 20, kTimes = 3;
  return std::max(kLeast, kTimes * live() * (shape->stride + TailChunk::kRowBytes));
}

std::uint64_t Moment::loose_rows() const {
  std::uint64_t rows = tail.end() - tail.first();
  for (const auto& graph : graphs) rows -= std::min(graph->end(), tail.end()) - graph->first();
  return rows;
}

absl::Status Moment::CheckLive(std::uint64_t more) const {
  return live() + more <= kMostLive
             ? absl::OkStatus()
             : ResourceExhausted("a collection holds at most ", kMostLive, " vectors");
}

bool RowsByLabel::FindAll(std::span<const std::uint64_t> labels, std::uint64_t version,
                          std::vector<std::optional<std::uint64_t>>* rows) const {
  rows->assign(labels.size(), std::nullopt);
  const std::scoped_lock lock(mutex_);
  if (version != version_) return false;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (const auto found = rows_.find(labels[i]); found != rows_.end()) (*rows)[i] = found->second;
  return true;
}

std::uint64_t RowsByLabel::Change(
    const absl::flat_hash_map<std::uint64_t, std::optional<std::uint64_t>>& changed) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [label, row] : changed) {
    if (row.has_value()) {
      rows_[label] = *row;
    } else {
      rows_.erase(label);
    }
  }
  return ++version_;
}

std::uint64_t RowsByLabel::EraseBelow(std::uint64_t row) {
  const std::scoped_lock lock(mutex_);
  absl::erase_if(rows_, [&](const auto& entry) { return entry.second < row; });
  rows_.rehash(0);  // it gives memory back
  return ++version_;
}

std::uint64_t RowsByLabel::bytes() const {
  const std::scoped_lock lock(mutex_);
  return std::max(rows_.size() * kEntryBytes, rows_.capacity() * (2 * sizeof(std::uint64_t) + 1));
}

absl::StatusOr<std::vector<std::uint64_t>> LastFilter::Matching(
    const Filter& filter, const Tail& tail, const std::vector<AttributeField>& fields) {
  HMANN_ASSIGN_OR_RETURN(const BoundNode on_rows, BindFilter(filter, fields));
  const std::scoped_lock lock(mutex_);
  if (text_ != filter.text() || base_ > tail.base() || end_ < tail.first()) {
    text_ = filter.text();
    base_ = tail.base();
    end_ = tail.first();
    words_.clear();
  }
  words_.resize(std::max(words_.size(), (tail.end() - base_ + 63) / 64));
  for (; end_ < tail.end(); ++end_) {
    if (on_rows.Holds(tail.Cells(end_)))
      words_[(end_ - base_) / 64] |= std::uint64_t{1} << (end_ % 64);
  }
  const auto begin = words_.begin() + static_cast<std::ptrdiff_t>((tail.base() - base_) / 64);
  std::vector<std::uint64_t> matching(begin,
                                      begin + static_cast<std::ptrdiff_t>(tail.words().size()));
  return matching;
}

std::uint64_t SequenceOf(const Moment& moment) { return moment.sequence; }
std::uint64_t LiveRows(const Moment& moment) { return moment.live(); }
std::shared_ptr<const Index> SealedOf(const Moment& moment) {
  return moment.sealed.segment == nullptr ? nullptr : moment.sealed.segment->index();
}
ResolvedSearch SearchOf(const PreparedSearch& prepared) {
  ResolvedSearch search;
  if (prepared.sealed.has_value()) {
    search = prepared.sealed->search;
    if (search.tuned.has_value()) search.calibrated_recall = search.tuned->recall;
    search.tuned.reset();  // its time is that of the sealed index
  } else if (!prepared.delta_params.has_value()) {
    search.params.mode = SearchMode::kScan;
    search.calibrated_recall = 1;
  }
  search.params.k = prepared.k;
  return search;
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
  HMANN_ASSIGN_OR_RETURN(prepared.search, part.segment->index()->Resolve(params));
  return prepared;
}

/// The parameters for a graph over the delta: those of graph mode, with the calibration
/// of the sealed index. A small graph needs no more effort than a large one. `matching`:
/// of its rows.
absl::StatusOr<ResolvedParams> OfDelta(const Moment& moment, const SearchParams& params,
                                       std::uint64_t matching) {
  SearchParams of_delta;
  of_delta.k = params.k;
  of_delta.recall = params.recall;
  if (params.mode == SearchMode::kGraph) of_delta.mode = params.mode;
  if (params.mode.value_or(SearchMode::kGraph) == SearchMode::kGraph) {
    of_delta.epsilon = params.epsilon;
    of_delta.ef_l0 = params.ef_l0;
  }
  // A search ends at the distance of the kth that is found already.
  of_delta.max_distance = params.max_distance.value_or(std::numeric_limits<float>::max());
  SearchContext context = {.n = Moment::kMostLive};
  context.has_ratios = moment.shape->kernels.metric != Metric::kInnerProduct;
  if (const std::uint64_t rows = moment.tail.end() - moment.tail.first(); matching < rows) {
    context.n = std::max<std::uint64_t>(rows, params.k);
    context.matching = matching;
    context.row_bytes = moment.shape->kernels.row_bytes;
  }
  IndexImpl::Table tuned;
  if (moment.sealed.segment != nullptr) {
    tuned = ImplOf(*moment.sealed.segment->index()).tuned();
    if (tuned->ok() && (*tuned)->calibration.has_value())
      context.calibration = &*(*tuned)->calibration;
  }
  // Without a calibration, twice the effort finds more than the default does: a guess.
  if (context.calibration == nullptr && params.recall.value_or(0) > kDefaultRecall)
    context.ef_scale = 2;
  return of_delta.Resolve(context);
}

/// Sets what is searched in the delta, and how widely.
absl::Status PrepareDelta(const Moment& moment, const SearchParams& params, const Filter* filter,
                          PreparedSearch* prepared) {
  const Tail& tail = moment.tail;
  std::uint64_t& matching = prepared->delta_matching;
  matching = tail.live();
  if (filter != nullptr) {
    HMANN_ASSIGN_OR_RETURN(prepared->delta,
                           moment.facts->last_filter.Matching(*filter, tail, *moment.fields));
    matching = 0;
    for (std::size_t i = 0; i < prepared->delta->size(); ++i) {
      (*prepared->delta)[i] &= tail.words()[i];
      matching += static_cast<std::uint64_t>(std::popcount((*prepared->delta)[i]));
    }
  }
  if (matching == 0 || params.mode == SearchMode::kScan) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(const ResolvedParams of_graphs, OfDelta(moment, params, matching));
  // At a width of 200, a search of 100,000 rows took 20 to 23 us, a scan 8 ns a row
  // (doc/notes/collections.md): 13 to 14 rows for each place. Where that is as much, a
  // scan finds all.
  constexpr std::uint64_t kScannedPerPlace = 16, kUsualWidth = 200;
  const std::uint64_t width = of_graphs.epsilon.has_value()
                                  ? std::min<std::uint64_t>(of_graphs.ef_l0, kUsualWidth)
                                  : of_graphs.ef_l0;
  if (of_graphs.mode != SearchMode::kScan && width * kScannedPerPlace < matching)
    prepared->delta_params = of_graphs;
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
  // A collection may grow: more neighbors than it has now are no error.
  HMANN_RETURN_IF_ERROR(params.Validate(params.k <= kMaxEf ? kMaxEf : moment->live()));
  HMANN_RETURN_IF_ERROR(PrepareDelta(*moment, params, filter, prepared.get()));
  prepared->matching = prepared->delta_matching;
  if (moment->sealed.segment != nullptr) {
    HMANN_ASSIGN_OR_RETURN(PreparedSearch::Part part,
                           PreparePart(*moment, moment->sealed, params, filter));
    const std::uint64_t rows = part.matches == nullptr ? part.segment->n() : part.matches->size();
    prepared->matching += rows;
    if (rows > 0) prepared->sealed = std::move(part);
  }
  prepared->moment = std::move(moment);
  return std::shared_ptr<const PreparedSearch>(std::move(prepared));
}

absl::Status ForRows(
    const Moment& moment,
    const std::function<absl::Status(std::uint64_t, std::span<const std::byte>)>& visit) {
  const std::size_t bytes = moment.shape->vector_bytes;
  absl::Status status;
  if (const Segment* const sealed = moment.sealed.segment.get(); sealed != nullptr) {
    status = sealed->index()->ForRows([&](auto ids, auto labels, auto rows) {
      absl::Status seen;
      for (std::size_t i = 0; i < ids.size() && seen.ok(); ++i)
        if (moment.sealed.Has(ids[i])) seen = visit(labels[i], rows.subspan(i * bytes, bytes));
      return seen;
    });
  }
  moment.tail.ForLive([&](std::uint64_t row) {
    if (status.ok()) status = visit(moment.tail.Label(row), {moment.tail.Row(row), bytes});
  });
  return status;
}

}  // namespace hmann
