#include "index/tune/held_out.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <system_error>

#include "index/base/file.h"
#include "index/base/random.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/pipeline.h"
#include "index/index_impl.h"
#include "index/params/ef_scale.h"
#include "index/tune/ef_scale_curve.h"
#include "index/tune/exact_search.h"

namespace hmann {
namespace {

/// Guesses: more are more precise, and take longer than the rest of a small build.
constexpr std::uint64_t kSampled = 8000, kHeldOut = 2000, kMostSampleBytes = 64_MiB;
constexpr std::uint64_t kSampleSeed = 0x5eed;
/// Up to this number of vectors, the share of a sample is that of the index. In an index
/// of a million SIFT vectors it is half of that. A guess from four data sets.
constexpr double kAlike = 80'000;
/// At k = 10 only this part of a sample's share is taken. A guess from text, SIFT and
/// Fashion-MNIST: without it up to 0.024 more is found than asked, and with the whole of
/// it 0.0075 less on text.
constexpr double kCreditOfSeveral = 0.5;

}  // namespace

HeldOut::~HeldOut() {
  std::error_code error;
  std::filesystem::remove(path_, error);
}

absl::StatusOr<std::unique_ptr<HeldOut>> HeldOut::Make(const std::string& index, int threads,
                                                       const std::atomic<bool>* cancelled) {
  HMANN_ASSIGN_OR_RETURN(const IndexFile file, IndexFile::Open(index));
  const IndexInfo& info = file.info();
  auto made = std::make_unique<HeldOut>();
  made->threads_ = threads;
  made->cancelled_ = cancelled;
  made->path_ = UniqueName(index + ".sample");
  made->credit_ = std::clamp(1 - 0.5 * std::log10(static_cast<double>(info.n) / kAlike), 0.0, 1.0);
  made->vector_bytes_ = info.dim * SizeOf(QueryType(info.dtype));
  const std::uint64_t fit = kMostSampleBytes / made->vector_bytes_;
  const std::uint64_t sample = std::min({kSampled, info.n / 2, fit});
  const std::uint64_t queries = std::min({kHeldOut, info.n / 4, fit});
  std::set<NodeId> chosen;
  std::vector<std::byte> base;
  HMANN_ASSIGN_OR_RETURN(Draw draw, Draw::Of(file, queries));
  for (std::uint64_t i = 0; chosen.size() < sample + queries; ++i) {
    const bool is_base = chosen.size() < sample;
    const NodeId id = is_base ? static_cast<NodeId>(RandomBelow(kSampleSeed, i, info.n))
                              : draw.Next(kSampleSeed, i, 0);
    if (chosen.insert(id).second) file.AppendQuery(id, is_base ? base : made->rows_);
  }
  BuildOptions build;
  build.out = made->path_;
  build.metric = info.metric;
  build.vectors = {base.data(), QueryType(info.dtype), info.dim, sample, made->vector_bytes_};
  build.dtype = info.dtype;
  build.m = info.m;
  build.ef_construction = info.ef_construction;
  build.alpha = info.alpha;
  build.promote = info.promote;
  build.bits = info.codes.bits;
  if (info.codes.bits > 0) build.replicas = info.codes.replicas;
  build.threads = threads;
  build.cancelled = cancelled;
  Progress quiet(Progress::Show::kNever);
  HMANN_RETURN_IF_ERROR(BuildIndex(build, quiet).status());
  HMANN_ASSIGN_OR_RETURN(made->index_,
                         Index::Open(made->path_, {.fast = "mapped", .slow = "mapped"}));
  return made;
}

absl::StatusOr<LearningSet> HeldOut::Queries(const IndexFile& file, std::uint64_t count,
                                             std::uint32_t k) const {
  Progress quiet(Progress::Show::kNever);
  LearningSet queries;
  queries.vector_bytes = vector_bytes_;
  queries.rows.assign(rows_.begin(),
                      rows_.begin() + static_cast<std::ptrdiff_t>(count * vector_bytes_));
  HMANN_ASSIGN_OR_RETURN(queries.truth, ExactSearch(file, queries.rows, k, threads_, quiet));
  return queries;
}

absl::StatusOr<float> HeldOut::RelativeRise(std::uint32_t k) const {
  HMANN_ASSIGN_OR_RETURN(const IndexFile file, IndexFile::Open(path_));
  HMANN_ASSIGN_OR_RETURN(const LearningSet queries, Queries(file, rows_.size() / vector_bytes_, k));
  HMANN_ASSIGN_OR_RETURN(const auto index,
                         Index::Open(path_, {.fast = "mapped", .slow = "mapped", .sq_bits = 0}));
  SearchContext context = ImplOf(*index).placed().Context();
  context.far = context.block_tier = false;
  context.ef_scale = 1.0f;
  CountingRuns runs(index, queries, threads_, cancelled_);
  const DifficultyOfQueries at(queries, k);
  HMANN_ASSIGN_OR_RETURN(const float rise, at.MeasureRise(context, runs));
  return rise * at.middle();
}

absl::StatusOr<std::vector<HeldOut::Point>> HeldOut::Measure(std::uint32_t k,
                                                             bool from_cells) const {
  Progress quiet(Progress::Show::kNever);
  HMANN_ASSIGN_OR_RETURN(const IndexFile file, IndexFile::Open(path_));
  // As many as the calibration takes, or nearly.
  const std::uint64_t count =
      std::min<std::uint64_t>(rows_.size() / vector_bytes_, k < 100 ? kHeldOut : kHeldOut / 4);
  HMANN_ASSIGN_OR_RETURN(const LearningSet queries, Queries(file, count, k));
  HMANN_ASSIGN_OR_RETURN(const LearningSet left_out,
                         MakeLearningSet({.index = path_, .most = count, .k = k}, quiet));
  const LearningSet left_in = left_out.LeftIn();
  CountingRuns out(index_, left_out, threads_, cancelled_),
      in(index_, left_in, threads_, cancelled_), held(index_, queries, threads_, cancelled_);
  SearchContext context = ImplOf(*index_).placed().Context();
  context.far = context.block_tier = from_cells;
  if (from_cells) context.scalar_bits = 0;  // a drive has none
  context.ef_scale = 1.0f;
  HMANN_ASSIGN_OR_RETURN(const ResolvedParams at_one, SearchParams({.k = k}).Resolve(context));
  std::vector<Point> points;
  for (double ef_scale = 1.0 / 8; ef_scale <= 4; ef_scale *= 2) {
    const ResolvedParams params = WithEfScale(at_one, ef_scale, context.n, context.n1);
    HMANN_ASSIGN_OR_RETURN(const Counted hard, out.Run(params, out.queries()));
    HMANN_ASSIGN_OR_RETURN(const Counted real, held.Run(params, held.queries()));
    HMANN_ASSIGN_OR_RETURN(const double easy, OthersThanItself(params, in.queries(), in));
    const double way = easy - hard.recall;
    if (way <= 0 || (!points.empty() && hard.recall <= points.back().hard)) break;
    points.push_back(
        {hard.recall, real.recall, std::clamp((real.recall - hard.recall) / way, 0.0, 1.0)});
    if (hard.recall > 0.99) break;
  }
  return points;
}

absl::StatusOr<double> HeldOut::RecallOfQueries(std::uint32_t k, double hard, double easy,
                                                bool from_cells) {
  const auto [known, is_new] = points_.try_emplace({k, from_cells});
  if (is_new) {
    HMANN_ASSIGN_OR_RETURN(known->second, Measure(k, from_cells));
  }
  const std::vector<Point>& points = known->second;
  if (points.empty() || easy <= hard) return hard;
  const double credit = k > 1 ? credit_ * kCreditOfSeveral : credit_;
  const auto after = std::find_if(points.begin(), points.end(),
                                  [&](const Point& point) { return point.hard > hard; });
  double share = after == points.end() ? points.back().share : after->share;
  if (after != points.begin() && after != points.end()) {
    const Point& low = after[-1];
    share = std::lerp(low.share, after->share, (hard - low.hard) / (after->hard - low.hard));
  }
  double gain = share * (easy - hard);
  // Below, codes lose neighbors of both alike: the way is longer, what links hide is not.
  if (from_cells && after == points.begin())
    gain = std::min(gain, std::max(0.0, after->real - after->hard));
  return hard + credit * gain;
}

absl::StatusOr<double> OthersThanItself(ResolvedParams params, std::uint64_t queries,
                                        CountingRuns& left_in) {
  ++params.k;
  if (params.ef_l0 > 0) params.ef_l0 = std::max(params.ef_l0, params.k);
  HMANN_ASSIGN_OR_RETURN(const Counted counted, left_in.Run(params, queries));
  return (counted.recall * params.k - 1) / (params.k - 1);
}

}  // namespace hmann
