#include "index/tune/counting.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "datasets/recall.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"

namespace hmann {

double RecallLowerBound(const Counted& counted, double z) {
  const auto n = static_cast<double>(counted.queries);
  // The variance with one more query, half a recall worse than the mean.
  const double variance = counted.recall_deviation * counted.recall_deviation * n / (n + 1) +
                          0.25 * n / ((n + 1) * (n + 1));
  return std::max(0.0, counted.recall - z * std::sqrt(variance / (n + 1)));
}

CountingRuns::CountingRuns(const std::shared_ptr<const Index>& index, const LearningSet& learning,
                           int threads, const std::atomic<bool>* cancelled)
    : learning_(learning), cancelled_(cancelled), pool_(threads > 0 ? threads : UsableCores()) {
  for (int i = 0; i < pool_.threads(); ++i) searchers_.emplace_back(index);
}

absl::StatusOr<Counters> CountingRuns::Answers(
    const ResolvedParams& params, std::uint64_t count, std::span<const std::uint64_t> places,
    const std::function<void(std::size_t i, const Answer&)>& take) {
  constexpr std::size_t kChunk = 8;
  std::vector<absl::Status> outcome(searchers_.size());
  std::vector<Counters> counters(searchers_.size());
  pool_.ParallelFor(count, kChunk, [&](std::size_t begin, std::size_t end, int thread) {
    const auto place = static_cast<std::size_t>(thread);
    Answer answer;
    for (std::size_t at = begin; at < end && outcome[place].ok(); ++at) {
      const std::size_t i = places.empty() ? at : places[at];
      if (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed))
        outcome[place] = absl::CancelledError("the work was cancelled");
      else
        outcome[place] = searchers_[place].Search(learning_.Row(i), params, &answer,
                                                  &counters[place], learning_.Limits(i));
      if (outcome[place].ok()) take(i, answer);
    }
  });
  for (const absl::Status& status : outcome) HMANN_RETURN_IF_ERROR(status);
  for (std::size_t thread = 1; thread < counters.size(); ++thread) counters[0] += counters[thread];
  return counters[0];
}

absl::StatusOr<Counted> CountingRuns::Run(const ResolvedParams& params, std::uint64_t count,
                                          std::span<const std::uint64_t> places) {
  std::vector<double> of_all(learning_.n(), -1), recalls;
  Counted counted{.queries = count};
  HMANN_ASSIGN_OR_RETURN(counted.counters,
                         Answers(params, count, places, [&](std::size_t i, const Answer& answer) {
                           of_all[i] = learning_.RecallOf(i, params.k, answer);
                         }));
  std::copy_if(of_all.begin(), of_all.end(), std::back_inserter(recalls),
               [](double recall) { return recall >= 0; });
  const auto n = static_cast<double>(count);
  const RecallSummary summary = SummarizeRecall(recalls);
  counted.recall = summary.mean;
  counted.recall_p05 = summary.p05;
  for (const double recall : recalls)
    counted.recall_deviation += std::pow(recall - counted.recall, 2) / n;
  counted.recall_deviation = std::sqrt(counted.recall_deviation);
  return counted;
}

}  // namespace hmann
