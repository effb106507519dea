#include <algorithm>
#include <chrono>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/collection/collection_impl.h"

namespace hmann {

Segment::~Segment() {
  if (!superseded_) return;
  std::error_code error;
  for (const char* suffix : {"", ".tuned", ".attrs"})
    std::filesystem::remove(path_ + suffix, error);
}

bool CollectionImpl::WantsGraph(const Moment& moment) {
  constexpr std::uint64_t kAtOnce = 64;  // so few rows are scanned, in a microsecond: a guess
  return moment.loose_rows() >= kAtOnce;
}

void CollectionImpl::MakeGraphs() {
  // The kernel lets this thread run for some milliseconds while a search waits, so it
  // pauses often, unless there is much to do: guesses.
  constexpr std::uint64_t kAtOnce = 8, kMany = 1024;
  constexpr std::chrono::milliseconds kPause(1);
  StepBehind();
  // As in the sealed index, except that a search of a small graph is cheap: a guess.
  const std::uint32_t width = std::min<std::uint32_t>(manifest_.build.ef_construction, 48);
  // A ratio of inner products means nothing (NeighborSelector).
  const float alpha = manifest_.build.metric == Metric::kInnerProduct ? 1.0F : 1.2F;
  DeltaGraph::Scratch scratch;
  while (true) {
    {
      std::unique_lock lock(wake_mutex_);
      wake_.wait(lock, [&] { return stop_ || WantsGraph(*Now()); });
    }
    const std::shared_ptr<const Moment> moment = Now();
    for (const auto& graph : moment->graphs) {
      const std::uint64_t end = std::min(graph->limit(), moment->tail.end());
      while (graph->end() < end && !stop_) {
        graph->Insert(moment->tail, shape_->kernels, width, alpha, scratch);
        if (graph->end() % kAtOnce == 0 && end - graph->end() < kMany)
          std::this_thread::sleep_for(kPause);
      }
    }
    if (stop_) return;
    KeepGraph(*moment, 2);  // so often that a sudden end loses half at most
  }
}

void CollectionImpl::KeepGraph(const Moment& moment, std::uint64_t times) {
  const DeltaGraph& oldest = *moment.graphs.front();
  if (options_.read_only || oldest.first() < moment.tail.first()) return;
  if (oldest.first() != kept_rows_.first) kept_rows_ = {oldest.first(), oldest.first()};
  const std::uint64_t rows = oldest.end() - oldest.first();
  const std::uint64_t kept = kept_rows_.second - kept_rows_.first;
  if (rows < kept * times + DeltaGraph::kPieceRows) return;
  if (oldest.Write(moment.tail, shape_->kernels, DeltaGraph::PathIn(folder_)).ok())
    kept_rows_.second = oldest.first() + rows / DeltaGraph::kPieceRows * DeltaGraph::kPieceRows;
}

void CollectionImpl::Note(const absl::Status& status, int* failures) {
  *failures = status.ok() ? 0 : *failures + 1;
  if (status.ok() || stop_) return;
  ++merge_failures_;
  {
    const std::scoped_lock lock(facts_mutex_);
    last_error_ = std::string(status.message());
  }
  // The next attempt may succeed. Each begins a graph: 10 to 80 s are a guess.
  const std::chrono::seconds pause(10 << std::min(*failures - 1, 3));
  std::unique_lock lock(wake_mutex_);
  wake_.wait_for(lock, pause, [&] { return stop_.load(); });
}

absl::Status CollectionImpl::KillChanged(std::uint64_t* after, Moment::Part* part) const {
  std::vector<std::uint64_t> changed;
  std::vector<std::uint32_t> ids;
  do {
    HMANN_RETURN_IF_ERROR(journal_->ReadLabels(after, &changed));
    ids.assign(changed.size(), kNoId);
    HMANN_RETURN_IF_ERROR(part->segment->index()->Find(changed, ids));
    for (const std::uint32_t id : ids)
      if (id != kNoId && part->Has(id)) part->killed.push_back(id);
  } while (!changed.empty());
  part->Settle();
  return absl::OkStatus();
}

}  // namespace hmann
