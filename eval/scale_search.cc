#include "eval/scale_search.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/disk_results.h"
#include "eval/disk_sweep.h"
#include "eval/own_contestants.h"
#include "eval/results.h"
#include "eval/scale_dials.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

using Say = std::function<void(const std::string&)>;

/// Learning queries on a device, where each takes long.
constexpr std::uint64_t kLearnOnDevice = 150;
/// Untimed queries before each timed run.
constexpr std::uint64_t kWarmUpQueries = 100;

/// Searches of one index on one tier.
class TierSearch {
 public:
  TierSearch(const ScaleOptions& options, const SizedData& data, const SizedIndex& index,
             const std::string& tier, Progress& progress)
      : options_(options),
        data_(data),
        index_(index),
        tier_(tier),
        device_(tier.starts_with("nvme")),
        progress_(progress) {}

  /// Settings of every walk for the queries that figures are of. Errors: those of
  /// RunSweep.
  absl::StatusOr<Json> Learn() {
    HMANN_ASSIGN_OR_RETURN(SweepOptions sweep, Sweep("learn", data_.learn, data_.learn_truth));
    if (device_) sweep.job.query_rows = std::min(data_.learn_count, kLearnOnDevice);
    const bool cells = index_.info.codes.bits > 0;
    Json grid = Json::array();
    for (const std::string& walk : options_.walks) {
      for (Json& setting : DialGrid(walk, device_, cells, options_.job.metric))
        grid.push_back(std::move(setting));
    }
    if (grid.empty()) return grid;
    sweep.contestants[0].settings = std::move(grid);
    sweep.warm_up_queries = 0;
    sweep.rounds = 1;
    HMANN_ASSIGN_OR_RETURN(const SweepResult learned, RunSweep(sweep, progress_, Quiet()));
    Json chosen = Json::array();
    for (const std::string& walk : options_.walks) {
      const ContestantRuns of_walk = Costed(learned.runs[0], walk, learned.reading);
      for (Json& setting : SettingsAround(of_walk, learned.reading))
        chosen.push_back(std::move(setting));
    }
    return chosen;
  }

  /// A contestant's runs for each shape.
  absl::StatusOr<SweepResult> Ask(const Json& settings, Json* searched) {
    HMANN_ASSIGN_OR_RETURN(SweepOptions sweep, Sweep("ask", data_.ask, data_.ask_truth));
    sweep.contestants[0].settings = settings;
    sweep.shapes = options_.shapes;
    if (!device_) return RunSweep(sweep, progress_, Quiet());
    DiskSweepOptions disk;
    disk.sweep = std::move(sweep);
    disk.targets_at_1.clear();
    disk.shapes = options_.shapes;
    disk.memory_limit =
        options_.memory_limit.value_or(ScaleMemoryLimit(index_.info.n, index_.fast_bytes));
    disk.disk = options_.disk;
    HMANN_ASSIGN_OR_RETURN(DiskSweepResult result, RunDiskSweep(disk, progress_, Quiet()));
    const LimitedMemory& memory = result.memory[0];
    (*searched)["memory"].push_back({{"tier", tier_},
                                     {"limit_bytes", memory.limit_bytes},
                                     {"loaded_bytes", memory.loaded_bytes},
                                     {"peak_bytes", memory.peak_bytes}});
    const Json told = ToJson(result);
    (*searched)["drives"].push_back({{"tier", tier_}, {"measured", told["disk"]["measured"]}});
    drives_ = std::move(result.disks);
    return std::move(result.sweep);
  }

  /// Rows of what Ask gave.
  void AddRows(const SweepResult& result, const MemoryProfile& dram, Json* rows) const {
    for (const ContestantRuns& shaped : result.runs) {
      for (const std::string& walk : options_.walks) {
        const ContestantRuns runs = Costed(shaped, walk, result.reading);
        if (runs.settings.empty()) continue;
        const ContestantFigures figures = Read({runs}, result.reading)[0];
        for (const TargetFigures& at : figures.targets)
          rows->push_back(Row(figures, at, result.reading, dram));
      }
    }
  }

 private:
  absl::StatusOr<SweepOptions> Sweep(const std::string& what, const std::string& queries,
                                     const std::string& truth) const {
    Json build = {{"index", index_.path}, {"fast", "dram"}, {"slow", tier_}};
    if (tier_ != "dram") build.update(index_.cache);
    HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, FinishedContestant("hmann", build));
    SweepOptions sweep;
    sweep.job = options_.job;
    sweep.job.base.clear();
    sweep.job.queries = queries;
    sweep.job.query_rows = 0;
    sweep.job.folder =
        absl::StrCat(index_.folder, "/", tier_.substr(0, tier_.find(':')), "-", what);
    sweep.groundtruth = truth;
    sweep.shape = DataShape{index_.info.n, index_.info.dim, index_.info.dtype};
    sweep.contestants = {std::move(spec)};
    sweep.rounds = options_.rounds;
    sweep.targets = options_.targets;
    sweep.reference.clear();
    sweep.warm_up_queries = kWarmUpQueries;
    return sweep;
  }

  ContestantRuns Costed(const ContestantRuns& runs, const std::string& walk,
                        const Reading& reading) const {
    return ByCost(Filter(runs, walk, {{"walk", walk}}), device_, reading);
  }

  /// Sweeps inside say little that is news here.
  static Say Quiet() {
    return [](const std::string&) {};
  }

  /// What memory or drive allow; null where that cannot be told.
  Json LimitQps(const RunShape& shape, const std::optional<double>& lines,
                const std::optional<double>& reads, const std::optional<double>& rounds,
                const MemoryProfile& dram) const {
    if (device_) {
      for (const DiskFigures& drive : drives_) {
        if (drive.threads == shape.threads && reads && rounds)
          return OrNull(
              DriveLimitQps(drive.depths, *reads, *rounds, shape.threads * shape.in_flight));
      }
      return nullptr;
    }
    if (tier_ != "dram") return nullptr;
    const std::optional<double> one = MemoryLimitQps(dram.in_flight, lines);
    return one ? Json(shape.threads * *one) : Json(nullptr);
  }

  Json Row(const ContestantFigures& figures, const TargetFigures& at, const Reading& reading,
           const MemoryProfile& dram) const {
    const RunShape shape = ShapeOfSetting(figures.points[0].setting);
    const auto counter = [&](const char* name) {
      return CounterAtRecall(figures, name, at.target, reading);
    };
    const std::optional<double> lines = counter("lines");
    const std::optional<double> qps = ObservedAtRecall(figures, "qps", at.target, reading);
    const std::optional<double> reads = counter("io_reads"), rounds = counter("rounds");
    const Json limit = LimitQps(shape, lines, reads, rounds, dram);
    Json row = {{"tier", tier_},
                {"walk", figures.name},
                {"threads", shape.threads},
                {"in_flight", shape.in_flight},
                {"target", at.target},
                {"at_recall", OrNull(at.at_recall)},
                {"qps", OrNull(qps)}};
    for (const char* name : {"mean_us", "p99_us"})
      row[name] = OrNull(ObservedAtRecall(figures, name, at.target, reading));
    for (const char* name : {"distances", "estimates", "slow_reads", "slow_bytes"})
      row[name] = OrNull(counter(name));
    row["rounds"] = OrNull(rounds);
    row["io_reads"] = OrNull(device_ ? reads : std::nullopt);
    row["lines"] = OrNull(lines);
    row["limit_qps"] = limit;
    row["of_limit"] = limit.is_null() || !qps ? Json(nullptr) : Json(*qps / limit.get<double>());
    return row;
  }

  const ScaleOptions& options_;
  const SizedData& data_;
  const SizedIndex& index_;
  std::string tier_;
  bool device_;
  Progress& progress_;
  std::vector<DiskFigures> drives_;
};

/// The most that any setting's open index took.
void TakePlacedBytes(const SweepResult& result, Json* searched) {
  for (const ContestantRuns& runs : result.runs) {
    for (const SettingRuns& setting : runs.settings) {
      if (setting.counters.is_object() && setting.counters.contains("fast_bytes"))
        (*searched)["placed_bytes"] = setting.counters["fast_bytes"];
    }
  }
}

}  // namespace

absl::StatusOr<Json> SearchOnTiers(const ScaleOptions& options, const SizedData& data,
                                   const SizedIndex& index, const MemoryProfile& dram,
                                   Progress& progress, const Say& say) {
  Json searched = {{"placed_bytes", nullptr},
                   {"memory", Json::array()},
                   {"drives", Json::array()},
                   {"rows", Json::array()}};
  for (const std::string& tier : options.tiers) {
    TierSearch search(options, data, index, tier, progress);
    say(absl::StrFormat("  %g bytes: dials for L0 on %s", index.fast_bytes, tier));
    HMANN_ASSIGN_OR_RETURN(const Json settings, search.Learn());
    if (settings.empty()) {
      say("  the index can run none of the walks: nothing to tell");
      continue;
    }
    say(absl::StrFormat("  %g bytes: %d settings on %s, of %d other queries", index.fast_bytes,
                        settings.size(), tier, data.ask_count));
    HMANN_ASSIGN_OR_RETURN(const SweepResult result, search.Ask(settings, &searched));
    search.AddRows(result, dram, &searched["rows"]);
    if (tier.starts_with("nvme") || searched["placed_bytes"].is_null())
      TakePlacedBytes(result, &searched);
  }
  return searched;
}

}  // namespace hmann
