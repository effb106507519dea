#include "index/tune/wide_search.h"

#include <algorithm>
#include <limits>

#include "index/base/status_macros.h"
#include "index/index_impl.h"
#include "index/params/ef_scale.h"
#include "index/tune/counting.h"
#include "index/tune/exact_search.h"

namespace hmann {
namespace {

/// Enough to distinguish a recall of 0.9995 from 0.998. The start and the steps are
/// guesses, which cost runs and no accuracy.
constexpr std::size_t kNeighborsCompared = 3000, kMostSample = 500;
constexpr double kMissed = 1.0 / 2000;
constexpr double kFirstEfScale = 3, kStep = 1.4, kMostEfScale = 64;

}  // namespace

absl::StatusOr<GroundTruth> WideSearch(const std::string& index, const IndexFile& file,
                                       std::span<const std::byte> queries, std::uint32_t k,
                                       Progress& progress) {
  const IndexInfo& info = file.info();
  LearningSet set;
  set.vector_bytes = info.dim * SizeOf(QueryType(info.dtype));
  const std::size_t count = queries.size() / set.vector_bytes,
                    sample = std::min({count, kMostSample, 20 + kNeighborsCompared / k});
  HMANN_ASSIGN_OR_RETURN(
      set.truth, ExactSearch(file, queries.first(sample * set.vector_bytes), k, 0, progress));
  set.rows.assign(queries.begin(), queries.end());
  HMANN_ASSIGN_OR_RETURN(const auto opened,
                         Index::Open(index, {.fast = "mapped", .slow = "mapped", .sq_bits = 0}));
  const SearchContext context = ImplOf(*opened).placed().Context();
  HMANN_ASSIGN_OR_RETURN(const ResolvedParams at_one,
                         SearchParams({.k = k, .mode = SearchMode::kGraph}).Resolve(context));
  CountingRuns runs(opened, set, 0, nullptr);
  for (double ef_scale = kFirstEfScale; ef_scale <= kMostEfScale; ef_scale *= kStep) {
    const ResolvedParams params = WithEfScale(at_one, ef_scale, context.n, context.n1);
    HMANN_ASSIGN_OR_RETURN(const Counted counted, runs.Run(params, sample));
    if (counted.recall < 1 - kMissed) continue;
    GroundTruth truth{.n = static_cast<std::uint32_t>(count), .k = k, .ids = {}, .distances = {}};
    truth.ids.resize(count * k, kNoNeighbor);
    truth.distances.resize(count * k, std::numeric_limits<float>::infinity());
    const auto keep = [&](std::size_t i, const Answer& answer) {
      for (std::size_t j = 0; j < answer.nearest.size(); ++j) {
        truth.ids[i * k + j] = answer.nearest[j].label;
        truth.distances[i * k + j] = answer.nearest[j].distance;
      }
    };
    HMANN_RETURN_IF_ERROR(runs.Answers(params, count, keep).status());
    return truth;
  }
  return ExactSearch(file, queries, k, 0, progress);
}

}  // namespace hmann
