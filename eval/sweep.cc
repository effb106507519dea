#include "eval/sweep.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "datasets/ground_truth.h"
#include "datasets/recall.h"
#include "datasets/vector_file.h"
#include "eval/report/environment.h"
#include "eval/sweep_data.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;
using Say = std::function<void(const std::string&)>;

/// results.jsonl: under another name until it is whole.
class ResultLines {
 public:
  absl::Status Open(const std::string& path) {
    path_ = path;
    out_.open(path + ".part", std::ios::trunc);
    return Check();
  }
  absl::Status Write(const Json& line) {
    out_ << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n' << std::flush;
    return Check();
  }
  absl::Status Commit() {
    out_.close();
    HMANN_RETURN_IF_ERROR(Check());
    if (std::rename((path_ + ".part").c_str(), path_.c_str()) != 0)
      return ErrnoError(errno, "rename", path_);
    return absl::OkStatus();
  }

 private:
  absl::Status Check() {
    if (out_.good()) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("write ", path_, ".part: the disk does not take it"));
  }

  std::string path_;
  std::ofstream out_;
};

/// Recall@`first` of answers of k each.
double MeanRecall(const GroundTruth& truth, std::uint32_t first, std::uint32_t k,
                  const std::vector<std::uint64_t>& ids) {
  const std::uint64_t queries = ids.size() / k;
  std::vector<double> recalls;
  recalls.reserve(queries);
  for (std::uint64_t q = 0; q < queries; ++q) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(q * k);
    const auto end = std::find(begin, begin + first, kNoNeighbour);
    recalls.push_back(RecallAtK(truth, q, first, std::span<const std::uint64_t>(begin, end), {}));
  }
  return SummariseRecall(std::move(recalls)).mean;
}

std::string HowBuilt(const Ready& ready) {
  if (ready.finished) return "finished before";
  return absl::StrFormat("built in %s on %d threads%s", FormatDuration(ready.build_seconds),
                         ready.build_threads, ready.cached ? " (kept from before)" : "");
}

/// The part of a sweep that runs: contestants, their runs so far, and what is written of
/// them.
class InterleavedRuns {
 public:
  InterleavedRuns(const SweepOptions& options, const GroundTruth& truth, Progress& progress,
                  const Say& say)
      : options_(options), truth_(truth), progress_(progress), say_(say) {}

  absl::Status Start(const Json& head) {
    HMANN_RETURN_IF_ERROR(lines_.Open(absl::StrCat(options_.job.folder, "/results.jsonl")));
    HMANN_RETURN_IF_ERROR(lines_.Write(head));
    for (const Json& note : options_.notes) HMANN_RETURN_IF_ERROR(lines_.Write(note));
    for (const ContestantSpec& spec : options_.contestants) {
      say_(absl::StrCat(spec.name, ": building or loading"));
      HMANN_ASSIGN_OR_RETURN(Contestant contestant, Contestant::Start(spec, options_.job));
      if (options_.started)
        HMANN_RETURN_IF_ERROR(options_.started(contestants_.size(), contestant.pid()));
      const Ready& ready = contestant.ready();
      say_(absl::StrCat(spec.name, ": ", ready.library, ", ", FormatSize(ready.index_bytes), ", ",
                        HowBuilt(ready), ", ", contestant.spec().settings.size(), " settings"));
      ContestantRuns runs = {spec.name, ready, spec.build, {}};
      for (const Json& setting : InShapes(contestant.spec()))
        runs.settings.push_back({setting, nullptr, {}, {}, {}, {}, {}});
      Json line = {{"kind", "contestant"}, {"contestant", spec.name}, {"cached", ready.cached}};
      line.update(DescribeIndex(ready, spec.build));
      HMANN_RETURN_IF_ERROR(lines_.Write(line));
      runs_.push_back(std::move(runs));
      contestants_.push_back(std::move(contestant));
    }
    return absl::OkStatus();
  }

  /// Touches every index before anything is timed: counted runs where a contestant can
  /// count (once for contestants that are the same, like an A/A pair, and once for
  /// settings of equal dials), else one run.
  absl::Status WarmUp() {
    std::vector<Turn> turns;
    std::vector<bool> counts(contestants_.size());
    for (std::size_t c = 0; c < contestants_.size(); ++c) {
      counts[c] = options_.counters && contestants_[c].ready().counts && SameAs(c) == c;
      const std::size_t settings = runs_[c].settings.size();
      for (std::size_t s = 0; s < settings; ++s) {
        if (counts[c] ? SameDials(c, s) == s : s == settings / 2) turns.push_back({c, s});
      }
    }
    progress_.Start("warm-up", turns.size(), "runs");
    for (const Turn& turn : turns) {
      SettingRuns& runs = runs_[turn.contestant].settings[turn.setting];
      HMANN_ASSIGN_OR_RETURN(const RunAnswer answer, contestants_[turn.contestant].Run(
                                                         runs.setting, counts[turn.contestant]));
      progress_.Advance(1);
      if (!counts[turn.contestant]) continue;
      runs.counters = answer.counters;
      HMANN_RETURN_IF_ERROR(
          lines_.Write({{"kind", "count"},
                        {"contestant", runs_[turn.contestant].name},
                        {"setting", runs.setting},
                        {"recall", MeanRecall(truth_, options_.job.k, options_.job.k, answer.ids)},
                        {"counters", answer.counters}}));
    }
    progress_.Finish();
    for (std::size_t c = 0; c < contestants_.size(); ++c) {
      for (std::size_t s = 0; s < runs_[c].settings.size(); ++s) {
        runs_[c].settings[s].counters = runs_[SameAs(c)].settings[SameDials(c, s)].counters;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Round(int round) {
    std::vector<std::size_t> settings_of;
    for (const ContestantRuns& runs : runs_) settings_of.push_back(runs.settings.size());
    const std::vector<Turn> turns = Schedule(settings_of, round);
    progress_.Start(absl::StrCat("round ", round + 1, " of ", options_.rounds), turns.size(),
                    "runs");
    for (const Turn& turn : turns) {
      HMANN_RETURN_IF_ERROR(RunTurn(turn, round));
      progress_.Advance(1);
    }
    progress_.Finish();
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<ContestantRuns>> Finish() {
    for (Contestant& contestant : contestants_) HMANN_RETURN_IF_ERROR(contestant.Stop());
    HMANN_RETURN_IF_ERROR(lines_.Commit());
    return std::move(runs_);
  }

 private:
  Json InShapes(const ContestantSpec& spec) const {
    if (options_.shapes.empty()) return spec.settings;
    return Shaped(spec.settings, spec.keeps_several ? options_.shapes
                                                    : AllShapes(ThreadsOf(options_.shapes), {1}));
  }

  absl::Status RunTurn(const Turn& turn, int round) {
    SettingRuns& runs = runs_[turn.contestant].settings[turn.setting];
    Contestant& contestant = contestants_[turn.contestant];
    if (options_.warm_up_queries > 0) {
      HMANN_RETURN_IF_ERROR(contestant.WarmUp(
          runs.setting, std::min(options_.warm_up_queries, options_.job.query_count)));
    }
    HMANN_ASSIGN_OR_RETURN(const RunAnswer answer, contestant.Run(runs.setting, false));
    const std::uint32_t k = options_.job.k;
    const auto queries = static_cast<double>(options_.job.query_count);
    runs.recall.push_back(MeanRecall(truth_, k, k, answer.ids));
    runs.recall_at_1.push_back(MeanRecall(truth_, 1, k, answer.ids));
    runs.seconds.push_back(answer.seconds);
    runs.cpu_seconds.push_back(answer.cpu_seconds);
    const double taken = options_.clock == RunClock::kCpu ? answer.cpu_seconds : answer.seconds;
    const std::string& name = runs_[turn.contestant].name;
    Json line = {{"kind", "run"},
                 {"contestant", name},
                 {"setting", runs.setting},
                 {"round", round},
                 {"recall", runs.recall.back()},
                 {"qps", queries / taken},
                 {"seconds", answer.seconds},
                 {"cpu_seconds", answer.cpu_seconds}};
    if (answer.latency) {
      const std::pair<const char*, double> told[] = {
          {"mean_us", answer.latency->mean},
          {"p50_us", answer.latency->p50},
          {"p99_us", answer.latency->p99},
          {"cpu_us", answer.cpu_seconds / queries * 1e6},
          {"read_bytes", static_cast<double>(answer.read_bytes) / queries}};
      for (const auto& [what, value] : told) {
        runs.observed[what].push_back(value);
        line[what] = value;
      }
      line["recall_at_1"] = runs.recall_at_1.back();
    }
    return lines_.Write(line);
  }

  /// The first setting of a contestant with the dials of its setting s.
  std::size_t SameDials(std::size_t c, std::size_t s) const {
    const Json dials = SettingWithoutThreads(runs_[c].settings[s].setting);
    std::size_t first = 0;
    while (SettingWithoutThreads(runs_[c].settings[first].setting) != dials) ++first;
    return first;
  }

  /// The first contestant that is the same program with the same settings.
  std::size_t SameAs(std::size_t c) const {
    const ContestantSpec& spec = contestants_[c].spec();
    std::size_t first = 0;
    for (;; ++first) {
      const ContestantSpec& other = contestants_[first].spec();
      if (other.command == spec.command && other.build == spec.build &&
          other.settings == spec.settings)
        return first;
    }
  }

  const SweepOptions& options_;
  const GroundTruth& truth_;
  Progress& progress_;
  const Say& say_;
  ResultLines lines_;
  std::vector<Contestant> contestants_;
  std::vector<ContestantRuns> runs_;
};

}  // namespace

absl::Status CheckRecalls(const char* what, const std::vector<double>& recalls) {
  for (const double recall : recalls) {
    if (!(recall > 0 && recall <= 1))
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": expected recalls in (0, 1], found ", recall));
  }
  return absl::OkStatus();
}

std::vector<RunShape> AllShapes(const std::vector<int>& threads,
                                const std::vector<int>& in_flight) {
  std::vector<RunShape> shapes;
  for (const int t : threads) {
    for (const int q : in_flight) shapes.push_back({t, q});
  }
  return shapes;
}

std::vector<int> ThreadsOf(const std::vector<RunShape>& shapes) {
  std::vector<int> threads;
  for (const RunShape& shape : shapes) {
    if (std::find(threads.begin(), threads.end(), shape.threads) == threads.end())
      threads.push_back(shape.threads);
  }
  return threads;
}

absl::Status CheckWidths(const std::vector<int>& widths) {
  const bool one = !widths.empty() && *std::min_element(widths.begin(), widths.end()) >= 1;
  return one ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   absl::StrCat("widths: expected at least one, each at least 1, found '",
                                absl::StrJoin(widths, ","), "'"));
}

absl::Status SweepOptions::Validate() const {
  if (contestants.empty())
    return absl::InvalidArgumentError("sweep: expected at least one contestant, found none");
  std::set<std::string> names;
  for (const ContestantSpec& spec : contestants) {
    if (!names.insert(spec.name).second)
      return absl::InvalidArgumentError(
          absl::StrCat("sweep: two contestants are called '", spec.name, "'"));
  }
  if (rounds < 1)
    return absl::InvalidArgumentError(absl::StrCat("rounds: expected at least 1, found ", rounds));
  return CheckRecalls("targets", targets);
}

absl::StatusOr<SweepResult> RunSweep(SweepOptions options, Progress& progress, const Say& say) {
  HMANN_RETURN_IF_ERROR(options.Validate());
  ContestantJob& job = options.job;
  std::error_code error;
  fs::create_directories(job.folder, error);
  if (error) return ErrnoError(error.value(), "mkdir", job.folder);
  DataShape shape;
  HMANN_ASSIGN_OR_RETURN(const std::optional<VectorFile> base, OpenBase(options, &shape));
  HMANN_ASSIGN_OR_RETURN(const VectorFile queries, VectorFile::Open(job.queries, job.query_rows));
  HMANN_RETURN_IF_ERROR(queries.CheckShape(shape.dim, shape.dtype, "the base"));
  job.query_count = queries.n();
  HMANN_ASSIGN_OR_RETURN(const GroundTruth truth, FindTruth(options, base, queries, progress, say));
  HMANN_RETURN_IF_ERROR(CheckTruthCovers(truth, queries.n(), job.k));

  SweepResult result;
  result.rounds = options.rounds;
  result.memory = options.memory;
  result.search_threads = ThreadsOf(options.shapes);
  result.reading = {queries.n(), job.k, options.clock, options.targets, options.reference};
  result.data = {{"base", job.base.empty() ? Json() : Json(job.base)},
                 {"queries", job.queries},
                 {"n", shape.n},
                 {"dim", shape.dim},
                 {"dtype", std::string(Name(shape.dtype))},
                 {"metric", std::string(Name(job.metric))},
                 {"k", job.k},
                 {"query_count", queries.n()}};
  result.build = {{"m", job.m}, {"ef_construction", job.ef_construction}, {"threads", job.threads}};
  result.environment = DescribeEnvironment();
  InterleavedRuns arena(options, truth, progress, say);
  HMANN_RETURN_IF_ERROR(arena.Start({{"kind", "sweep"},
                                     {"data", result.data},
                                     {"build", result.build},
                                     {"rounds", options.rounds},
                                     {"clock", options.clock == RunClock::kCpu ? "cpu" : "wall"},
                                     {"environment", result.environment}}));
  HMANN_RETURN_IF_ERROR(arena.WarmUp());
  for (int round = 0; round < options.rounds; ++round) HMANN_RETURN_IF_ERROR(arena.Round(round));
  HMANN_ASSIGN_OR_RETURN(result.runs, arena.Finish());
  if (!options.shapes.empty()) result.runs = SplitByShape(result.runs);
  return result;
}

}  // namespace hmann
