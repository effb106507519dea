#include "eval/program/eval_flags.h"

#include <algorithm>
#include <chrono>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "eval/own_contestants.h"
#include "eval/report/pages.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tiers/emulation.h"
#include "tools/flags.h"
#include "tools/interrupt.h"
#include "tools/print.h"

namespace hmann {
namespace {

void AddDataOptions(CLI::App& app, EvalFlags* flags) {
  ContestantJob* job = &flags->sweep.job;
  app.add_option("--base", job->base, "vectors to index, any format that `hmann build` takes")
      ->required();
  app.add_option("--queries", job->queries, "vectors to look for")->required();
  app.add_option("--groundtruth", flags->sweep.groundtruth,
                 "their exact neighbours (default: computed once, kept in --out)");
  app.add_option("--rows", job->rows, "first vectors of --base only (0: all)");
  app.add_option("--query-rows", job->query_rows, "first vectors of --queries only (0: all)");
  AddParsed<Metric>(
      app, "--metric", ParseMetric, [job](Metric metric) { job->metric = metric; },
      "l2 (default), ip, cosine");
}

/// "NAME=JSON" given to the contestant of that name. `store` gets the value; `what` is
/// the kind of JSON that is expected.
absl::Status GiveSettings(const std::vector<std::string>& texts, const char* option,
                          Json::value_t expected, std::vector<ContestantSpec>* specs,
                          void (*store)(ContestantSpec* spec, Json value)) {
  for (const std::string& text : texts) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::string name = text.substr(0, equals);
    Json value = Json::parse(text.substr(std::min(equals + 1, text.size())), nullptr, false);
    if (value.type() != expected)
      return absl::InvalidArgumentError(
          absl::StrCat(option, ": expected NAME=JSON, found '", text, "'"));
    const auto spec = std::find_if(specs->begin(), specs->end(),
                                   [&](const ContestantSpec& s) { return s.name == name; });
    if (spec == specs->end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(option, ": no contestant '", name, "' takes part; those who do: ",
                       absl::StrJoin(*specs, ", ", [](std::string* out, const ContestantSpec& s) {
                         absl::StrAppend(out, "'", s.name, "'");
                       })));
    }
    store(&*spec, std::move(value));
  }
  return absl::OkStatus();
}

}  // namespace

std::string CheckShare(const std::string& text) {
  double share = 0;
  return CLI::detail::lexical_cast(text, share) && share > 0 && share < 1
             ? std::string()
             : "expected a share between 0 and 1";
}

std::string CheckEmulated(const std::string& text) {
  const absl::StatusOr<EmulationSpec> spec = EmulationSpec::Parse(text);
  return spec.ok() ? std::string() : std::string(spec.status().message());
}

void AddForeign(CLI::App& app, std::vector<std::string>* adapters, SweepOptions* sweep) {
  app.add_option("--adapter", *adapters,
                 "NAME=COMMAND: one more contestant, a program that speaks the protocol");
  app.add_option("--reference", sweep->reference, "contestant that ratios are to")
      ->capture_default_str();
}

absl::Status AddAdapters(const std::vector<std::string>& adapters, SweepOptions* sweep) {
  for (const std::string& text : adapters) {
    HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, ForeignContestant(text));
    sweep->contestants.push_back(std::move(spec));
  }
  return absl::OkStatus();
}

void AddPromote(CLI::App& app, double* promote) {
  app.add_option("--promote", *promote, "hmann's share of vectors in fast memory, N_1 / N")
      ->check(CheckShare)
      ->capture_default_str();
}

void AddEmulated(CLI::App& app, std::string* emulated) {
  app.add_option("--emulated", *emulated,
                 "the slow memory: lat=300ns,bw=6GB/s,lines=12, or a preset, as optane")
      ->check(CheckEmulated)
      ->capture_default_str();
}

void AddEvalOptions(CLI::App& app, EvalFlags* flags, const std::string& more) {
  AddDataOptions(app, flags);
  app.footer(absl::StrCat("Example:\n  hmann eval ", app.get_name(),
                          " --base datasets/sample/base.u8bin --queries "
                          "datasets/sample/query.u8bin --groundtruth datasets/sample/query.gt100",
                          more, " --out build/", app.get_name()));
  SweepOptions* sweep = &flags->sweep;
  ContestantJob* job = &sweep->job;
  job->threads = UsableCores();
  app.add_option("--m", job->m, "M of every graph")
      ->check(CLI::Range(2, 512))
      ->capture_default_str();
  app.add_option("--ef-construction", job->ef_construction, "beam width of every build")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--k", job->k, "neighbours a query")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--threads", job->threads,
                 "of the builds (default: all usable cores); every search has one")
      ->check(CLI::Range(1, 1024));
  app.add_option("--rounds", sweep->rounds, "times that every setting is run")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--targets", sweep->targets, "recalls to compare at")
      ->delimiter(',')
      ->check(CLI::Range(0.0001, 1.0))
      ->capture_default_str();
  app.add_option("--out", job->folder,
                 "folder of results.jsonl, report.html, logs and built indexes")
      ->required();
  app.add_option("--work", job->work, "folder of built indexes (default: work in --out)");
  app.add_option_function<std::string>(
         "--clock",
         [sweep](const std::string& clock) {
           sweep->clock = clock == "cpu" ? RunClock::kCpu : RunClock::kWall;
         },
         "what QPS is made of: wall (default), or cpu: CPU time of the search thread, for a "
         "machine that is not quiet")
      ->check(CLI::IsMember({"wall", "cpu"}));
  app.add_option("--settings", flags->settings,
                 "NAME=JSON: an array of search settings instead of a contestant's own");
  app.add_option("--build-settings", flags->build_settings,
                 "NAME=JSON: an object of build settings of a contestant's own");
  const auto add_timeout = [&app](const char* name, std::chrono::milliseconds* timeout,
                                  const char* description) {
    AddParsed<std::chrono::nanoseconds>(
        app, name, ParseDuration,
        [timeout](std::chrono::nanoseconds time) {
          *timeout = std::chrono::ceil<std::chrono::milliseconds>(time);
        },
        description);
  };
  job->run_timeout = std::chrono::minutes(10);
  add_timeout("--timeout", &job->run_timeout,
              "longest run over all queries, as 90s (default 600s; 0s: none)");
  add_timeout("--build-timeout", &job->build_timeout, "longest build (default: none)");
  app.add_flag("--json", flags->json, "the figures as one JSON object on stdout");
}

absl::Status FinishEvalOptions(EvalFlags& flags) {
  SweepOptions& sweep = flags.sweep;
  HMANN_RETURN_IF_ERROR(
      GiveSettings(flags.settings, "--settings", Json::value_t::array, &sweep.contestants,
                   [](ContestantSpec* spec, Json value) { spec->settings = std::move(value); }));
  HMANN_RETURN_IF_ERROR(GiveSettings(
      flags.build_settings, "--build-settings", Json::value_t::object, &sweep.contestants,
      [](ContestantSpec* spec, Json value) { spec->build.update(value); }));
  if (sweep.job.work.empty()) sweep.job.work = absl::StrCat(sweep.job.folder, "/work");
  sweep.job.cancelled = CancelOnInterrupt();
  return absl::OkStatus();
}

absl::StatusOr<SweepResult> RunEval(EvalFlags& flags) {
  HMANN_RETURN_IF_ERROR(FinishEvalOptions(flags));
  Progress progress;
  return RunSweep(flags.sweep, progress,
                  [](const std::string& line) { std::cerr << line << '\n'; });
}

absl::Status TellEval(const EvalFlags& flags, const Json& figures) {
  const std::string& out = flags.sweep.job.folder;
  HMANN_RETURN_IF_ERROR(WriteReport(figures, SweepPage(), absl::StrCat(out, "/report.html")));
  std::cerr << out << "/results.jsonl: every run\n" << out << "/report.html: the same to look at\n";
  return flags.json ? PrintJson(figures) : absl::OkStatus();
}

}  // namespace hmann
