#include "index/tune/wide_search.h"

#include <algorithm>
#include <limits>

#include "index/base/status_macros.h"
#include "index/dials/effort.h"
#include "index/index_impl.h"
#include "index/tune/counting.h"
#include "index/tune/exact_search.h"

namespace hmann {
namespace {

/// Enough for a recall of 0.9995 to be told from one of 0.998; where to begin and how to
/// go on are guesses, which cost runs and no answer.
constexpr std::size_t kNeighboursCompared = 3000, kMostSample = 500;
constexpr double kMissed = 1.0 / 2000;
constexpr double kFirstEffort = 3, kStep = 1.4, kMostEffort = 64;

}  // namespace

absl::StatusOr<GroundTruth> WideSearch(const std::string& index, const IndexFile& file,
                                       std::span<const std::byte> queries, std::uint32_t k,
                                       Progress& progress) {
  const IndexInfo& info = file.info();
  LearningSet set;
  set.vector_bytes = info.dim * SizeOf(QueryType(info.dtype));
  const std::size_t count = queries.size() / set.vector_bytes,
                    sample = std::min({count, kMostSample, 20 + kNeighboursCompared / k});
  HMANN_ASSIGN_OR_RETURN(
      set.truth, ExactSearch(file, queries.first(sample * set.vector_bytes), k, 0, progress));
  set.rows.assign(queries.begin(), queries.end());
  HMANN_ASSIGN_OR_RETURN(const auto opened,
                         Index::Open(index, {.fast = "mapped", .slow = "mapped", .sq_bits = 0}));
  const SearchContext context = ImplOf(*opened).placed().Context();
  HMANN_ASSIGN_OR_RETURN(const Dials at_one,
                         SearchOptions({.k = k, .walk = WalkKind::kBestFirst}).Resolve(context));
  CountingRuns runs(opened, set, 0, nullptr);
  for (double effort = kFirstEffort; effort <= kMostEffort; effort *= kStep) {
    const Dials dials = WithEffort(at_one, effort, context.n, context.n1);
    HMANN_ASSIGN_OR_RETURN(const Counted counted, runs.Run(dials, sample));
    if (counted.recall < 1 - kMissed) continue;
    GroundTruth truth{.n = static_cast<std::uint32_t>(count), .k = k, .ids = {}, .distances = {}};
    truth.ids.resize(count * k, kNoNeighbour);
    truth.distances.resize(count * k, std::numeric_limits<float>::infinity());
    const auto keep = [&](std::size_t i, const Answer& answer) {
      for (std::size_t j = 0; j < answer.nearest.size(); ++j) {
        truth.ids[i * k + j] = answer.nearest[j].label;
        truth.distances[i * k + j] = answer.nearest[j].distance;
      }
    };
    HMANN_RETURN_IF_ERROR(runs.Answers(dials, count, keep).status());
    return truth;
  }
  return ExactSearch(file, queries, k, 0, progress);
}

}  // namespace hmann
