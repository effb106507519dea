#include "eval/interleaved_runs.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/recall.h"
#include "eval/results.h"
#include "index/base/clock.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann::eval {
namespace {

/// Mean recall of answers of k ids each.
double MeanRecall(const GroundTruth& truth, std::uint32_t k,
                  const std::vector<std::uint64_t>& ids) {
  const std::uint64_t queries = ids.size() / k;
  std::vector<double> recalls;
  recalls.reserve(queries);
  for (std::uint64_t q = 0; q < queries; ++q) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(q * k);
    const auto end = std::find(begin, begin + k, kNoNeighbor);
    recalls.push_back(RecallAtK(truth, q, k, std::span<const std::uint64_t>(begin, end), {}));
  }
  return SummarizeRecall(std::move(recalls)).mean;
}

std::string HowBuilt(const Json& ready) {
  if (ready["finished"].get<bool>()) return "finished before";
  return absl::StrFormat("built in %s%s", FormatDuration(ready["build_seconds"].get<double>()),
                         ready["cached"].get<bool>() ? " (kept from before)" : "");
}

Json ToJson(const CurveSpec& curve) {
  return {{"name", curve.name},
          {"match", curve.match},
          {"kind", curve.kind},
          {"aside", curve.aside},
          {"beside", curve.beside}};
}

/// The named curves; otherwise one of all settings, and one per mode if there are
/// several. The latter are aside, unless the system is shown by mode.
Json CurvesOfSpec(const SystemSpec& spec) {
  std::vector<CurveSpec> curves = spec.curves;
  std::set<std::string> modes;
  for (const Json& setting : spec.settings) {
    if (setting.contains("mode") && setting["mode"].is_string())
      modes.insert(setting["mode"].get<std::string>());
  }
  const auto add = [&](const std::string& mode, const Json& match, bool aside) {
    curves.push_back({spec.name + mode, match, "measured", aside});
    if (!spec.again_of.empty() && !aside) curves.back().beside["again"] = spec.again_of + mode;
  };
  if (spec.curves.empty()) {
    if (!spec.by_mode) add("", Json::object(), false);
    for (const std::string& mode : modes)
      if (spec.by_mode || modes.size() > 1) add(" " + mode, {{"mode", mode}}, !spec.by_mode);
  }
  Json all = Json::array();
  for (const CurveSpec& curve : curves) all.push_back(ToJson(curve));
  return all;
}

Json PlaceOf(const Benchmark& benchmark, const SystemSpec& spec) {
  Json place = Json::object();
  for (const char* key : {"slow", "server"})
    if (spec.build.contains(key)) place[key] = spec.build[key];
  if (benchmark.memory_limit) place["memory_limit"] = *benchmark.memory_limit;
  return place;
}

/// The running part of a benchmark: systems, and the lines written about them.
class InterleavedRuns {
 public:
  InterleavedRuns(const Benchmark& benchmark, const GroundTruth& truth, std::uint64_t n,
                  MemoryPlaces& places, Progress& progress, const Say& say)
      : benchmark_(benchmark),
        truth_(truth),
        n_(n),
        places_(places),
        progress_(progress),
        say_(say) {}

  absl::Status Start(const Json& head) {
    HMANN_RETURN_IF_ERROR(lines_.Open(benchmark_.job.folder));
    HMANN_RETURN_IF_ERROR(lines_.Write(head));
    if (!places_.device().is_null()) HMANN_RETURN_IF_ERROR(Write(places_.device()));
    HMANN_RETURN_IF_ERROR(Write({{"kind", "dram"}, {"gathers", benchmark_.gathers}}));
    for (const SystemSpec& spec : benchmark_.systems) {
      say_(absl::StrCat(spec.name, ": building or loading"));
      HMANN_ASSIGN_OR_RETURN(System system, System::Start(spec, benchmark_.job));
      HMANN_RETURN_IF_ERROR(places_.Loaded(systems_.size(), system.pid(), say_));
      Json ready = system.ready();
      say_(absl::StrCat(spec.name, ": ", ready["library"].get<std::string>(), ", ",
                        FormatSize(ready["index_bytes"].get<std::uint64_t>()), ", ",
                        HowBuilt(ready), ", ", system.spec().settings.size(), " settings"));
      settings_.push_back(InShapes(system.spec()));
      places_of_.push_back(PlaceOf(benchmark_, spec));
      Json line = {{"kind", "system"},
                   {"system", spec.name},
                   {"place", places_of_.back()},
                   {"synthetic", benchmark_.synthetic},
                   {"device", benchmark_.systems[0].name},
                   {"curves", CurvesOfSpec(system.spec())},
                   {"build", spec.build}};
      for (const char* ours : {"settings", "counts", "finished", "index_file"}) ready.erase(ours);
      line.update(ready);
      line.update(spec.reported);
      HMANN_RETURN_IF_ERROR(Write(std::move(line)));
      systems_.push_back(std::move(system));
    }
    return absl::OkStatus();
  }

  /// Touches every index before any timing: by counted runs if a system can count (once
  /// for settings of equal parameters), else by one run.
  absl::Status WarmUp() {
    std::vector<Turn> turns;
    for (std::size_t c = 0; c < systems_.size(); ++c) {
      const std::size_t settings = settings_[c].size();
      for (std::size_t s = 0; s < settings; ++s) {
        if (Counts(c) ? SameParams(c, s) == s : s == settings / 2) turns.push_back({c, s});
      }
    }
    progress_.Start("warm-up", turns.size(), "runs");
    for (const Turn& turn : turns) {
      const Json& setting = settings_[turn.system][turn.setting];
      HMANN_ASSIGN_OR_RETURN(const RunAnswer answer,
                             systems_[turn.system].Run(setting, Counts(turn.system)));
      progress_.Advance(1);
      if (!Counts(turn.system)) continue;
      HMANN_RETURN_IF_ERROR(Write({{"kind", "count"},
                                   {"system", systems_[turn.system].name()},
                                   {"setting", setting},
                                   {"recall", MeanRecall(truth_, benchmark_.job.k, answer.ids)},
                                   {"counters", answer.counters}}));
    }
    progress_.Finish();
    return absl::OkStatus();
  }

  absl::Status Round(int round) {
    std::vector<std::size_t> settings_of;
    std::vector<pid_t> ours;
    settings_of.reserve(settings_.size());
    ours.reserve(systems_.size());
    for (const Json& settings : settings_) settings_of.push_back(settings.size());
    for (const System& system : systems_) ours.push_back(system.pid());
    const std::vector<Turn> turns = Schedule(settings_of, round);
    progress_.Start(absl::StrCat("round ", round + 1, " of ", benchmark_.rounds), turns.size(),
                    "runs");
    const MachineLoad load(ours);
    for (const Turn& turn : turns) {
      HMANN_RETURN_IF_ERROR(RunTurn(turn, round));
      progress_.Advance(1);
    }
    progress_.Finish();
    const OthersShare others = load.Others();
    return Write({{"kind", "round"},
                  {"round", round},
                  {"others_busy", others.busy},
                  {"others_steal", others.steal}});
  }

  absl::StatusOr<std::vector<Json>> Finish() {
    for (const Json& memory : places_.Used()) HMANN_RETURN_IF_ERROR(Write(memory));
    for (System& system : systems_) HMANN_RETURN_IF_ERROR(system.Stop());
    return lines_.Commit();
  }

 private:
  absl::Status Write(Json line) {
    line["data"] = n_;
    return lines_.Write(std::move(line));
  }

  Json InShapes(const SystemSpec& spec) const {
    if (benchmark_.shapes.empty()) return spec.settings;
    std::vector<RunShape> shapes;
    for (const RunShape& shape : benchmark_.shapes) {
      const RunShape able = {shape.threads, spec.keeps_several ? shape.in_flight : 1};
      const bool known = std::any_of(shapes.begin(), shapes.end(), [&](const RunShape& other) {
        return other.threads == able.threads && other.in_flight == able.in_flight;
      });
      if (!known) shapes.push_back(able);
    }
    return Shaped(spec.settings, shapes);
  }

  /// Repeats a disturbed run once. If the repetition is disturbed too, the line says so.
  absl::Status RunTurn(const Turn& turn, int round) {
    System& system = systems_[turn.system];
    const Json& setting = settings_[turn.system][turn.setting];
    for (const bool last : {false, true}) {
      if (benchmark_.warm_up_queries > 0) {
        HMANN_RETURN_IF_ERROR(system.WarmUp(
            setting, std::min(benchmark_.warm_up_queries, benchmark_.job.query_count)));
      }
      const auto begin = std::chrono::steady_clock::now();
      const MachineLoad load({system.pid()});
      HMANN_ASSIGN_OR_RETURN(const RunAnswer answer, system.Run(setting, false));
      OthersShare others = load.Others();
      const Json& place = places_of_[turn.system];
      if (place.contains("server")) others.busy = 0;  // a process that we cannot observe
      const double interval = SecondsSince(begin);
      const bool single =
          !system.ready()["waits"].get<bool>() && ShapeOfSetting(setting).threads == 1;
      const bool noisy = Disturbed(answer, others, interval, single);
      if (noisy && !last) continue;
      Json line = {{"kind", "run"},
                   {"system", system.name()},
                   {"place", place},
                   {"setting", setting},
                   {"round", round}};
      AddFigures(answer, &line);
      line["others_busy"] = others.busy;
      line["others_steal"] = others.steal;
      if (noisy) line["noisy"] = true;
      return Write(std::move(line));
    }
    return absl::OkStatus();
  }

  void AddFigures(const RunAnswer& answer, Json* line) const {
    const auto queries = static_cast<double>(benchmark_.job.query_count);
    const bool cpu = benchmark_.clock == RunClock::kCpu;
    Json& to = *line;
    to["recall"] = MeanRecall(truth_, benchmark_.job.k, answer.ids);
    to["qps"] = queries / (cpu ? answer.cpu_seconds : answer.seconds);
    to["seconds"] = answer.seconds;
    to["cpu_seconds"] = answer.cpu_seconds;
    if (!answer.latency) return;
    to["mean_us"] = answer.latency->mean;
    to["p50_us"] = answer.latency->p50;
    to["p99_us"] = answer.latency->p99;
    to["cpu_us"] = answer.cpu_seconds / queries * 1e6;
    to["read_bytes"] = static_cast<double>(answer.read_bytes) / queries;
  }

  bool Counts(std::size_t c) const { return systems_[c].ready()["counts"].get<bool>(); }

  /// The first setting of a system with the same parameters as its setting s.
  std::size_t SameParams(std::size_t c, std::size_t s) const {
    const Json params = SettingWithoutThreads(settings_[c][s]);
    std::size_t first = 0;
    while (SettingWithoutThreads(settings_[c][first]) != params) ++first;
    return first;
  }

  const Benchmark& benchmark_;
  const GroundTruth& truth_;
  std::uint64_t n_;
  MemoryPlaces& places_;
  Progress& progress_;
  const Say& say_;
  ResultFile lines_;
  std::vector<System> systems_;
  std::vector<Json> settings_, places_of_;  ///< by system
};

}  // namespace

bool Disturbed(const RunAnswer& answer, const OthersShare& others, double interval_seconds,
               bool single) {
  constexpr double kTellsSomething = 0.2;  // seconds (MachineLoad)
  constexpr double kWaited = 1.1;          // times the CPU time: a guess, as
                                           // OthersShare's
  return (interval_seconds >= kTellsSomething && !others.quiet()) ||
         (single && answer.seconds > kWaited * answer.cpu_seconds);
}

absl::StatusOr<std::vector<Json>> RunInterleaved(const Benchmark& benchmark,
                                                 const GroundTruth& truth, const Json& head,
                                                 std::uint64_t n, MemoryPlaces* places,
                                                 Progress& progress, const Say& say) {
  InterleavedRuns runs(benchmark, truth, n, *places, progress, say);
  HMANN_RETURN_IF_ERROR(runs.Start(head));
  HMANN_RETURN_IF_ERROR(runs.WarmUp());
  for (int round = 0; round < benchmark.rounds; ++round) HMANN_RETURN_IF_ERROR(runs.Round(round));
  return runs.Finish();
}

}  // namespace hmann::eval
