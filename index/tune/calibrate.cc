#include "index/tune/calibrate.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "hmann/build.h"
#include "hmann/tuned_table.h"
#include "index/base/cpu.h"
#include "index/base/errors.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"
#include "index/index_impl.h"
#include "index/params/ef_scale.h"
#include "index/tune/counting.h"
#include "index/tune/ef_scale_curve.h"
#include "index/tune/held_out.h"
#include "index/tune/learning_set.h"

namespace hmann {
namespace {

/// A k to calibrate and its number of queries. They bring the standard error of a mean
/// recall of 0.95 to about 0.0025, at k = 1 to 0.0045. For k in the thousands, a few
/// queries give all the precision that there is time for.
struct Wanted {
  std::uint32_t k;
  std::uint64_t queries;
};
constexpr Wanted kWanted[] = {{1, 2500}, {10, 2500}, {100, 500}, {1000, 100}, {10000, 4}};
/// Eight bits lose nothing of most vectors. If they lose at most this share of the
/// neighbors, which is a guess, the curve without codes is theirs.
/// If 4 bits find at most kLittle less, also a guess, their curve is that of 8 bits.
constexpr double kNothing = 0.001, kLittle = 0.005;
/// Every curve has a point near these recalls, ascending. For k above 100 it begins near
/// the default one: these searches took two thirds of the time of a calibration.
constexpr double kCalibrated[] = {kLeastRecall, 0.9, kDefaultRecall}, kHighest = 0.99;
/// A predicted recall may be off by kMayBeOff. Where kErrors standard errors are more,
/// it is less than what the queries found: a thousand of them found 0.90 at k = 1 where
/// others found 0.8765 (text). Both are guesses.
constexpr double kErrors = 1.5, kMayBeOff = 0.005;
constexpr std::uint32_t kMostUsualK = 100;
/// The nearest neighbors of a vector that is left out were linked by it, so they are
/// missed more often than those of a query. From this k on, predicted and found differ
/// by 0.011 at most on text, GloVe and Fashion-MNIST (doc/notes/tuning.md).
constexpr std::uint32_t kLeastUnbiased = 100;
/// The curve is measured on some queries. All queries are run once, near the default
/// recall, and shift the curve by the difference they find there. Cost is
/// proportional to queries, and the slope of recall depends less on the choice of queries
/// than its level. With 300 queries, text at k = 1 found 0.864 in place of 0.90. The
/// numbers are guesses from text. Those that a user gives are all run at every point.
constexpr std::uint64_t kSomeOf1 = 1200, kSome = 600, kSomeOf100 = 150, kSomeOfMore = 30;
/// Bytes of vectors that all queries together may compare, and a part of them at one
/// point: about two seconds, of which usual searches take a tenth. Data that is hard to
/// search gets fewer queries, at least kFewest. All these numbers are guesses.
constexpr double kMostBytes = 5e9, kMostAtAPoint = kMostBytes / 10;
constexpr std::uint64_t kFewest = 30;

/// How many of the `wanted` queries, each with this many distances, are affordable.
std::uint64_t Affordable(std::uint64_t wanted, double distances, std::uint64_t row_bytes,
                         double most_bytes) {
  const double bytes = std::max(1.0, distances) * static_cast<double>(row_bytes);
  return std::min(wanted, std::max(kFewest, static_cast<std::uint64_t>(most_bytes / bytes)));
}

/// With few vectors, fewer queries are as precise.
std::uint64_t LearningQueries(const CalibrateOptions& options, std::uint64_t wanted,
                              std::uint64_t n) {
  constexpr std::uint64_t kLeast = 30, kVectorsAQuery = 4;
  const std::uint64_t most = std::max(kLeast, n / kVectorsAQuery);
  return std::min({wanted, most, options.learn > 0 ? options.learn : wanted});
}

/// Measures the points of a curve. All have the queries that the first can afford, since
/// one shift is for all: with 98 to 150 of them, text found 0.931 where 0.95 was due, on
/// a drive at k = 100. Only a point that takes far more has fewer.
class PointsOfCurve {
 public:
  using Count = std::function<absl::StatusOr<Counted>(double ef_scale, std::uint64_t queries)>;
  PointsOfCurve(Count count, std::uint64_t queries, std::uint64_t row_bytes, double most_bytes)
      : count_(std::move(count)), queries_(queries), row_bytes_(row_bytes), most_(most_bytes) {}

  absl::StatusOr<Counted> operator()(double ef_scale) {
    constexpr double kFarMore = 4;  // a guess
    const bool is_first = work_a_scale_ == 0;
    HMANN_ASSIGN_OR_RETURN(
        Counted counted, count_(ef_scale, Affordable(queries_, work_a_scale_ * ef_scale, row_bytes_,
                                                     kFarMore * most_)));
    work_a_scale_ = counted.Work() / ef_scale;
    const std::uint64_t fewer = Affordable(queries_, counted.Work(), row_bytes_, most_);
    if (!is_first || fewer == queries_) return counted;
    queries_ = fewer;
    return count_(ef_scale, fewer);
  }

 private:
  Count count_;
  std::uint64_t queries_, row_bytes_;
  double most_;
  double work_a_scale_ = 0;  ///< of the point before
};

class CalibrationOfIndex {
 public:
  CalibrationOfIndex(const CalibrateOptions& options, Progress& progress)
      : options_(options), progress_(progress) {}

  absl::StatusOr<Calibration> Run(const std::string& path) {
    path_ = path;
    for (const std::uint32_t bits : {0u, 4u, 8u}) HMANN_RETURN_IF_ERROR(Open(bits));
    const std::uint64_t n = indexes_.front()->info().n;
    const std::uint64_t most_k = options_.queries.empty() ? n - 1 : n;
    if (n <= kFewVectors) return OfFew(n);
    for (const Wanted& wanted : kWanted) {
      if (wanted.k > most_k || (wanted.k > kLeastRare && n < kVectorsForRare * wanted.k)) continue;
      HMANN_RETURN_IF_ERROR(CalibrateFor(wanted, n));
    }
    std::sort(calibration_.curves.begin(), calibration_.curves.end(),
              [](const Calibration::Curve& a, const Calibration::Curve& b) {
                return std::tie(a.way, a.k) < std::tie(b.way, b.k);
              });
    return std::move(calibration_);
  }

 private:
  /// Searches with k in the thousands are unrealistic among only a few times as many
  /// vectors.
  static constexpr std::uint32_t kLeastRare = 100;
  static constexpr std::uint64_t kVectorsForRare = 20;

  /// Every search compares all vectors.
  static Calibration OfFew(std::uint64_t n) {
    return {.origin = kComparedWithAll,
            .curves = {{.way = {.mode = SearchMode::kScan},
                        .k = 1,
                        .queries = n,
                        .points = {{1, 1, static_cast<double>(n)}}}}};
  }

  /// Scalar codes are calibrated if they can be made and take little of the memory.
  absl::Status Open(std::uint32_t bits) {
    if (bits > 0) {
      const IndexInfo& info = indexes_.front()->info();
      if (info.n * info.dim > UsableMemoryBytes() / 8) return absl::OkStatus();
    }
    auto index = Index::Open(
        path_, {.fast = "mapped", .slow = "mapped", .sq_bits = bits, .coarse_codes = true});
    if (bits > 0 && !index.ok()) return absl::OkStatus();
    HMANN_RETURN_IF_ERROR(index.status());
    indexes_.push_back(*std::move(index));
    return absl::OkStatus();
  }

  /// Usual k share the queries and their neighbors, which take as long to find as all
  /// searches together.
  absl::Status Learn(std::uint32_t k, std::uint64_t queries, std::uint64_t n) {
    if (k <= learning_.truth.k && queries <= learned_) return absl::OkStatus();
    const std::uint64_t most_k = options_.queries.empty() ? n - 1 : n;
    if (k < kMostUsualK)
      k = static_cast<std::uint32_t>(std::min<std::uint64_t>(kMostUsualK, most_k));
    HMANN_ASSIGN_OR_RETURN(
        learning_,
        MakeLearningSet({.index = path_, .queries = options_.queries, .most = queries, .k = k},
                        progress_));
    learned_ = queries;
    return AddDifficulties();
  }

  absl::Status CalibrateFor(const Wanted& wanted, std::uint64_t n) {
    const std::uint64_t most = LearningQueries(options_, wanted.queries, n);
    HMANN_RETURN_IF_ERROR(Learn(wanted.k, most, n));
    const LearningSet& learning = learning_;
    const std::uint64_t queries = std::min(most, learning.n());
    calibration_.origin = learning.origin;
    const bool corrects = !learning.left_out.empty() && wanted.k < kLeastUnbiased;
    const LearningSet left_in = corrects ? learning.LeftIn() : LearningSet{};
    progress_.Start("calibrate", 0, "settings");
    std::deque<CountingRuns> runs;
    std::vector<std::size_t> begins;
    for (const auto& index : indexes_) {
      begins.push_back(calibration_.curves.size());
      const std::vector<SearchContext> contexts = Contexts(*index);
      runs.emplace_back(index, learning, options_.threads, options_.cancelled);
      CountingRuns runs_left_in(index, left_in, options_.threads, options_.cancelled);
      if (contexts.front().scalar_bits == 8) {
        HMANN_ASSIGN_OR_RETURN(const bool same, AreAsBefore(contexts.front(), runs, begins));
        if (same) continue;
      }
      for (const SearchContext& context : contexts)
        HMANN_RETURN_IF_ERROR(AddCurve(context, {}, wanted.k, queries, runs.back(), runs_left_in));
      HMANN_RETURN_IF_ERROR(AddCurve(contexts.front(), SearchMode::kUpper, wanted.k, queries,
                                     runs.back(), runs_left_in));
    }
    progress_.Finish();
    return absl::OkStatus();
  }

  /// Adds the typical distances that the learning set shows. The rise, relative to the
  /// middle distance, is measured once: it was nearly the same for k = 1, 10 and 100.
  absl::Status AddDifficulties() {
    constexpr std::uint32_t kMeasured = 10,
                            kTypical[] = {1, 3, 10, 30, 100, 300, 1000, 3000, 10000};
    const Index& index = *indexes_.front();
    SearchContext context = ImplOf(index).placed().Context();
    if (!context.has_ratios) return absl::OkStatus();
    if (calibration_.difficulties.empty()) {
      context.far = context.block_tier = false;
      context.calibration = nullptr;
      context.ef_scale = 1.0f;
      CountingRuns runs(indexes_.front(), learning_, options_.threads, options_.cancelled);
      const std::uint32_t k = std::min(kMeasured, learning_.truth.k);
      const DifficultyOfQueries at(learning_, k);
      HMANN_ASSIGN_OR_RETURN(const float rise, at.MeasureRise(context, runs));
      relative_rise_ = rise * at.middle();
      if (!learning_.left_out.empty()) {
        // Left-out vectors show too little of it, a smaller index 0.86 to 2.9 times
        // (doc/notes/tuning.md). That their mean is near is a guess.
        HMANN_RETURN_IF_ERROR(HoldOut());
        HMANN_ASSIGN_OR_RETURN(const float of_sample, held_out_->RelativeRise(k));
        relative_rise_ = std::midpoint(relative_rise_, of_sample);
      }
    }
    for (const std::uint32_t k : kTypical) {
      if (k > learning_.truth.k ||
          (!calibration_.difficulties.empty() && k <= calibration_.difficulties.back().k))
        continue;
      const DifficultyOfQueries at(learning_, k);
      const float middle = at.middle();
      calibration_.difficulties.push_back(
          {.k = k, .typical = at.typical(), .rise = middle > 0 ? relative_rise_ / middle : 0});
    }
    return absl::OkStatus();
  }

  static std::uint64_t Some(std::uint64_t queries, std::uint32_t k) {
    const std::uint64_t usual = k == 1 ? kSomeOf1 : kSome;
    return std::min(queries, k < 100 ? usual : k == 100 ? kSomeOf100 : kSomeOfMore);
  }

  /// Whether 8 bits, the last of `runs`, find as much as no codes do, or hardly more than
  /// 4 bits. If so, the curves of those are theirs. `begins`: of the curves of each run.
  absl::StatusOr<bool> AreAsBefore(const SearchContext& context, std::deque<CountingRuns>& runs,
                                   const std::vector<std::size_t>& begins) {
    const std::size_t last = runs.size() - 1;
    for (std::size_t i = 0; i < last; ++i) {
      CountingRuns &better = runs[i == 0 ? 0 : last], &worse = runs[i == 0 ? last : i];
      HMANN_ASSIGN_OR_RETURN(const bool same,
                             FindsAsMuch(context, calibration_.curves[begins[i]], better, worse,
                                         i == 0 ? kNothing : kLittle));
      if (!same) continue;
      AddTheSame(begins[i], begins[i + 1], 8);
      return true;
    }
    return false;
  }

  /// Whether `worse` finds the same share of the neighbors as `better`, at the lowest and
  /// at the highest point of `curve`.
  absl::StatusOr<bool> FindsAsMuch(const SearchContext& context, const Calibration::Curve& curve,
                                   CountingRuns& better, CountingRuns& worse, double most_lost) {
    HMANN_ASSIGN_OR_RETURN(const ResolvedParams at_one,
                           SearchParams({.k = curve.k, .mode = curve.way.mode}).Resolve(context));
    for (const Calibration::Point& point : {curve.points.front(), curve.points.back()}) {
      const ResolvedParams params =
          WithEfScale(at_one, double{point.ef_scale}, context.n, context.n1);
      const std::uint64_t some = Affordable(Some(better.queries(), curve.k), point.distances,
                                            context.row_bytes, kMostAtAPoint);
      HMANN_ASSIGN_OR_RETURN(const Counted more, better.Run(params, some));
      HMANN_ASSIGN_OR_RETURN(const Counted less, worse.Run(params, some));
      if (less.recall < more.recall - most_lost) return false;
    }
    return true;
  }

  /// Copies the curves [first, end) of searches in memory.
  void AddTheSame(std::size_t first, std::size_t end, std::uint32_t bits) {
    for (std::size_t i = first; i < end; ++i) {
      Calibration::Curve curve = calibration_.curves[i];
      if (curve.way.mode == SearchMode::kQuantized) continue;
      curve.way.scalar_bits = bits;
      calibration_.curves.push_back(std::move(curve));
    }
  }

  /// The contexts in which each search mode is the default.
  std::vector<SearchContext> Contexts(const Index& index) const {
    SearchContext memory = ImplOf(index).placed().Context();
    memory.far = memory.block_tier = false;
    memory.ef_scale = 1.0f;
    memory.calibration = &calibration_;
    if (memory.scalar_bits > 0) return {memory};
    std::vector<SearchContext> contexts = {memory};
    SearchContext far = memory, device = memory;
    far.far = true;
    device.far = device.block_tier = true;
    if (memory.has_codes) contexts.insert(contexts.end(), {far, device});
    return contexts;
  }

  absl::Status HoldOut() {
    if (held_out_ != nullptr) return absl::OkStatus();
    HMANN_ASSIGN_OR_RETURN(held_out_, HeldOut::Make(path_, options_.threads, options_.cancelled));
    return absl::OkStatus();
  }

  /// Runs vectors of the index, and corrects their recall to that of queries (HeldOut).
  absl::StatusOr<Counted> Count(ResolvedParams params, std::uint64_t queries, CountingRuns& runs,
                                CountingRuns& left_in) {
    HMANN_ASSIGN_OR_RETURN(Counted counted, runs.Run(params, queries));
    if (left_in.queries() == 0) return counted;
    HMANN_RETURN_IF_ERROR(HoldOut());
    // Nearly all left-in vectors are found, so a quarter of them is as precise.
    HMANN_ASSIGN_OR_RETURN(const double others,
                           OthersThanItself(params, (queries + 3) / 4, left_in));
    HMANN_ASSIGN_OR_RETURN(counted.recall, held_out_->RecallOfQueries(params.k, counted.recall,
                                                                      others, params.nprobe > 0));
    return counted;
  }

  absl::Status AddCurve(const SearchContext& context, std::optional<SearchMode> mode,
                        std::uint32_t k, std::uint64_t queries, CountingRuns& runs,
                        CountingRuns& runs_left_in) {
    HMANN_ASSIGN_OR_RETURN(const ResolvedParams at_one,
                           SearchParams({.k = k, .mode = mode}).Resolve(context));
    // Fewer nodes are promoted than requested.
    if (mode.has_value() && at_one.mode != mode) return absl::OkStatus();
    const auto count = [&](double ef_scale, std::uint64_t of) {
      progress_.Advance(1);
      const ResolvedParams params = WithEfScale(at_one, ef_scale, context.n, context.n1);
      return mode.has_value() ? runs.Run(params, of) : Count(params, of, runs, runs_left_in);
    };
    const bool are_given = !options_.queries.empty();
    const std::uint64_t some = are_given ? queries : Some(queries, k);
    const PointsOfCurve measure(count, some, context.row_bytes,
                                are_given || k == 1 ? kMostBytes / 4 : kMostAtAPoint);
    EfScaleCurve curve(measure, static_cast<double>(some * k), static_cast<double>(context.n),
                       LeastEfScale(at_one));
    std::optional<EfScaleCurve::Point> middle;
    bool reaches = true;
    for (const double recall : kCalibrated) {
      if (k > kMostUsualK && recall < kDefaultRecall) continue;
      const double close = recall == kLeastRecall ? kCloseToLeast : kClose * (1 - recall);
      HMANN_ASSIGN_OR_RETURN(const auto point,
                             curve.Reach(recall, close, 0, recall > kLeastRecall));
      // Settings of the upper layers alone that are no default there are not stored.
      if (mode.has_value() && curve.points().back().counted.recall < kCalibrated[0])
        return absl::OkStatus();
      reaches = point.has_value();
      if (!reaches) break;
      middle = point;
    }
    if (!middle.has_value()) middle = curve.points().back();
    queries = Affordable(queries, middle->counted.Work(), context.row_bytes, kMostBytes);
    HMANN_ASSIGN_OR_RETURN(const Counted all, count(middle->ef_scale, queries));
    const auto answers = static_cast<double>(queries * k);
    const double told = std::min(all.recall, RecallLowerBound(all, kErrors) + kMayBeOff);
    const double shift = Logit(told, answers) - Logit(middle->counted.recall, answers);
    if (reaches) {
      const double most = 1 / (1 + std::exp(shift - Logit(kHighest, answers)));
      HMANN_RETURN_IF_ERROR(curve.Reach(most, kClose * (1 - most)).status());
    }
    Calibration::Curve& made = calibration_.curves.emplace_back();
    made.way = WayOf(at_one, context);
    made.k = k;
    made.queries = queries;
    for (const EfScaleCurve::Point& point : curve.points()) {
      const Counted& counted = point.counted;
      const double before = made.points.empty() ? 0 : made.points.back().recall,
                   shifted = Logit(counted.recall, answers) + shift;
      // A few queries may find less with a higher ef_scale.
      made.points.push_back(
          {static_cast<float>(point.ef_scale), std::max(before, 1 / (1 + std::exp(-shifted))),
           counted.Mean(&Counters::distances_fast) + counted.Mean(&Counters::distances_slow)});
    }
    return absl::OkStatus();
  }

  /// As a share of the misses that a recall leaves. A point need not be nearer to it,
  /// because recall is interpolated.
  static constexpr double kClose = 0.5;
  /// Beyond the lowest point it is not, and lower targets get that.
  static constexpr double kCloseToLeast = 0.02;

  const CalibrateOptions& options_;
  Progress& progress_;
  std::string path_;
  std::vector<std::shared_ptr<const Index>> indexes_;  ///< without codes, with 4 bits, with 8
  LearningSet learning_;
  std::uint64_t learned_ = 0;  ///< queries that it was to have
  Calibration calibration_;
  float relative_rise_ = 0;  ///< Calibration::Difficulty::rise x typical
  std::unique_ptr<HeldOut> held_out_;
};

}  // namespace

absl::StatusOr<Calibration> Calibrate(const std::string& index, const CalibrateOptions& options,
                                      Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(index));
  TunedTable table;
  if (absl::StatusOr<TunedTable> old = ReadTunedTable(index, info.content_hash, info.n); old.ok())
    table = *std::move(old);
  table.content_hash = info.content_hash;
  HMANN_ASSIGN_OR_RETURN(table.calibration, CalibrationOfIndex(options, progress).Run(index));
  HMANN_RETURN_IF_ERROR(WriteTunedTable(index, table));
  // Read it as every search will: rounded.
  HMANN_ASSIGN_OR_RETURN(const TunedTable stored, ReadTunedTable(index, info.content_hash, info.n));
  if (!stored.calibration.has_value())
    return DataLoss(index, ": the calibration was written and is gone");
  return *stored.calibration;
}

absl::Status TakeCalibration(const std::string& from, const std::string& index) {
  HMANN_ASSIGN_OR_RETURN(const IndexInfo before, ReadInfo(from));
  HMANN_ASSIGN_OR_RETURN(TunedTable table, ReadTunedTable(from, before.content_hash, before.n));
  if (!table.calibration.has_value()) return NotFound(from, ": is not calibrated");
  HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(index));
  table.content_hash = info.content_hash;
  table.entries.clear();  // times are of that one
  return WriteTunedTable(index, table);
}

}  // namespace hmann
