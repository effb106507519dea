#include "index/search/memory_executor.h"

#include <algorithm>
#include <span>

#include "index/base/prefetch.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Steps of each query between budget checks.
constexpr std::uint32_t kTurnsBetweenCuts = 16;

bool Always(NodeId) { return true; }

/// Requests the records that the traversal wants and sets records[i] to the record of
/// Wanted()[i].
template <Traversal W, typename Access>
void AskFor(const W& traversal, Access& access, std::vector<const std::byte*>& records,
            std::uint32_t width) {
  const std::span<const NodeId> wanted = traversal.Wanted();
  const RecordPart part = traversal.Part();
  if (records.size() < wanted.size()) records.resize(wanted.size());
  access.AskAll(wanted, part, records.data());
  // The runners-up are expanded next unless one of these vectors beats them.
  if (part == RecordPart::kRow) {
    traversal.ForUpcoming(width, [&access](NodeId next) {
      access.Hint(next);
      return true;
    });
  }
  access.Send();
}

template <Traversal W, typename Access>
void Absorb(W& traversal, Access& access, const std::vector<const std::byte*>& records) {
  const std::span<const NodeId> wanted = traversal.Wanted();
  access.Await(wanted, traversal.Part());
  traversal.Absorb(std::span(records).first(wanted.size()));
}

}  // namespace

template <typename Access>
void MemoryExecutor::Step(Slot<Access>& slot) {
  slot.query.Visit([&slot](auto& traversal) {
    Absorb(traversal, slot.access, slot.records);
    if constexpr (Access::kWatchesL1) {
      if constexpr (requires { traversal.HasNewCandidates(); }) {
        if (traversal.HasNewCandidates())
          slot.access.Stepped(slot.query.found(), slot.query.params().ef_l1);
      }
    }
    if (!traversal.Done())
      return AskFor(traversal, slot.access, slot.records, slot.query.params().beam_width);
    slot.query.Next();
    if (slot.query.Parts().size() > 1) return;  // each part requests its own
    slot.query.Visit([&slot](const auto& next) {
      AskFor(next, slot.access, slot.records, slot.query.params().beam_width);
    });
  });
}

template <typename Access>
absl::Status MemoryExecutor::RunParts(Slot<Access>& slot, State<Access>& state,
                                      const QueryBatch& batch) {
  const std::span<MultiStartTraversal> parts = slot.query.Parts();
  while (state.helpers.size() < parts.size())
    state.helpers.push_back(std::make_unique<Helper<Access>>(index_));
  if (threads_ == nullptr || threads_->threads() < static_cast<int>(parts.size())) {
    threads_ = std::make_unique<ThreadPool>(static_cast<int>(parts.size()));
  }
  const auto run_part = [&](std::size_t i) {
    Helper<Access>& helper = *state.helpers[i];
    helper.shared.pages.Follow(shared_.pages);
    helper.access.Begin(batch.params.prefetch);
    StopCheck stop(batch.limits);
    helper.status = absl::OkStatus();
    for (std::uint32_t turn = 1; !parts[i].Done() && helper.status.ok(); ++turn) {
      AskFor(parts[i], helper.access, helper.records, 1);
      Absorb(parts[i], helper.access, helper.records);
      helper.status = stop.Step();
      if (turn % kTurnsBetweenCuts == 0 && StopCheck::Clock::now() >= slot.cut) break;
    }
  };
  threads_->ParallelFor(parts.size(), 1, [&run_part](std::size_t begin, std::size_t end, int) {
    for (std::size_t i = begin; i < end; ++i) run_part(i);
  });
  bool done = true;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!state.helpers[i]->status.ok()) return state.helpers[i]->status;
    done = done && parts[i].Done();
    if constexpr (Access::kWatchesL1)
      state.helpers[i]->access.AddCounts(slot.query.counters().total);
  }
  done ? slot.query.Next() : void(slot.query.CutShort(Always));
  slot.query.Visit([&slot](const auto& next) {
    AskFor(next, slot.access, slot.records, slot.query.params().beam_width);
  });
  return absl::OkStatus();
}

template <typename Access>
bool MemoryExecutor::Begin(Slot<Access>& slot, const QueryBatch& batch, std::size_t* next) {
  for (; *next < batch.n; ++*next) {
    slot.cut = StopCheck::CutOf(batch.limits);
    shared_.pages.Begin();
    slot.access.Begin(batch.params.prefetch);
    slot.query.Exclude(batch.limits.excluded);
    const absl::Status opened =
        slot.query.Open(batch.query(*next), batch.params, batch.ListsReads());
    if (opened.ok() && slot.query.Done()) {  // nothing matches
      slot.which = *next;
      Finish(slot, batch);
      continue;
    }
    if (opened.ok()) {
      slot.which = (*next)++;
      slot.query.Visit([&slot](const auto& traversal) {
        AskFor(traversal, slot.access, slot.records, slot.query.params().beam_width);
      });
      return true;
    }
    answer_ = Answer();
    batch.done(*next, opened, answer_);
  }
  return false;
}

template <typename Access>
void MemoryExecutor::Finish(Slot<Access>& slot, const QueryBatch& batch) {
  slot.query.TakeAnswer(&answer_);
  if (batch.counters != nullptr) {
    *batch.counters += slot.query.TakeCounters(read_);
    if constexpr (Access::kWatchesL1) slot.access.AddCounts(*batch.counters);
  }
  batch.done(slot.which, absl::OkStatus(), answer_);
}

template <typename Access>
absl::Status MemoryExecutor::RunWith(State<Access>& state, const QueryBatch& batch) {
  const std::size_t slots =
      std::min<std::size_t>(batch.n, std::clamp(batch.in_flight, 1u, kMostInFlight));
  while (state.slots.size() < slots)
    state.slots.push_back(std::make_unique<Slot<Access>>(index_, shared_));
  StopCheck stop(batch.limits);
  absl::Status status = stop.Now();
  std::size_t next = 0, busy = 0;
  for (std::size_t i = 0; i < slots && status.ok(); ++i)
    busy += Begin(*state.slots[i], batch, &next) ? 1 : 0;
  const bool has_budget = batch.limits.budget.count() > 0;
  for (std::uint32_t turn = 1; busy > 0 && status.ok(); ++turn) {
    const bool looks = has_budget && turn % kTurnsBetweenCuts == 0;
    const auto now = looks ? StopCheck::Clock::now() : StopCheck::Clock::time_point::min();
    for (std::size_t i = 0; i < slots && status.ok(); ++i) {
      Slot<Access>& slot = *state.slots[i];
      if (slot.query.Done()) continue;
      if (looks && now >= slot.cut && slot.query.CutShort(Always)) {
        slot.query.Visit(
            [&slot](const auto& traversal) { AskFor(traversal, slot.access, slot.records, 1); });
      }
      if (slot.query.Parts().size() > 1) {
        status = RunParts(slot, state, batch);
      } else if (!slot.query.Done()) {
        Step(slot);
        status = stop.Step();
      }
      if (!status.ok() || !slot.query.Done()) continue;
      Finish(slot, batch);
      busy -= Begin(slot, batch, &next) ? 0 : 1;
    }
  }
  if (status.ok()) return status;
  answer_ = Answer();
  for (std::size_t i = 0; i < slots && busy > 0; ++i) {
    if (state.slots[i]->query.Done()) continue;
    state.slots[i]->query.Drop();
    batch.done(state.slots[i]->which, status, answer_);
  }
  for (; next < batch.n; ++next) batch.done(next, status, answer_);
  return absl::OkStatus();
}

absl::Status MemoryExecutor::Run(const QueryBatch& batch) {
  const Prefetch prefetch = batch.params.prefetch;
  const bool is_plain = prefetch == Prefetch::kHop || (prefetch == Prefetch::kAhead && !index_.far);
  return is_plain && index_.IsPlain() ? RunWith(plain_, batch) : RunWith(layered_, batch);
}

template <typename Access>
absl::Status MemoryExecutor::ReadWith(State<Access>& state, const RecordBatch& batch) {
  constexpr std::size_t kAtOnce = 16;
  if (state.slots.empty()) state.slots.push_back(std::make_unique<Slot<Access>>(index_, shared_));
  Access& access = state.slots[0]->access;
  shared_.pages.Begin();
  access.Begin(Prefetch::kHop);
  StopCheck stop(batch.limits);
  HMANN_RETURN_IF_ERROR(stop.Now());
  const std::byte* records[kAtOnce];
  for (std::size_t begin = 0; begin < batch.ids.size(); begin += kAtOnce) {
    const auto ids = batch.ids.subspan(begin, std::min(kAtOnce, batch.ids.size() - begin));
    access.AskAll(ids, batch.part, records);
    access.Send();
    access.Await(ids, batch.part);
    for (std::size_t i = 0; i < ids.size(); ++i) batch.done(begin + i, records[i]);
    HMANN_RETURN_IF_ERROR(stop.Step());
  }
  if (batch.counters == nullptr) return absl::OkStatus();
  batch.counters->node_accesses += batch.ids.size();
  if constexpr (Access::kWatchesL1) access.AddCounts(*batch.counters);
  return absl::OkStatus();
}

absl::Status MemoryExecutor::Read(const RecordBatch& batch) {
  return index_.IsPlain() ? ReadWith(plain_, batch) : ReadWith(layered_, batch);
}

}  // namespace hmann
