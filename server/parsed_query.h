#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hmann/hmann.h"
#include "hmann/v1/search.pb.h"
#include "proto/wire.h"
#include "server/convert.h"
#include "server/metrics.h"
#include "server/options.h"
#include "server/registry.h"
#include "server/search_pool.h"

namespace hmann {

/// A request that was read and checked, before it waits for a thread.
struct ParsedQuery {
  ServedIndex* index = nullptr;
  QueryVectors vectors;  ///< may view the request's bytes
  Dials dials;
  std::uint32_t in_flight = 1;  ///< of ResolvedSearch
  std::optional<v1::Prediction> predicted;
  std::chrono::nanoseconds budget{0};
  bool counters = false;
  Metrics* metrics = nullptr;
  SearchJob::Clock::time_point began;

  /// Small enough for the thread that read it from the socket, which must not wait.
  bool IsNarrow() const;
  /// Queries that a thread has under way at once.
  std::size_t Together() const;
  /// That the request and its reply take, about.
  std::uint64_t Bytes() const;
  /// Searches for query(begin) to query(end - 1), all under way at once. `keep` gets the
  /// number of each, and its answer or why there is none. The budget ends before the
  /// call's deadline: the answer is still to be sent. Errors: what prevented all, and the
  /// first that `keep` returns.
  absl::Status Search(
      std::size_t begin, std::size_t end, const std::function<const void*(std::size_t)>& query,
      Searcher& searcher, const SearchLimits& limits,
      absl::FunctionRef<absl::Status(std::size_t, const absl::Status&, const Answer&)> keep,
      Counters* counters) const;

 private:
  SearchLimits WithBudget(const SearchLimits& limits) const;
};

/// All but the vectors. Errors: of Registry::Find, ServedIndex::Get and ReadOptions.
absl::StatusOr<ParsedQuery> ParseOptions(const Registry& registry, const RequestLimits& limits,
                                         const std::string& name, const v1::SearchOptions& options);

/// Adds the vectors, at most `most` of them. Errors: of ReadVectors and CheckReplySize;
/// of an index that serves no more.
absl::Status ParseVectors(const v1::Vectors& vectors, std::uint64_t most, absl::string_view field,
                          const RequestLimits& limits, ParsedQuery* parsed);

/// Of one query: ids and distances, and its end.
void ToWire(const Answer& answer, v1::SearchResponse* response);
/// What really ran, and what is to be expected of it.
template <typename Response>
void TellDials(const ParsedQuery& parsed, Response* response) {
  ToWire(parsed.dials, response->mutable_dials());
  if (parsed.predicted.has_value()) *response->mutable_predicted() = *parsed.predicted;
}

}  // namespace hmann
