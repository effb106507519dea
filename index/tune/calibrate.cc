#include "index/tune/calibrate.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datasets/recall.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"
#include "index/format/tuned_table.h"
#include "index/index_impl.h"
#include "index/tune/learning_set.h"

namespace hmann {
namespace {

constexpr std::array<std::uint32_t, 3> kCalibratedK = {1, 10, 100};

/// Of so few vectors fewer queries say as much.
std::uint64_t LearningQueries(const CalibrateOptions& options, std::uint64_t n) {
  constexpr std::uint64_t kLeast = 30, kVectorsAQuery = 20;
  return std::min<std::uint64_t>(options.learn, std::max(kLeast, n / kVectorsAQuery));
}

class CalibrationOfIndex {
 public:
  CalibrationOfIndex(const CalibrateOptions& options, Progress& progress)
      : options_(options),
        progress_(progress),
        pool_(options.threads > 0 ? options.threads : UsableCores()) {}

  absl::StatusOr<Calibration> Run(const std::string& path) {
    HMANN_ASSIGN_OR_RETURN(index_, Index::Open(path, {.fast = "mapped", .slow = "mapped"}));
    const std::uint64_t n = index_->info().n;
    LearningOptions learn;
    learn.index = path;
    learn.queries = options_.queries;
    learn.most = LearningQueries(options_, n);
    const std::uint64_t most_k = options_.queries.empty() ? std::max<std::uint64_t>(n, 2) - 1 : n;
    learn.k = static_cast<std::uint32_t>(std::min<std::uint64_t>(kCalibratedK.back(), most_k));
    HMANN_ASSIGN_OR_RETURN(learning_, MakeLearningSet(learn, progress_));
    for (int i = 0; i < pool_.threads(); ++i) searchers_.emplace_back(index_);
    Calibration calibration{.queries = learning_.n(), .origin = learning_.origin, .curves = {}};
    progress_.Start("calibrate", 0, "settings");
    for (const SearchContext& context : Contexts()) {
      for (const std::uint32_t k : kCalibratedK) {
        if (k > learn.k) continue;
        HMANN_ASSIGN_OR_RETURN(Calibration::Curve curve, CurveOf(context, k));
        calibration.curves.push_back(std::move(curve));
      }
    }
    for (const std::uint32_t k : kCalibratedK) {
      if (k > learn.k) continue;
      HMANN_ASSIGN_OR_RETURN(Calibration::Curve curve, UpperCurve(Contexts().front(), k));
      if (!curve.points.empty() && curve.points.back().recall > kLeastCalibrated)
        calibration.curves.push_back(std::move(curve));
    }
    progress_.Finish();
    return calibration;
  }

 private:
  /// Where each way of searching is the default, by walk and cells.
  std::vector<SearchContext> Contexts() const {
    SearchContext memory = ImplOf(*index_).placed().Context();
    memory.far = memory.block_tier = false;
    std::vector<SearchContext> contexts;
    contexts.push_back(memory);
    SearchContext far = memory, device = memory;
    far.far = true;
    device.far = device.block_tier = true;
    if (memory.has_codes) contexts.insert(contexts.end(), {far, device});
    return contexts;
  }

  absl::StatusOr<Calibration::Curve> CurveOf(SearchContext context, std::uint32_t k) {
    Calibration::Curve curve;
    curve.k = k;
    const auto measure = [&](double effort) -> absl::StatusOr<double> {
      context.effort = static_cast<float>(effort);
      HMANN_ASSIGN_OR_RETURN(const Dials dials, SearchOptions{.k = k}.Resolve(context));
      curve.walk = dials.walk;
      curve.cells = dials.nprobe > 0;
      HMANN_RETURN_IF_ERROR(AddPoint(dials, effort, curve));
      return curve.points.back().recall;
    };
    HMANN_ASSIGN_OR_RETURN(const double middle, measure(1));
    double recall = middle;
    for (double effort = 1; recall < kMostCalibrated && effort < kMostEffort;) {
      HMANN_ASSIGN_OR_RETURN(recall, measure(effort *= kEffortStep));
    }
    recall = middle;
    for (double effort = 1; recall > kLeastCalibrated && effort > kLeastEffort;) {
      HMANN_ASSIGN_OR_RETURN(recall, measure(effort /= kEffortStep));
    }
    Straighten(curve);
    return curve;
  }

  /// The upper layers alone, until more of them finds no more: what is missing is in L0.
  absl::StatusOr<Calibration::Curve> UpperCurve(SearchContext context, std::uint32_t k) {
    // A guess: twice the effort for less than a hundredth more will not reach the target.
    constexpr std::size_t kSteps = 2;
    constexpr double kLeastGain = 0.01;
    Calibration::Curve curve{.walk = WalkKind::kUpper, .k = k};
    for (double effort = 1; effort <= kMostEffort; effort *= kEffortStep) {
      context.effort = static_cast<float>(effort);
      HMANN_ASSIGN_OR_RETURN(const Dials dials,
                             SearchOptions({.k = k, .walk = WalkKind::kUpper}).Resolve(context));
      if (dials.walk != WalkKind::kUpper) break;  // fewer are promoted than are asked for
      HMANN_RETURN_IF_ERROR(AddPoint(dials, effort, curve));
      const std::vector<Calibration::Point>& points = curve.points;
      if (points.back().recall >= kMostCalibrated) break;
      if (points.size() > kSteps &&
          points.back().recall - points[points.size() - 1 - kSteps].recall < kLeastGain)
        break;
    }
    Straighten(curve);
    return curve;
  }

  static void Straighten(Calibration::Curve& curve) {
    std::sort(curve.points.begin(), curve.points.end(),
              [](const auto& a, const auto& b) { return a.effort < b.effort; });
    // A few queries may find less with more effort.
    for (std::size_t i = 1; i < curve.points.size(); ++i)
      curve.points[i].recall = std::max(curve.points[i].recall, curve.points[i - 1].recall);
  }

  absl::Status AddPoint(const Dials& dials, double effort, Calibration::Curve& curve) {
    constexpr std::size_t kChunk = 8;
    std::vector<double> recalls(learning_.n());
    std::vector<absl::Status> outcome(searchers_.size());
    std::vector<Counters> counters(searchers_.size());
    pool_.ParallelFor(learning_.n(), kChunk, [&](std::size_t begin, std::size_t end, int thread) {
      const auto place = static_cast<std::size_t>(thread);
      Answer answer;
      for (std::size_t i = begin; i < end && outcome[place].ok(); ++i) {
        outcome[place] = searchers_[place].Search(learning_.Row(i), dials, &answer,
                                                  &counters[place], learning_.Limits(i));
        if (outcome[place].ok()) recalls[i] = RecallOf(i, dials.k, answer);
      }
    });
    for (const absl::Status& status : outcome) HMANN_RETURN_IF_ERROR(status);
    if (options_.cancelled != nullptr && options_.cancelled->load(std::memory_order_relaxed))
      return absl::CancelledError("the work was cancelled");
    progress_.Advance(1);
    Calibration::Point& point = curve.points.emplace_back();
    point.effort = static_cast<float>(effort);
    for (const double recall : recalls) point.recall += recall;
    std::uint64_t distances = 0;
    for (const Counters& of_thread : counters)
      distances += of_thread.distances_fast + of_thread.distances_slow;
    point.recall /= static_cast<double>(recalls.size());
    point.distances = static_cast<double>(distances) / static_cast<double>(recalls.size());
    return absl::OkStatus();
  }

  double RecallOf(std::uint64_t query, std::uint32_t k, const Answer& answer) const {
    std::vector<std::uint64_t> ids;
    std::vector<float> distances;
    for (const Neighbour& neighbour : answer.nearest) {
      ids.push_back(neighbour.label);
      distances.push_back(neighbour.distance);
    }
    return RecallAtK(learning_.truth, query, k, ids, distances);
  }

  const CalibrateOptions& options_;
  Progress& progress_;
  ThreadPool pool_;
  std::shared_ptr<const Index> index_;
  LearningSet learning_;
  std::vector<Searcher> searchers_;
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
  // As every search will read it: rounded.
  HMANN_ASSIGN_OR_RETURN(const TunedTable stored, ReadTunedTable(index, info.content_hash, info.n));
  if (!stored.calibration.has_value())
    return absl::DataLossError(absl::StrCat(index, ": the calibration was written and is gone"));
  return *stored.calibration;
}

absl::StatusOr<CalibratedBuild> BuildAndCalibrate(const BuildOptions& build,
                                                  const CalibrateOptions& options,
                                                  Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(BuildReport report, Build(build, progress));
  CalibratedBuild built{std::move(report), absl::NotFoundError("not asked for")};
  if (!options.wanted) return built;
  built.calibration =
      Calibrate(build.out.empty() ? build.from_index : build.out, options, progress);
  return built;
}

}  // namespace hmann
