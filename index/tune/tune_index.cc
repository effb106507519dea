#include "index/tune/tune_index.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "index/base/clock.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/index_impl.h"
#include "index/tune/dial_grid.h"
#include "index/tune/in_flight.h"
#include "index/tune/learning_set.h"
#include "index/tune/profile.h"

namespace hmann {
namespace {

std::optional<double> Known(double value) {
  return value > 0 ? std::optional(value) : std::nullopt;
}

class TuningOfIndex {
 public:
  TuningOfIndex(const TuneOptions& options, const TuningCheckRequest& check, Progress& progress)
      : options_(options), check_(check), progress_(progress) {}

  absl::StatusOr<TuningRun> Run() {
    if (options_.k.empty())
      return absl::InvalidArgumentError("k: expected at least one, found none");
    // No other codes than those that its times will be kept for.
    OpenOptions open = options_.open;
    open.sq_bits = open.sq_bits.value_or(0);
    HMANN_ASSIGN_OR_RETURN(index_, Index::Open(options_.index, open, &progress_));
    HMANN_RETURN_IF_ERROR(ReadPriors());
    HMANN_RETURN_IF_ERROR(ReadOldTable());
    HMANN_RETURN_IF_ERROR(MakeSets());
    index_->Warm();
    for (const std::uint32_t k : options_.k) HMANN_RETURN_IF_ERROR(TuneFor(k));
    return std::move(run_);
  }

 private:
  absl::Status ReadPriors() {
    if (options_.profile.empty()) return absl::OkStatus();
    HMANN_ASSIGN_OR_RETURN(const DeviceProfile profile, ReadProfile(options_.profile));
    if (const std::string difference = MachineDifference(profile.machine, ThisMachine());
        !difference.empty()) {
      run_.report.warnings.push_back(
          absl::StrCat(options_.profile, ": of another machine (", difference, "): not used"));
      return absl::OkStatus();
    }
    priors_ = PriorsFrom(profile, options_.open);
    return absl::OkStatus();
  }

  /// An old table keeps its other entries, unless it is stale or damaged.
  absl::Status ReadOldTable() {
    const IndexInfo& info = index_->info();
    absl::StatusOr<TunedTable> old = ReadTunedTable(options_.index, info.content_hash, info.n);
    if (old.ok()) {
      table_ = *std::move(old);
    } else if (!absl::IsNotFound(old.status())) {
      run_.report.warnings.push_back(absl::StrCat("replaced: ", old.status().message()));
    }
    table_.content_hash = info.content_hash;
    run_.report.table = TunedPath(options_.index);
    return absl::OkStatus();
  }

  absl::Status MakeSets() {
    LearningOptions learn{.index = options_.index,
                          .queries = options_.queries,
                          .groundtruth = options_.groundtruth,
                          .most = options_.learn};
    learn.k = *std::max_element(options_.k.begin(), options_.k.end());
    if (check_.wanted && check_.queries.empty() && !options_.queries.empty()) {
      HMANN_ASSIGN_OR_RETURN(const VectorFile file, VectorFile::Open(options_.queries));
      learn.most = std::min(learn.most, std::max<std::uint64_t>(1, file.n() / 2));
    }
    HMANN_ASSIGN_OR_RETURN(learning_, MakeLearningSet(learn, progress_));
    if (!check_.wanted) return absl::OkStatus();
    if (check_.queries.empty()) {
      learn.first = learning_.n();
    } else {
      learn.queries = check_.queries;
      learn.groundtruth = check_.groundtruth;
    }
    learn.most = std::max<std::uint64_t>(learn.most, 3000);
    HMANN_ASSIGN_OR_RETURN(test_, MakeLearningSet(learn, progress_));
    run_.test_queries = test_.n();
    return absl::OkStatus();
  }

  absl::Status TuneFor(std::uint32_t k) {
    const std::uint32_t threads = options_.most_query_threads > 0
                                      ? options_.most_query_threads
                                      : static_cast<std::uint32_t>(UsableCores());
    const std::vector<Dials> grid = DialGrid({.k = k,
                                              .context = ImplOf(*index_).placed().Context(),
                                              .most_query_threads = std::min(threads, 64u)});
    TunerOptions tuner;
    tuner.targets = options_.targets;
    tuner.queries = learning_.n();
    tuner.priors = priors_;
    tuner.progress = ProgressOf(absl::StrCat("tune k = ", k));
    TuningRun::ForK of_k;
    of_k.k = k;
    const auto start = std::chrono::steady_clock::now();
    const Measure measure = MeasureOn(index_, learning_);
    const auto unless_cancelled = [&](const Dials& dials, std::uint64_t first,
                                      std::uint64_t count) -> absl::StatusOr<Sample> {
      if (options_.cancelled != nullptr && options_.cancelled->load(std::memory_order_relaxed))
        return absl::CancelledError("the work was cancelled");
      return measure(dials, first, count);
    };
    HMANN_ASSIGN_OR_RETURN(of_k.tuned, TuneDials(grid, unless_cancelled, tuner));
    of_k.seconds = SecondsSince(start);
    progress_.Finish();
    HMANN_ASSIGN_OR_RETURN(TunedEntry entry, Entry(k, of_k.tuned));
    // Stored at once: what is interrupted keeps what was found.
    table_.Put(std::move(entry));
    HMANN_RETURN_IF_ERROR(WriteTunedTable(options_.index, table_));
    run_.report.entries.push_back(table_.entries.back());
    if (check_.wanted) {
      TuningCheckOptions check;
      check.queries = test_.n();
      check.most_queries = check_.most_queries;
      check.progress = ProgressOf(absl::StrCat("check k = ", k), MostCheckRuns(of_k.tuned, check));
      HMANN_ASSIGN_OR_RETURN(of_k.check, CheckTuned(of_k.tuned, MeasureOn(index_, test_), check));
      progress_.Finish();
    }
    run_.of_k.push_back(std::move(of_k));
    return absl::OkStatus();
  }

  /// `runs` 0: unknown.
  std::function<void()> ProgressOf(const std::string& phase, std::uint64_t runs = 0) {
    progress_.Start(phase, runs, "runs");
    return [this] { progress_.Advance(1); };
  }

  absl::StatusOr<TunedEntry> Entry(std::uint32_t k, const Tuned& tuned) const {
    TunedEntry entry;
    entry.placement = PlacementOf(options_.open, options_.open.sq_bits.value_or(0));
    entry.k = k;
    entry.queries = learning_.n();
    entry.origin = learning_.origin;
    entry.cpu = ThisMachine().cpu_model;
    entry.simd = std::string(index_->kernels().simd);
    for (const std::size_t i : tuned.front) {
      const TriedSetting& tried = tuned.settings[i];
      const Measurement& measured = tried.measured;
      entry.settings.push_back({tried.dials, measured.recall, tried.recall_low, measured.recall_p05,
                                measured.mean_us, measured.p95_us, measured.p99_us,
                                tried.predicted.mean_us});
    }
    const auto near_default =
        std::find_if(entry.settings.begin(), entry.settings.end(),
                     [](const TunedSetting& setting) { return setting.recall >= kDefaultRecall; });
    const TunedSetting& of =
        near_default != entry.settings.end() ? *near_default : entry.settings.back();
    HMANN_ASSIGN_OR_RETURN(const InFlight in_flight,
                           MeasureInFlight(index_, learning_, of.dials, options_.cancelled));
    entry.in_flight = in_flight.queries;
    entry.in_flight_gain = in_flight.gain;
    return entry;
  }

  const TuneOptions& options_;
  const TuningCheckRequest& check_;
  Progress& progress_;
  std::shared_ptr<const Index> index_;
  CostPriors priors_;
  TunedTable table_;
  LearningSet learning_, test_;
  TuningRun run_;
};

}  // namespace

CostPriors PriorsFrom(const DeviceProfile& profile, const OpenOptions& open) {
  const auto memory = [&](const std::string& tier) {
    return profile.Memory(tier.starts_with("mapped") ? "dram" : TierWithoutPath(tier));
  };
  CostPriors priors;
  if (const MemoryProfile* slow = memory(open.slow); slow != nullptr) {
    if (!slow->dependent_load.empty())
      priors.round_ns = Known(slow->dependent_load.back().dependent_load_ns.median);
    if (!slow->in_flight.empty())
      priors.touch_ns = Known(slow->in_flight.back().ns_per_line.median);
    priors.bandwidth_gb_per_s = Known(slow->bandwidth_gb_per_s.median);
  } else if (const BlockProfile* blocks = profile.Block(TierWithoutPath(open.slow));
             blocks != nullptr && !blocks->depths.empty()) {
    priors.round_ns = Known(blocks->depths.front().read_us.median * 1000);
    if (const double reads = blocks->depths.back().reads_per_s.median; reads > 0)
      priors.touch_ns = 1e9 / reads;
  }
  return priors;
}

absl::StatusOr<TuneReport> Tune(const TuneOptions& options, Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(TuningRun run, TuneIndex(options, {}, progress));
  return std::move(run.report);
}

absl::StatusOr<TuningRun> TuneIndex(const TuneOptions& options, const TuningCheckRequest& check,
                                    Progress& progress) {
  return TuningOfIndex(options, check, progress).Run();
}

}  // namespace hmann
