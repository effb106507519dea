#include "index/search/query_runner.h"

#include <algorithm>
#include <span>
#include <utility>

#include "index/base/status_macros.h"
#include "index/search/l0_walks.h"

namespace hmann {
namespace {

/// Steps of each query between looks at its budget.
constexpr std::uint32_t kTurnsBetweenCuts = 16;

void Add(const WalkCounters& part, WalkCounters& counters) {
  counters.total += part.total;
  counters.read.insert(counters.read.end(), part.read.begin(), part.read.end());
}

}  // namespace

template <typename Access>
absl::Status QueryRunner::RunPart(QueryFlight<Access>& flight, std::size_t first, std::size_t last, const Dials& dials, StopCheck& stop,
                                  BeamsPart& part, Access& access) const {
  part.counters.Clear(flight.counters().lists_reads);
  part.results.Reset(dials.k);
  while (first < last && !stop.spent()) {
    const std::size_t beams = std::min(kWalksInFlight, last - first);
    for (std::size_t i = 0; i < beams; ++i, ++first) {
      OpenBeamWalk(index_, flight.query(), dials, flight.beam(), static_cast<std::uint32_t>(first), part.scratch[i], part.results,
                   part.counters, part.walks[i]);
    }
    HMANN_RETURN_IF_ERROR(DriveInterleaved(std::span(part.walks, beams), index_, access, part.records, stop));
  }
  for (; first < last; ++first) {
    const auto place = static_cast<std::uint32_t>(first);
    part.results.InsertUnique(flight.beam().key(place), flight.beam().id(place));
  }
  return absl::OkStatus();
}

template <typename Access>
absl::Status QueryRunner::RunBeams(const Dials& dials, const SearchLimits& limits, State<Access>& state, Seat<Access>& seat) {
  Beam& found = seat.flight.beam();
  const std::uint32_t beams = std::min(dials.ef_l1, found.size());
  const std::uint32_t threads = std::min(dials.query_threads, beams);
  if (state.parts.size() < threads) state.parts.resize(threads);
  if (threads > 1 && (threads_ == nullptr || threads_->threads() < static_cast<int>(threads))) {
    threads_ = std::make_unique<ThreadPool>(static_cast<int>(threads));
  }
  const auto run_part = [&](std::size_t number) {
    StopCheck stop(limits, seat.cut);
    BeamsPart& part = state.parts[number];
    Access* own = &seat.access;
    if constexpr (Access::kManaged) {
      if (number > 0) {
        if (part.access == nullptr) part.access = std::make_unique<LayeredAccess>(index_);
        own = part.access.get();
        own->Begin(dials.prefetch);
      }
    }
    part.status = RunPart(seat.flight, number * beams / threads, (number + 1) * beams / threads, dials, stop, part, *own);
  };
  if (threads == 1) {
    run_part(0);
  } else {
    threads_->ParallelFor(threads, 1, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t number = begin; number < end; ++number) run_part(number);
    });
  }
  for (std::uint32_t number = 0; number < threads; ++number) HMANN_RETURN_IF_ERROR(state.parts[number].status);
  found.Reset(dials.k);
  for (std::uint32_t number = 0; number < threads; ++number) {
    const BeamsPart& part = state.parts[number];
    for (std::uint32_t i = 0; i < part.results.size(); ++i) found.InsertUnique(part.results.key(i), part.results.id(i));
    if constexpr (Access::kManaged) {
      if (number > 0) part.access->AddCounts(seat.flight.counters().total);
    }
    Add(part.counters, seat.flight.counters());
  }
  return absl::OkStatus();
}

template <typename Access>
void QueryRunner::CutShort(State<Access>& state, std::size_t seats) {
  const auto now = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < seats; ++i) {
    Seat<Access>& seat = *state.seats[i];
    if (!seat.flight.Done() && now >= seat.cut) seat.flight.CutShort(seat.access);
  }
}

template <typename Access, typename QueryOf, typename Done>
absl::Status QueryRunner::RunMany(State<Access>& state, std::size_t n, const QueryOf& query, const Dials& dials, std::uint32_t in_flight,
                                  const Done& done, Counters* counters, const SearchLimits& limits) {
  const std::size_t seats = std::min<std::size_t>(n, in_flight);
  while (state.seats.size() < seats) state.seats.push_back(std::make_unique<Seat<Access>>(index_));
  StopCheck stop(limits);
  std::size_t next = 0, busy = 0;
  absl::Status status = stop.Now();
  // Queries that cannot even begin are answered at once.
  const auto begin = [&](Seat<Access>& seat) {
    for (; next < n; ++next) {
      seat.cut = StopCheck::CutOf(limits);
      const absl::Status opened = seat.flight.Open(query(next), dials, counters != nullptr, seat.access);
      if (opened.ok()) {
        seat.which = next++;
        ++busy;
        return;
      }
      state.answer = Answer();
      done(next, opened, state.answer);
    }
  };
  const auto finish = [&](Seat<Access>& seat) {
    --busy;
    seat.flight.TakeAnswer(&state.answer);
    if (counters != nullptr) {
      WalkCounters& counted = seat.flight.counters();
      CountDistinct(index_, counted, read_);
      if constexpr (Access::kManaged) seat.access.AddCounts(counted.total);
      *counters += counted.total;
    }
    done(seat.which, absl::OkStatus(), state.answer);
  };
  for (std::size_t i = 0; i < seats && status.ok(); ++i) begin(*state.seats[i]);
  for (std::uint32_t turn = 1; busy > 0 && status.ok(); ++turn) {
    if (limits.budget.count() > 0 && turn % kTurnsBetweenCuts == 0) CutShort(state, seats);
    for (std::size_t i = 0; i < seats && status.ok(); ++i) {
      Seat<Access>& seat = *state.seats[i];
      if (!seat.flight.Done()) {
        if (seat.flight.AtBeams()) {
          status = RunBeams(dials, limits, state, seat);
          if (status.ok() && std::chrono::steady_clock::now() >= seat.cut) seat.flight.CutShort(seat.access);
          if (status.ok() && seat.flight.AtBeams()) seat.flight.BeamsDone(seat.access);
        } else {
          seat.flight.Step(seat.access);
          status = stop.Step();
        }
        if (!status.ok() || !seat.flight.Done()) continue;
        finish(seat);
        begin(seat);
      }
    }
  }
  if (status.ok()) return status;
  state.answer = Answer();
  for (std::size_t i = 0; i < seats && busy > 0; ++i) {
    if (state.seats[i]->flight.Done()) continue;
    state.seats[i]->flight.Drop();
    done(state.seats[i]->which, status, state.answer);
  }
  for (; next < n; ++next) done(next, status, state.answer);
  return absl::OkStatus();
}

template <typename Run>
absl::Status QueryRunner::WithState(const Dials& dials, const Run& run) {
  const bool as_plain = dials.prefetch == Prefetch::kRound || (dials.prefetch == Prefetch::kAhead && !index_.far);
  if (as_plain && index_.emulated == nullptr && index_.cache == nullptr) return run(plain_);
  return run(managed_);
}

absl::Status QueryRunner::Search(const void* query, const Dials& dials, Answer* out, Counters* counters, const SearchLimits& limits) {
  absl::Status outcome;
  HMANN_RETURN_IF_ERROR(WithState(dials, [&](auto& state) {
    return RunMany(
        state, 1, [query](std::size_t) { return query; }, dials, 1,
        [&](std::size_t, const absl::Status& status, Answer& answer) {
          outcome = status;
          if (status.ok()) std::swap(*out, answer);
        },
        counters, limits);
  }));
  return outcome;
}

absl::Status QueryRunner::SearchMany(std::size_t n, const std::function<const void*(std::size_t)>& query, const Dials& dials,
                                     std::uint32_t in_flight, const std::function<void(std::size_t, const absl::Status&, Answer&)>& done,
                                     Counters* counters, const SearchLimits& limits) {
  return WithState(dials, [&](auto& state) {
    return RunMany(state, n, query, dials, std::clamp(in_flight, 1u, kMostInFlight), done, counters, limits);
  });
}

}  // namespace hmann
