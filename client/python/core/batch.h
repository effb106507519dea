/// One call's queries, answered by some threads while signals are looked for.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "hmann/hmann.h"

namespace hmann::python {

/// Queries that share their dials, and room for dials.k answers of each.
struct Batch {
  const std::byte* rows = nullptr;
  std::ptrdiff_t stride = 0;  ///< bytes from query to query
  std::uint64_t n = 0;
  bool single = false;  ///< one query that was not given as a batch: errors do not number it
  Dials dials;
  std::chrono::nanoseconds budget{0};
  std::uint32_t in_flight = 1;
  bool on_device = false;  ///< which may stall
  bool counts = false;
  std::int64_t* labels = nullptr;
  float* distances = nullptr;
};

struct BatchOutcome {
  absl::Status status;  ///< of the first query that has an error, its number in front
  Counters counters;
  std::uint64_t cut_short = 0;
};

/// Answers all of them, a thread for each searcher, without the GIL, which the caller
/// holds. Raises what a signal handler raises (KeyboardInterrupt), soon: after a query at
/// the latest, and within a long one.
BatchOutcome RunBatch(const Batch& batch, std::vector<std::unique_ptr<Searcher>>& searchers);

}  // namespace hmann::python
