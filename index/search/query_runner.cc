#include "index/search/query_runner.h"

#include <algorithm>

#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Counts the work of the upper layers into a walk's counters.
template <typename WalkCounterType>
struct UpperCounters {
  WalkCounterType& counters;
  bool l1;
  void Distances(std::size_t n) {
    if constexpr (WalkCounterType::kCounts) counters.total.distances_fast += n;
  }
  void Expanded() {
    if constexpr (WalkCounterType::kCounts) counters.total.expanded_l1 += l1 ? 1 : 0;
  }
};

void Clear(NullWalkCounters&) {}
void Clear(WalkCounters& counters) {
  counters.total = Counters();
  counters.read.clear();
}

void Add(const NullWalkCounters&, NullWalkCounters&) {}
void Add(const WalkCounters& part, WalkCounters& counters) {
  counters.total += part.total;
  counters.read.insert(counters.read.end(), part.read.begin(), part.read.end());
}

}  // namespace

template <typename WalkCounterType>
absl::Status QueryRunner::SearchUpperLayers(const SearchOptions& options, StopCheck& stop, State<WalkCounterType>& state) {
  constexpr std::uint64_t kStepsBetweenChecks = 64;
  const std::byte* query = query_.data();
  UpperCounters<WalkCounterType> above{state.counters, false};
  NodeId entry = 0;
  for (std::uint32_t layer = index_.layers.top(); layer >= 2; --layer) {
    entry = GreedySearch(index_.upper[layer - 1], query, entry, scratch_, above);
  }
  UpperCounters<WalkCounterType> in_l1{state.counters, true};
  // A pool keeps what L1 scored beyond its efSearchL1 candidates: it costs nothing and spares L0 the distances.
  const bool pool = options.walk == Walk::kPool && options.ef_l0 > 0;
  const std::uint32_t width = pool ? std::max(options.ef_l1, static_cast<std::uint32_t>(options.ef_l0)) : options.ef_l1;
  OpenBeam(index_.upper[0], query, entry, width, scratch_, in_l1);
  if (stop.idle()) {
    SearchLayer(index_.upper[0], query, options.ef_l1, scratch_, in_l1);
    return absl::OkStatus();
  }
  while (!SearchLayer(index_.upper[0], query, options.ef_l1, scratch_, in_l1, kStepsBetweenChecks)) HMANN_RETURN_IF_ERROR(stop.Now());
  return absl::OkStatus();
}

template <typename WalkCounterType>
absl::Status QueryRunner::RunFlights(std::size_t first, std::size_t last, const SearchOptions& options, StopCheck& stop,
                                     Flight<WalkCounterType>& flight) const {
  Clear(flight.counters);
  flight.results.Reset(options.k);
  while (first < last) {
    const std::size_t beams = std::min(kWalksInFlight, last - first);
    for (std::size_t i = 0; i < beams; ++i, ++first) {
      const auto place = static_cast<std::uint32_t>(first);
      const NodeId candidate = scratch_.beam.id(place);
      LayerScratch& scratch = flight.scratch[i];
      scratch.beam.Reset(static_cast<std::uint32_t>(options.ef_l0));
      scratch.visited.Clear();
      scratch.visited.Insert(candidate);
      scratch.beam.Insert(scratch_.beam.key(place), candidate);
      flight.results.InsertUnique(scratch_.beam.key(place), candidate);
      flight.walks[i].Open(index_, query_.data(), scratch, flight.counters, &flight.results);
    }
    HMANN_RETURN_IF_ERROR(DriveInterleaved(std::span(flight.walks, beams), index_, flight.records, stop));
  }
  return absl::OkStatus();
}

template <typename WalkCounterType>
absl::Status QueryRunner::RunBeams(const SearchOptions& options, const SearchLimits& limits, State<WalkCounterType>& state) {
  const std::uint32_t beams = std::min(options.ef_l1, scratch_.beam.size());
  const std::uint32_t threads = std::min(options.query_threads, beams);
  if (state.flights.size() < threads) state.flights.resize(threads);
  if (threads > 1 && (threads_ == nullptr || threads_->threads() < static_cast<int>(threads))) {
    threads_ = std::make_unique<ThreadPool>(static_cast<int>(threads));
  }
  const auto run_part = [&](std::size_t part) {
    StopCheck stop(limits);
    Flight<WalkCounterType>& flight = state.flights[part];
    flight.status = RunFlights(part * beams / threads, (part + 1) * beams / threads, options, stop, flight);
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
    Add(flight.counters, state.counters);
  }
  return absl::OkStatus();
}

template <typename WalkCounterType>
absl::Status QueryRunner::Run(const SearchOptions& options, const SearchLimits& limits, State<WalkCounterType>& state) {
  StopCheck stop(limits);
  HMANN_RETURN_IF_ERROR(stop.Now());
  Clear(state.counters);
  if (index_.n1() > 0) {
    HMANN_RETURN_IF_ERROR(SearchUpperLayers(options, stop, state));
  } else {
    scratch_.beam.Reset(static_cast<std::uint32_t>(options.ef_l0));
  }
  if (options.ef_l0 > 0 && options.walk == Walk::kBeams && index_.n1() > 0) {
    HMANN_RETURN_IF_ERROR(RunBeams(options, limits, state));
  } else if (options.ef_l0 > 0 && index_.n1() > 0) {
    scratch_.beam.Reopen(static_cast<std::uint32_t>(options.ef_l0));
    state.pool.Open(index_, query_.data(), scratch_, state.counters);
    HMANN_RETURN_IF_ERROR(DriveDirect(state.pool, index_, records_, stop));
  }
  if (scratch_.beam.size() < options.k) {
    // What was found is closed in on itself (or there is no upper layer): every node can be reached from node 0.
    // A beam that is not full has lost nothing: what it holds is all that was met.
    scratch_.visited.Clear();
    for (std::uint32_t i = 0; i < scratch_.beam.size(); ++i) scratch_.visited.Insert(scratch_.beam.id(i));
    scratch_.beam.Reopen(std::max(options.k, scratch_.beam.width()));
    state.pool.OpenAt(index_, query_.data(), 0, scratch_, state.counters);
    HMANN_RETURN_IF_ERROR(DriveDirect(state.pool, index_, records_, stop));
  }
  return absl::OkStatus();
}

absl::Status QueryRunner::Search(const void* query, const SearchOptions& options, std::vector<Neighbour>* out, Counters* counters,
                                 const SearchLimits& limits) {
  HMANN_RETURN_IF_ERROR(options.Validate(index_.layers.n()));
  HMANN_RETURN_IF_ERROR(EncodeRow(index_.kernels, query, query_.data()));
  const SearchOptions resolved = options.Resolved(index_.layers.n(), index_.n1());
  if (counters == nullptr) {
    HMANN_RETURN_IF_ERROR(Run(resolved, limits, plain_));
  } else {
    HMANN_RETURN_IF_ERROR(Run(resolved, limits, counting_));
    read_.Clear();
    for (NodeId node : counting_.counters.read) {
      if (read_.Insert(node)) counting_.counters.total.slow_bytes += index_.records.RecordBytes(node);
    }
    counting_.counters.total.slow_reads = read_.size();
    *counters += counting_.counters.total;
  }
  Answer(resolved.k, out);
  return absl::OkStatus();
}

void QueryRunner::Answer(std::uint32_t k, std::vector<Neighbour>* out) const {
  out->resize(std::min(k, scratch_.beam.size()));
  for (std::uint32_t i = 0; i < out->size(); ++i) {
    (*out)[i] = {index_.Label(scratch_.beam.id(i)), index_.kernels.ToDistance(scratch_.beam.key(i))};
  }
}

}  // namespace hmann
