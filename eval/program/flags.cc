#include "eval/program/flags.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "eval/own_contestants.h"
#include "eval/report/pages.h"
#include "eval/results.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "tools/flags.h"
#include "tools/interrupt.h"
#include "tools/print.h"

namespace hmann::eval {
namespace {

/// Values given to the contestants of their names; one that is another once more gets
/// those of the other first.
absl::Status Give(const std::vector<std::string>& texts, const char* option, Json::value_t kind,
                  std::vector<ContestantSpec>* specs,
                  void (*store)(ContestantSpec* spec, const Json& value)) {
  for (const auto whose : {&ContestantSpec::again_of, &ContestantSpec::name}) {
    for (const std::string& text : texts) {
      HMANN_ASSIGN_OR_RETURN(const auto named, NamedJson(text, option, kind));
      bool found = whose == &ContestantSpec::again_of;
      for (ContestantSpec& spec : *specs) {
        if (spec.*whose != named.first) continue;
        found = true;
        store(&spec, named.second);
      }
      if (found) continue;
      return InvalidArgument(
          option, ": no contestant '", named.first, "' takes part; those who do: ",
          absl::StrJoin(*specs, ", ", [](std::string* out, const ContestantSpec& s) {
            absl::StrAppend(out, "'", s.name, "'");
          }));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::pair<std::string, Json>> NamedJson(const std::string& text, const char* option,
                                                       Json::value_t kind) {
  const bool array = kind == Json::value_t::array;
  const std::size_t equals = std::min(text.find(array ? "=[" : "={"), text.size());
  Json value = Json::parse(text.substr(std::min(equals + 1, text.size())), nullptr, false);
  if (equals > 0 && value.type() == kind)
    return std::pair(text.substr(0, equals), std::move(value));
  return InvalidArgument(option, ": expected NAME=", array ? "[...]" : "{...}", ", JSON, found '",
                         text, "'");
}

void EvalFlags::AddData(CLI::App& app, bool truth) {
  ContestantJob* job = &benchmark.job;
  app.add_option("--base", job->base, "vectors to index, any format that `hmann build` takes")
      ->required();
  app.add_option("--queries", job->queries, "vectors to look for")->required();
  app.add_option("--query-rows", job->query_rows, "first vectors of --queries only (0: all)")
      ->capture_default_str();
  tools::AddParsed(app, "--metric", ParseMetric, &job->metric, "l2 (default), ip, cosine");
  if (!truth) return;
  app.add_option("--groundtruth", benchmark.groundtruth,
                 "their exact neighbours (default: computed once, kept in --out)");
  app.add_option("--rows", job->rows, "first vectors of --base only (0: all)");
}

void EvalFlags::AddBuild(CLI::App& app, bool settings) {
  ContestantJob* job = &benchmark.job;
  job->threads = UsableCores();
  app.add_option("--m", job->m, "M of every graph")
      ->check(CLI::Range(2, 512))
      ->capture_default_str();
  app.add_option("--ef-construction", job->ef_construction, "beam width of every build")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--threads", job->threads, "of the builds (default: all usable cores)")
      ->check(CLI::Range(1, 1024));
  if (!settings) return;
  app.add_option("--build-settings", build_settings,
                 "NAME={...}: build settings of a contestant's own, JSON");
}

void EvalFlags::AddRuns(CLI::App& app) {
  app.add_option("--k", benchmark.job.k, "neighbours a query")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--rounds", benchmark.rounds, "times that every setting is run")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--targets", benchmark.targets, "recalls to compare at")
      ->delimiter(',')
      ->check(CLI::Range(0.0001, 1.0))
      ->capture_default_str();
}

void EvalFlags::AddShapes(CLI::App& app) {
  app.add_option("--search-threads", search_threads,
                 search_threads.empty()
                     ? "threads that search side by side, a row each (default: one, without "
                       "latencies)"
                     : "threads that search side by side, a row each")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--in-flight", in_flight,
                 "queries that each of these keeps under way, a row each, of those that can")
      ->delimiter(',')
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
}

void EvalFlags::AddClock(CLI::App& app) {
  app.add_option_function<std::string>(
         "--clock",
         [this](const std::string& clock) {
           benchmark.clock = clock == "cpu" ? RunClock::kCpu : RunClock::kWall;
         },
         "what QPS is made of: wall (default), or cpu: CPU time of the search thread, for a "
         "machine that is not quiet")
      ->check(CLI::IsMember({"wall", "cpu"}));
}

void EvalFlags::AddOthers(CLI::App& app) {
  app.add_option("--adapter", adapters,
                 "NAME=COMMAND: one more contestant, a program that speaks the protocol");
  app.add_option("--reference", benchmark.reference, "contestant that ratios are to")
      ->capture_default_str();
  app.add_option("--settings", settings,
                 "NAME=[{...}]: search settings instead of a contestant's own, JSON");
}

void EvalFlags::AddOut(CLI::App& app, const std::string& example, bool required) {
  app.add_option("--out", benchmark.job.folder,
                 "folder of results.jsonl, report.html, logs and built indexes")
      ->required(required);
  app.add_flag("--json", json, "the figures as one JSON object on stdout");
  app.footer(absl::StrCat("Example:\n  hmann eval ", app.get_name(), " ", example));
}

absl::Status EvalFlags::Run(const Recipe& recipe) {
  for (const std::string& text : adapters) {
    HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, ForeignContestant(text));
    benchmark.contestants.push_back(std::move(spec));
  }
  HMANN_RETURN_IF_ERROR(
      Give(settings, "--settings", Json::value_t::array, &benchmark.contestants,
           [](ContestantSpec* spec, const Json& value) { spec->settings = value; }));
  HMANN_RETURN_IF_ERROR(
      Give(build_settings, "--build-settings", Json::value_t::object, &benchmark.contestants,
           [](ContestantSpec* spec, const Json& value) { spec->build.update(value); }));
  if (!search_threads.empty()) benchmark.shapes = AllShapes(search_threads, in_flight);
  benchmark.job.cancelled = tools::CancelOnInterrupt();
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(
      const std::vector<Json> lines,
      recipe(benchmark, progress, [](const std::string& line) { std::cerr << line << '\n'; }));
  const Json figures = FiguresOf(lines);
  PrintTables(figures, std::cerr);
  if (const std::string& out = benchmark.job.folder; !out.empty()) {
    HMANN_RETURN_IF_ERROR(WriteReport(figures, BenchmarkPage(), absl::StrCat(out, "/report.html")));
    std::cerr << out << "/results.jsonl: every run\n"
              << out << "/report.html: the same to look at\n";
  }
  return json ? tools::PrintJson(figures) : absl::OkStatus();
}

}  // namespace hmann::eval
