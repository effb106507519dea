#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "index/dials/answer.h"
#include "index/dials/counters.h"
#include "index/dials/dials.h"
#include "index/search/placed_index.h"

namespace hmann {

/// Queries 0 .. n - 1 that share their dials: see Searcher::SearchMany. Everything is the caller's.
struct QueryBatch {
  std::size_t n = 0;
  std::uint32_t in_flight = 1;
  const std::function<const void*(std::size_t)>& query;
  const Dials& dials;
  const std::function<void(std::size_t, const absl::Status&, Answer&)>& done;
  Counters* counters = nullptr;
  const SearchLimits& limits;
};

/// Who fetches the records that queries want, and advances the queries meanwhile; budget, deadline and cancellation are its to watch. One
/// for each kind of tier. Keeps its memory between batches; one per thread.
class Driver {
 public:
  virtual ~Driver() = default;
  /// Errors: what prevents all queries; those of one query go to `done`.
  virtual absl::Status Run(const QueryBatch& batch) = 0;
};

/// For the tier on which the index lies, which must outlive the driver.
std::unique_ptr<Driver> MakeDriver(const PlacedIndex& index);

}  // namespace hmann
