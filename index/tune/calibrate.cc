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
    HMANN_ASSIGN_OR_RETURN(learning_, options_.queries.empty() ? MakeLeftOut(learn, progress_)
                                                               : MakeLearningSet(learn, progress_));
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
    progress_.Finish();
    return calibration;
  }

 private:
  /// Where each way of searching is the default, by walk and cells.
  std::vector<SearchContext> Contexts() const {
    SearchContext memory = ImplOf(*index_).placed().Context();
    memory.far = memory.block_tier = false;
    std::vector<SearchContext> contexts;
    // Codes of links are the default in memory, too.
    if (!memory.has_codes || memory.has_cells) contexts.push_back(memory);
    SearchContext far = memory, device = memory;
    far.far = true;
    device.far = device.block_tier = true;
    if (memory.has_codes) contexts.push_back(far);
    if (memory.has_cells) contexts.push_back(device);
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
      HMANN_ASSIGN_OR_RETURN(const double recall, Recall(dials));
      curve.points.push_back({static_cast<float>(effort), recall});
      return recall;
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
    std::sort(curve.points.begin(), curve.points.end(),
              [](const auto& a, const auto& b) { return a.effort < b.effort; });
    // A few queries may find less with more effort.
    for (std::size_t i = 1; i < curve.points.size(); ++i)
      curve.points[i].recall = std::max(curve.points[i].recall, curve.points[i - 1].recall);
    return curve;
  }

  absl::StatusOr<double> Recall(const Dials& dials) {
    constexpr std::size_t kChunk = 8;
    std::vector<double> recalls(learning_.n());
    std::vector<absl::Status> outcome(searchers_.size());
    pool_.ParallelFor(learning_.n(), kChunk, [&](std::size_t begin, std::size_t end, int thread) {
      const auto place = static_cast<std::size_t>(thread);
      Answer answer;
      for (std::size_t i = begin; i < end && outcome[place].ok(); ++i) {
        SearchLimits limits;
        if (!learning_.left_out.empty()) limits.excluded = learning_.left_out[i];
        outcome[place] =
            searchers_[place].Search(learning_.Row(i), dials, &answer, nullptr, limits);
        if (outcome[place].ok()) recalls[i] = RecallOf(i, dials.k, answer);
      }
    });
    for (const absl::Status& status : outcome) HMANN_RETURN_IF_ERROR(status);
    if (options_.cancelled != nullptr && options_.cancelled->load(std::memory_order_relaxed))
      return absl::CancelledError("the work was cancelled");
    progress_.Advance(1);
    double sum = 0;
    for (const double recall : recalls) sum += recall;
    return sum / static_cast<double>(recalls.size());
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
