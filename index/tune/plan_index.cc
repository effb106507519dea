#include "index/tune/plan_index.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "datasets/vector_file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/index_impl.h"
#include "index/tune/learning_set.h"

namespace hmann {
namespace {

constexpr std::uint64_t kQueries = 200;
constexpr std::uint64_t kMostCachedFile = 2_GiB;

/// The dials that a search of `index` has by default where its L0 lies on such a tier.
absl::StatusOr<Dials> DialsOn(const Index& index, bool block_tier) {
  SearchContext context = ImplOf(index).placed().Context();
  context.block_tier = block_tier;
  context.far = !block_tier;
  SearchOptions options;
  options.k = static_cast<std::uint32_t>(std::min<std::uint64_t>(options.k, context.n));
  return options.Resolve(context);
}

/// Sum of the counters of all queries. `cache_bytes` 0: no cache.
absl::StatusOr<Counters> RunAll(const std::string& path, const LearningSet& queries,
                                bool block_tier, std::uint64_t cache_bytes) {
  OpenOptions open;
  open.fast = "mapped";
  open.cache = cache_bytes > 0 ? CachePolicy::kStatic : CachePolicy::kNone;
  open.cache_bytes = cache_bytes;
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<const Index> index, Index::Open(path, open));
  HMANN_ASSIGN_OR_RETURN(const Dials dials, DialsOn(*index, block_tier));
  Searcher searcher(index);
  Counters counters;
  Answer answer;
  for (std::uint64_t i = 0; i < queries.n(); ++i) {
    HMANN_RETURN_IF_ERROR(
        searcher.Search(queries.Row(i), dials, &answer, &counters, queries.Limits(i)));
  }
  return counters;
}

/// `queries` empty: vectors of the index. Nobody looks at their neighbours.
absl::StatusOr<LearningSet> Queries(const std::string& path, const std::string& queries,
                                    const IndexInfo& info, Progress& progress) {
  if (queries.empty())
    return MakeLearningSet(
        {.index = path, .queries = {}, .groundtruth = {}, .most = kQueries, .k = 1}, progress);
  HMANN_ASSIGN_OR_RETURN(VectorFile file, VectorFile::Open(queries));
  HMANN_RETURN_IF_ERROR(file.FitQueries(info.dim, info.dtype, "the index"));
  if (file.n() == 0)
    return absl::InvalidArgumentError(absl::StrCat(queries, ": expected queries, found none"));
  LearningSet set;
  set.vector_bytes = file.row_bytes();
  set.truth.n = static_cast<std::uint32_t>(std::min(kQueries, file.n()));
  for (std::uint64_t i = 0; i < set.n(); ++i)
    set.rows.insert(set.rows.end(), file.Row(i), file.Row(i) + file.row_bytes());
  return set;
}

/// Private memory of this process: pages of its own, huge ones of the pool included.
absl::StatusOr<std::uint64_t> OwnBytes() {
  std::ifstream status("/proc/self/status");
  std::uint64_t bytes = 0;
  for (std::string text; std::getline(status, text);) {
    absl::string_view line = text;
    if (!absl::ConsumePrefix(&line, "RssAnon:") && !absl::ConsumePrefix(&line, "HugetlbPages:"))
      continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    std::uint64_t kib = 0;
    if (words.size() != 2 || !absl::SimpleAtoi(words[0], &kib))
      return absl::InternalError("/proc/self/status: expected kB of memory");
    bytes += kib << 10;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<IndexToPlan> DescribeIndex(const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(path));
  if (info.layers.size() < 2)
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": nothing is promoted, so there is nothing to place"));
  BuildOptions promotion;
  promotion.from_index = path;
  HMANN_ASSIGN_OR_RETURN(const PlanShape shape, ShapeOf(promotion));
  return IndexToPlan{shape,
                     {static_cast<NodeId>(info.layers[1].nodes), info.codes.bits,
                      std::max(info.codes.replicas, 1u)},
                     info.file_bytes};
}

absl::StatusOr<CountScale> SampleCounts(const std::string& path, const std::string& queries,
                                        bool block_tier, Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(const IndexToPlan index, DescribeIndex(path));
  HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(path));
  HMANN_ASSIGN_OR_RETURN(const LearningSet sample, Queries(path, queries, info, progress));
  HMANN_ASSIGN_OR_RETURN(const Counters counters, RunAll(path, sample, block_tier, 0));
  const auto count = static_cast<double>(sample.n());
  const AccessCounts expected = DefaultCounts(block_tier, info.n, index.structure);
  const auto factor = [count](std::uint64_t sum, double wanted) {
    return wanted > 0 && sum > 0 ? static_cast<double>(sum) / count / wanted : 1.0;
  };
  CountScale scale;
  scale.distances_fast = factor(counters.distances_fast, expected.distances_fast);
  scale.estimates = factor(counters.estimates, expected.estimates);
  scale.slow_reads = factor(counters.slow_reads, expected.slow_reads);
  scale.rounds = factor(counters.rounds, expected.rounds);
  if (index.file_bytes > kMostCachedFile || counters.slow_reads == 0) return scale;

  CacheCurve& curve = scale.cache.emplace();
  HMANN_ASSIGN_OR_RETURN(const Header header, HeaderOf(index.shape, index.structure));
  const std::uint32_t record_bytes = header.Records().RecordBytes(index.structure.n1);
  const double promote = static_cast<double>(index.structure.n1) / static_cast<double>(info.n);
  double before = 0;
  for (const double share : {0.0, 0.05, 0.15, 0.4}) {
    const double cached = promote + share * (1 - promote);
    const auto bytes =
        static_cast<std::uint64_t>(cached * static_cast<double>(info.n)) * record_bytes;
    HMANN_ASSIGN_OR_RETURN(
        const Counters with,
        RunAll(path, sample, block_tier, std::max<std::uint64_t>(bytes, record_bytes)));
    // Touches again hit again: the share of touches stands for that of reads.
    const double touches = static_cast<double>(std::max(with.slow_touches, with.slow_reads));
    const double hits = std::clamp(static_cast<double>(with.cache_hits) / touches, before, 1.0);
    if (share == 0) {
      curve.promoted = hits;
    } else {
      curve.others.push_back(
          {share, std::clamp((hits - curve.promoted) / (1 - curve.promoted + 1e-9), 0.0, 1.0)});
    }
    before = hits;
  }
  curve.others.push_back({1, 1});
  return scale;
}

absl::StatusOr<std::uint64_t> MeasureFastBytes(const std::string& path, const PlacementPlan& plan) {
  HMANN_ASSIGN_OR_RETURN(const std::uint64_t before, OwnBytes());
  OpenOptions open;
  open.fast = plan.fast_tier == "dram" ? "dram" : "mapped";
  open.slow = plan.l0_tier == "dram" ? "dram" : "mapped";
  if (plan.cache_bytes > 0) {
    open.cache = CachePolicy::kStatic;
    open.cache_bytes = plan.cache_bytes;
  }
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<const Index> index, Index::Open(path, open));
  HMANN_ASSIGN_OR_RETURN(const std::uint64_t after, OwnBytes());
  return after - std::min(after, before) + plan.reserve_bytes;
}

}  // namespace hmann
