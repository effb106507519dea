/// Answers the queries of one call with several threads while polling for signals.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "hmann/collection.h"
#include "hmann/hmann.h"

namespace hmann::python {

/// Queries that share their parameters, with space for params.k answers each.
struct Batch {
  const std::byte* rows = nullptr;
  std::ptrdiff_t stride = 0;  ///< bytes from one query to the next
  std::uint64_t n = 0;
  bool single = false;  ///< one query, not given as a batch: errors do not number it
  ResolvedParams params;
  const PreparedSearch* prepared = nullptr;  ///< in a collection
  std::chrono::nanoseconds budget{0};
  std::uint32_t in_flight = 1;
  bool on_device = false;  ///< a device may stall
  bool counts = false;
  std::int64_t* labels = nullptr;
  float* distances = nullptr;
};

struct BatchOutcome {
  absl::Status status;  ///< error of the first failing query, prefixed with its number
  Counters counters;
  std::uint64_t cut_short = 0;
};

/// Answers all queries, with one thread per searcher and without the GIL, which the
/// caller holds. Raises what a signal handler raises (KeyboardInterrupt) soon: after a
/// query at the latest, or within a long query.
BatchOutcome RunBatch(const Batch& batch, std::vector<std::unique_ptr<Searcher>>& searchers);
/// The same in a collection; it is not interrupted within a query.
BatchOutcome RunBatch(const Batch& batch,
                      std::vector<std::unique_ptr<CollectionSearcher>>& searchers);

}  // namespace hmann::python
