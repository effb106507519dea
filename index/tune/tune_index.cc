#include <algorithm>
#include <chrono>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "hmann/tune.h"
#include "index/base/clock.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/index_impl.h"
#include "index/tune/in_flight.h"
#include "index/tune/learning_set.h"
#include "index/tune/tuner.h"

namespace hmann {
namespace {

std::uint64_t QueriesToLearn(std::uint64_t requested, std::uint32_t k) {
  if (requested > 0) return requested;
  constexpr std::uint64_t kOfTheNearest = 20'000, kOfSome = 8'000, kOfMany = 1'500;
  return k == 1 ? kOfTheNearest : k < 100 ? kOfSome : kOfMany;
}

/// If a setting timed against itself differs by more, differences of a few per cent are
/// noise. A guess.
constexpr double kMostDrift = 0.05;

class TuningOfIndex {
 public:
  TuningOfIndex(const TuneOptions& options, Progress& progress)
      : options_(options), progress_(progress) {}

  absl::StatusOr<TuneReport> Run() {
    if (options_.k.empty()) return InvalidArgument("k: expected at least one, found none");
    HMANN_RETURN_IF_ERROR(CheckTargets());
    HMANN_ASSIGN_OR_RETURN(index_, Index::Open(options_.index, options_.open, &progress_));
    // Recall does not depend on the tier, and counting on a device takes longer.
    counted_ = index_;
    if (index_->on_block_tier()) {
      HMANN_ASSIGN_OR_RETURN(
          counted_,
          Index::Open(options_.index, {.fast = "mapped", .slow = "mapped", .sq_bits = 0}));
    }
    HMANN_RETURN_IF_ERROR(ReadOldTable());
    index_->Warm();
    for (const std::uint32_t k : options_.k) HMANN_RETURN_IF_ERROR(TuneFor(k));
    return std::move(report_);
  }

 private:
  absl::Status CheckTargets() {
    if (options_.of_shards < 1)
      return InvalidArgument("of_shards: expected at least 1, found ", options_.of_shards);
    for (const Target& target : options_.targets) {
      if (!(target.recall >= 0 && target.recall <= 1))
        return InvalidArgument("recall: expected a target in (0, 1], found ", target.recall);
      if (!(target.latency_us >= 0) || target.recall + target.latency_us == 0)
        return InvalidArgument("a target needs a recall or a latency");
      if (target.recall > 0) recalls_.push_back(target.recall);
    }
    // The first comparison teaches the others, so start in the middle.
    if (recalls_.empty()) recalls_ = {0.9, 0.95, 0.99};
    std::stable_sort(recalls_.begin(), recalls_.end(), [](double a, double b) {
      return std::abs(a - kDefaultRecall) < std::abs(b - kDefaultRecall);
    });
    return absl::OkStatus();
  }

  /// Keeps the other entries of an old table, unless it is stale or damaged.
  absl::Status ReadOldTable() {
    const IndexInfo& info = index_->info();
    absl::StatusOr<TunedTable> old = ReadTunedTable(options_.index, info.content_hash, info.n);
    if (old.ok()) {
      table_ = *std::move(old);
    } else if (!absl::IsNotFound(old.status())) {
      report_.warnings.push_back(absl::StrCat("replaced: ", old.status().message()));
    }
    table_.content_hash = info.content_hash;
    report_.table = TunedPath(options_.index);
    return absl::OkStatus();
  }

  absl::Status TuneFor(std::uint32_t k) {
    HMANN_ASSIGN_OR_RETURN(const LearningSet learning,
                           MakeLearningSet({.index = options_.index,
                                            .queries = options_.queries,
                                            .groundtruth = options_.groundtruth,
                                            .of_shards = options_.of_shards,
                                            .most = QueriesToLearn(options_.learn, k),
                                            .k = k},
                                           progress_));
    TunedForK of_k;
    const auto start = std::chrono::steady_clock::now();
    const MachineLoad load;
    HMANN_ASSIGN_OR_RETURN(Tuned tuned, Measure(k, learning));
    HMANN_ASSIGN_OR_RETURN(of_k.entry, Entry(k, learning, tuned));
    of_k.others = load.Others();
    of_k.seconds = SecondsSince(start);
    of_k.same_again = tuned.same_again;
    of_k.comparisons = std::move(tuned.comparisons);
    of_k.equation = {tuned.equation.fast_ns(), tuned.equation.slow_ns(),
                     tuned.equation.code_ns(false), tuned.equation.code_ns(true)};
    if (KeepsOld(of_k)) {
      of_k.entry = *table_.Find(of_k.entry.placement, k);
    } else {
      // Stores each at once, so that an interrupted run keeps its results.
      table_.Put(of_k.entry);
      HMANN_RETURN_IF_ERROR(WriteTunedTable(options_.index, table_));
    }
    for (const Target& target : options_.targets)
      of_k.choices.push_back({target, table_.Choose(of_k.entry.placement, k, target)});
    report_.of_k.push_back(std::move(of_k));
    return absl::OkStatus();
  }

  absl::StatusOr<Tuned> Measure(std::uint32_t k, const LearningSet& learning) {
    CountingRuns counting(counted_, learning, 0, options_.cancelled);
    TimedRuns timing(ImplOf(*index_).placed(),
                     {learning.n(), [&](std::uint64_t i) { return learning.Row(i); },
                      [&](std::uint64_t i) { return learning.Limits(i); }});
    const auto time = [&](const ResolvedParams& params, std::uint64_t first,
                          std::uint64_t queries) -> absl::StatusOr<Timed> {
      if (options_.cancelled != nullptr && options_.cancelled->load(std::memory_order_relaxed))
        return absl::CancelledError("the work was cancelled");
      return timing.Run(params, first, queries);
    };
    const auto count = [&](const ResolvedParams& params, std::uint64_t queries) {
      return counting.Run(params, queries);
    };
    TunerOptions tuner{.k = k, .recalls = recalls_, .queries = learning.n()};
    tuner.context = ImplOf(*index_).placed().Context();
    // Searches will follow the query as it says.
    const IndexImpl::Table table = ImplOf(*index_).tuned();
    if (table->ok() && (*table)->calibration.has_value())
      tuner.context.calibration = &*(*table)->calibration;
    tuner.most_query_threads = std::clamp(options_.most_query_threads, 1u, kMaxQueryThreads);
    progress_.Start(absl::StrCat("tune k = ", k), 0, "runs");
    tuner.progress = [this] { progress_.Advance(1); };
    HMANN_ASSIGN_OR_RETURN(Tuned tuned, TuneParams({count, time}, tuner));
    progress_.Finish();
    return tuned;
  }

  /// Warns of results that are noise. True: they do not replace what is stored.
  bool KeepsOld(const TunedForK& of_k) {
    const bool drifted = std::abs(of_k.same_again - 1) > kMostDrift;
    if (of_k.others.quiet() && !drifted) return false;
    const TunedEntry& entry = of_k.entry;
    const bool keeps = !options_.accept_noise && table_.Find(entry.placement, entry.k) != nullptr;
    report_.warnings.push_back(absl::StrFormat(
        "k = %d: the machine was not quiet: %s, and a setting took %.2f times as long as itself; "
        "recalls are exact, times are not. %s",
        entry.k, of_k.others.Describe(), of_k.same_again,
        keeps ? "What was stored before stays; --accept-noise replaces it"
              : "A run when nothing else runs replaces them"));
    return keeps;
  }

  absl::StatusOr<TunedEntry> Entry(std::uint32_t k, const LearningSet& learning,
                                   const Tuned& tuned) const {
    TunedEntry entry;
    entry.placement = ImplOf(*index_).placement();
    entry.k = k;
    entry.of_shards = options_.of_shards;
    entry.queries = learning.n();
    entry.origin = learning.origin;
    entry.cpu = ThisMachine().cpu_model;
    entry.simd = std::string(index_->kernels().simd);
    entry.settings = tuned.front;
    const auto near_default =
        std::find_if(entry.settings.begin(), entry.settings.end(),
                     [](const TunedSetting& setting) { return setting.recall >= kDefaultRecall; });
    const TunedSetting& of =
        near_default != entry.settings.end() ? *near_default : entry.settings.back();
    HMANN_ASSIGN_OR_RETURN(const InFlight in_flight,
                           MeasureInFlight(index_, learning, of.params, options_.cancelled));
    entry.in_flight = in_flight.queries;
    entry.in_flight_gain = in_flight.gain;
    return entry;
  }

  const TuneOptions& options_;
  Progress& progress_;
  std::shared_ptr<const Index> index_;
  std::shared_ptr<const Index> counted_;  ///< the same index in memory, if the other is on a device
  std::vector<double> recalls_;
  TunedTable table_;
  TuneReport report_;
};

}  // namespace

absl::StatusOr<TuneReport> Tune(const TuneOptions& options, Progress& progress) {
  return TuningOfIndex(options, progress).Run();
}

}  // namespace hmann
