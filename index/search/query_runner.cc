#include "index/search/query_runner.h"

#include <algorithm>
#include <type_traits>

#include "index/base/status_macros.h"
#include "index/search/l0_walks.h"
#include "index/search/upper_search.h"

namespace hmann {
namespace {

void Add(const NullWalkCounters&, NullWalkCounters&) {}
void Add(const WalkCounters& part, WalkCounters& counters) {
  counters.total += part.total;
  counters.read.insert(counters.read.end(), part.read.begin(), part.read.end());
}

}  // namespace

template <typename WalkCounterType, typename Access>
absl::Status QueryRunner::RunFlights(std::size_t first, std::size_t last, const SearchOptions& options, StopCheck& stop,
                                     Flight<WalkCounterType>& flight, Access& access) const {
  Clear(flight.counters);
  flight.results.Reset(options.k);
  while (first < last) {
    const std::size_t beams = std::min(kWalksInFlight, last - first);
    for (std::size_t i = 0; i < beams; ++i, ++first) {
      OpenBeamWalk(index_, query_.data(), options, scratch_.beam, static_cast<std::uint32_t>(first), flight.scratch[i], flight.results,
                   flight.counters, flight.walks[i]);
    }
    HMANN_RETURN_IF_ERROR(DriveInterleaved(std::span(flight.walks, beams), index_, access, flight.records, stop));
  }
  return absl::OkStatus();
}

template <typename WalkCounterType, typename Access>
absl::Status QueryRunner::RunBeams(const SearchOptions& options, const SearchLimits& limits, State<WalkCounterType>& state,
                                   Access& access) {
  const std::uint32_t beams = std::min(options.ef_l1, scratch_.beam.size());
  const std::uint32_t threads = std::min(options.query_threads, beams);
  if (state.flights.size() < threads) state.flights.resize(threads);
  if (threads > 1 && (threads_ == nullptr || threads_->threads() < static_cast<int>(threads))) {
    threads_ = std::make_unique<ThreadPool>(static_cast<int>(threads));
  }
  const auto run_part = [&](std::size_t part) {
    StopCheck stop(limits);
    Flight<WalkCounterType>& flight = state.flights[part];
    Access* own = &access;
    if constexpr (Access::kManaged) {
      if (part > 0) {
        if (flight.access == nullptr) flight.access = std::make_unique<ManagedAccess>(index_);
        own = flight.access.get();
        own->Begin(options.prefetch);
      }
    }
    flight.status = RunFlights(part * beams / threads, (part + 1) * beams / threads, options, stop, flight, *own);
  };
  if (threads == 1) {
    run_part(0);
  } else {
    threads_->ParallelFor(threads, 1, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t part = begin; part < end; ++part) run_part(part);
    });
  }
  for (std::uint32_t part = 0; part < threads; ++part) HMANN_RETURN_IF_ERROR(state.flights[part].status);
  scratch_.beam.Reset(options.k);
  for (std::uint32_t part = 0; part < threads; ++part) {
    const Flight<WalkCounterType>& flight = state.flights[part];
    for (std::uint32_t i = 0; i < flight.results.size(); ++i) scratch_.beam.InsertUnique(flight.results.key(i), flight.results.id(i));
    if constexpr (Access::kManaged && WalkCounterType::kCounts) {
      if (part > 0) flight.access->AddCounts(state.counters.total);
    }
    Add(flight.counters, state.counters);
  }
  return absl::OkStatus();
}

template <typename WalkCounterType, typename Access>
absl::Status QueryRunner::Run(const SearchOptions& options, const SearchLimits& limits, State<WalkCounterType>& state, Access& access) {
  StopCheck stop(limits);
  HMANN_RETURN_IF_ERROR(stop.Now());
  Clear(state.counters);
  access.Begin(options.prefetch);
  if (index_.n1() > 0) {
    HMANN_RETURN_IF_ERROR(SearchUpperLayers(index_, query_.data(), options, scratch_, state.counters, access, stop));
  } else {
    scratch_.beam.Reset(static_cast<std::uint32_t>(options.ef_l0));
  }
  if (options.ef_l0 > 0 && options.walk == Walk::kBeams && index_.n1() > 0) {
    HMANN_RETURN_IF_ERROR(RunBeams(options, limits, state, access));
  } else if (options.walk == Walk::kGated) {
    state.gated.Open(index_, query_.data(), options, scratch_, state.counters);
    HMANN_RETURN_IF_ERROR(DriveDirect(state.gated, index_, access, records_, stop));
    TakeResults(state.gated.results(), options.k, scratch_.beam);
  } else if (options.ef_l0 > 0 && index_.n1() > 0) {
    OpenPoolWalk(index_, query_.data(), options, scratch_, state.counters, state.pool);
    HMANN_RETURN_IF_ERROR(DriveDirect(state.pool, index_, access, records_, stop));
  }
  if (scratch_.beam.size() < options.k) {
    OpenRestWalk(index_, query_.data(), options, scratch_, state.counters, state.pool);
    HMANN_RETURN_IF_ERROR(DriveDirect(state.pool, index_, access, records_, stop));
  }
  return absl::OkStatus();
}

template <typename WalkCounterType>
absl::Status QueryRunner::RunWithAccess(const SearchOptions& options, const SearchLimits& limits, State<WalkCounterType>& state,
                                        std::vector<Neighbour>* out) {
  const bool as_plain = options.prefetch == Prefetch::kRound || (options.prefetch == Prefetch::kAhead && !index_.far);
  if (as_plain && index_.emulated == nullptr && index_.cache == nullptr) {
    HMANN_RETURN_IF_ERROR(Run(options, limits, state, plain_access_));
    Answer(options.k, plain_access_, out);
    return absl::OkStatus();
  }
  if (managed_access_ == nullptr) managed_access_ = std::make_unique<ManagedAccess>(index_);
  HMANN_RETURN_IF_ERROR(Run(options, limits, state, *managed_access_));
  Answer(options.k, *managed_access_, out);
  if constexpr (WalkCounterType::kCounts) managed_access_->AddCounts(state.counters.total);
  return absl::OkStatus();
}

absl::Status QueryRunner::Search(const void* query, const SearchOptions& options, std::vector<Neighbour>* out, Counters* counters,
                                 const SearchLimits& limits) {
  HMANN_RETURN_IF_ERROR(options.Validate(index_.layers.n()));
  HMANN_RETURN_IF_ERROR(EncodeRow(index_.kernels, query, query_.data()));
  const SearchOptions resolved = options.Resolved(index_.Context());
  HMANN_RETURN_IF_ERROR(resolved.CheckWalk(index_.Context()));
  if (counters == nullptr) return RunWithAccess(resolved, limits, plain_, out);
  HMANN_RETURN_IF_ERROR(RunWithAccess(resolved, limits, counting_, out));
  CountDistinct(index_, counting_.counters, read_);
  *counters += counting_.counters.total;
  return absl::OkStatus();
}

template <typename Access>
void QueryRunner::Answer(std::uint32_t k, Access& access, std::vector<Neighbour>* out) {
  const Beam& found = scratch_.beam;
  out->resize(std::min(k, found.size()));
  const std::size_t at_once = index_.records.max_links;
  records_.resize(std::max(records_.size(), at_once));
  // Labels of unpromoted nodes lie in their records, mostly on a cache line that was not read yet: asked for together.
  for (std::size_t begin = 0; begin < out->size(); begin += at_once) {
    const std::size_t end = std::min(begin + at_once, out->size());
    for (std::size_t i = begin; i < end; ++i) {
      const NodeId id = found.id(static_cast<std::uint32_t>(i));
      records_[i - begin] = id < index_.n1() ? nullptr : access.Ask(id, RecordPart::kLabel, i - begin);
    }
    for (std::size_t i = begin; i < end; ++i) {
      const auto place = static_cast<std::uint32_t>(i);
      const NodeId id = found.id(place);
      const std::byte* record = records_[i - begin];
      if (record != nullptr) access.Await({&id, 1}, RecordPart::kLabel, i - begin);
      (*out)[i] = {record == nullptr ? index_.FastLabel(id) : index_.SlowLabel(record), index_.kernels.ToDistance(found.key(place))};
    }
  }
}

}  // namespace hmann
