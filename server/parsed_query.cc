#include "server/parsed_query.h"

#include <algorithm>

#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Candidates that a search may keep to be run in gRPC's thread: it ends within a few
/// hundred microseconds.
constexpr std::uint64_t kNarrow = 512;

}  // namespace

bool ParsedQuery::IsNarrow() const {
  if (index->on_block_tier()) return false;
  const std::uint64_t beams = dials.walk == WalkKind::kMultiStart ? dials.ef_l1 : 1;
  return vectors.count == 1 && dials.query_threads == 1 && dials.ef_l1 <= kNarrow &&
         dials.ef_l0 * beams <= kNarrow;
}

std::size_t ParsedQuery::Together() const {
  // In memory a query of a budget waits for no other.
  return budget.count() > 0 && !index->on_block_tier() ? 1 : in_flight;
}

std::uint64_t ParsedQuery::Bytes() const {
  return vectors.bytes.size() + vectors.converted.size() + ReplyBytes(vectors.count, dials.k);
}

SearchLimits ParsedQuery::WithBudget(const SearchLimits& limits) const {
  constexpr std::chrono::nanoseconds kLeastMargin = std::chrono::milliseconds(1), kAtOnce{1};
  SearchLimits bounded = limits;
  if (budget.count() == 0) return bounded;
  const std::chrono::nanoseconds left = limits.deadline - SearchJob::Clock::now();
  bounded.budget = std::max(kAtOnce, std::min(budget, left - std::max(kLeastMargin, left / 20)));
  return bounded;
}

absl::Status ParsedQuery::Search(
    std::size_t begin, std::size_t end, const std::function<const void*(std::size_t)>& query,
    Searcher& searcher, const SearchLimits& limits,
    absl::FunctionRef<absl::Status(std::size_t, const absl::Status&, const Answer&)> keep,
    Counters* counters) const {
  absl::Status first_error;
  const auto done = [&](std::size_t i, const absl::Status& status, Answer& answer) {
    first_error.Update(keep(begin + i, status, answer));
  };
  const absl::Status status = searcher.SearchMany(
      end - begin, [&](std::size_t i) { return query(begin + i); }, dials,
      static_cast<std::uint32_t>(end - begin), std::ref(done), counters, WithBudget(limits));
  metrics->Worked(*index, *counters);
  return status.ok() ? first_error : status;
}

absl::StatusOr<ParsedQuery> ParseOptions(const Registry& registry, const RequestLimits& limits,
                                         const std::string& name,
                                         const v1::SearchOptions& options) {
  ParsedQuery parsed;
  HMANN_ASSIGN_OR_RETURN(parsed.index, registry.Find(name));
  HMANN_ASSIGN_OR_RETURN(const Index* index, parsed.index->Get());
  absl::StatusOr<RequestOptions> request = ReadOptions(options, *index, limits);
  if (!request.ok()) return parsed.index->ForClients(request.status());
  parsed.dials = request->search.dials;
  parsed.in_flight = request->search.in_flight;
  parsed.predicted = PredictionOf(request->search);
  parsed.budget = request->budget;
  parsed.counters = options.counters();
  return parsed;
}

absl::Status ParseVectors(const v1::Vectors& vectors, std::uint64_t most, absl::string_view field,
                          const RequestLimits& limits, ParsedQuery* parsed) {
  HMANN_ASSIGN_OR_RETURN(const Index* index, parsed->index->Get());
  HMANN_ASSIGN_OR_RETURN(parsed->vectors, ReadVectors(vectors, index->info(), most, field));
  return CheckReplySize(parsed->vectors.count, parsed->dials.k, limits);
}

void ToWire(const Answer& answer, v1::SearchResponse* response) {
  response->mutable_ids()->Reserve(static_cast<int>(answer.nearest.size()));
  response->mutable_distances()->Reserve(static_cast<int>(answer.nearest.size()));
  for (const Neighbour& neighbour : answer.nearest) {
    response->mutable_ids()->AddAlreadyReserved(neighbour.label);
    response->mutable_distances()->AddAlreadyReserved(neighbour.distance);
  }
  response->set_cut_short(answer.cut_short);
}

}  // namespace hmann
