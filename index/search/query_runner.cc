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
absl::Status QueryRunner::RunBeams(const SearchOptions& options, const SearchLimits& limits, State<WalkCounterType>& state) {
  const std::uint32_t beams = std::min(options.ef_l1, scratch_.beam.size());
  if (state.slots.size() < beams) {
    state.slots.resize(beams);
    state.beams.resize(beams);
  }
  const std::uint32_t threads = std::min(options.query_threads, beams);
  if (records_.size() < threads) records_.resize(threads);
  if (results_.size() < threads) results_.resize(threads);
  if (threads > 1 && (threads_ == nullptr || threads_->threads() < static_cast<int>(threads))) {
    threads_ = std::make_unique<ThreadPool>(static_cast<int>(threads));
  }
  std::vector<absl::Status>& status = status_;
  status.assign(threads, absl::OkStatus());
  const auto run_part = [&](std::size_t part) {
    const std::size_t first = part * beams / threads, last = (part + 1) * beams / threads;
    results_[part].Reset(options.k);
    for (std::size_t i = first; i < last; ++i) {
      BeamSlot<WalkCounterType>& slot = state.slots[i];
      const auto place = static_cast<std::uint32_t>(i);
      const NodeId candidate = scratch_.beam.id(place);
      Clear(slot.counters);
      slot.scratch.beam.Reset(static_cast<std::uint32_t>(options.ef_l0));
      slot.scratch.visited.Clear();
      slot.scratch.visited.Insert(candidate);
      slot.scratch.beam.Insert(scratch_.beam.key(place), candidate);
      results_[part].InsertUnique(scratch_.beam.key(place), candidate);
      state.beams[i].Open(index_, query_.data(), slot.scratch, slot.counters, &results_[part]);
    }
    StopCheck stop(limits);
    status[part] = DriveInterleaved(std::span(state.beams).subspan(first, last - first), index_, records_[part], stop);
  };
  if (threads == 1) {
    run_part(0);
  } else {
    threads_->ParallelFor(threads, 1, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t part = begin; part < end; ++part) run_part(part);
    });
  }
  for (const absl::Status& part : status) HMANN_RETURN_IF_ERROR(part);
  scratch_.beam.Reset(options.k);
  scratch_.visited.Clear();
  for (std::uint32_t part = 0; part < threads; ++part) {
    for (std::uint32_t i = 0; i < results_[part].size(); ++i) {
      if (scratch_.beam.InsertUnique(results_[part].key(i), results_[part].id(i))) scratch_.visited.Insert(results_[part].id(i));
    }
  }
  if constexpr (WalkCounterType::kCounts) {
    for (std::uint32_t i = 0; i < beams; ++i) {
      state.counters.total += state.slots[i].counters.total;
      state.counters.read.insert(state.counters.read.end(), state.slots[i].counters.read.begin(), state.slots[i].counters.read.end());
    }
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
    scratch_.visited.Clear();
  }
  if (options.ef_l0 > 0 && options.walk == Walk::kBeams && index_.n1() > 0) {
    HMANN_RETURN_IF_ERROR(RunBeams(options, limits, state));
  } else if (options.ef_l0 > 0 && index_.n1() > 0) {
    scratch_.beam.Reopen(static_cast<std::uint32_t>(options.ef_l0));
    state.pool.Open(index_, query_.data(), scratch_, state.counters);
    HMANN_RETURN_IF_ERROR(DriveDirect(state.pool, index_, records_[0], stop));
  }
  if (scratch_.beam.size() < options.k) {
    // What was found is closed in on itself (or there is no upper layer): every node can be reached from node 0.
    scratch_.beam.Reopen(std::max(options.k, scratch_.beam.width()));
    state.pool.OpenAt(index_, query_.data(), 0, scratch_, state.counters);
    HMANN_RETURN_IF_ERROR(DriveDirect(state.pool, index_, records_[0], stop));
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
    for (NodeId node : counting_.counters.read) read_.Insert(node);
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
