#include "eval/program/flags.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "eval/builtin_systems.h"
#include "eval/report/pages.h"
#include "eval/results.h"
#include "index/base/cpu.h"
#include "index/base/parse_json.h"
#include "index/base/status_macros.h"
#include "tools/flags.h"
#include "tools/interrupt.h"
#include "tools/print.h"

namespace hmann::eval {
namespace {

/// Applies the values to the systems that they name. A system that repeats another one
/// gets that one's values first.
absl::Status Give(const std::vector<std::string>& texts, const char* option, Json::value_t kind,
                  std::vector<SystemSpec>* specs,
                  void (*store)(SystemSpec* spec, const Json& value)) {
  for (const auto whose : {&SystemSpec::again_of, &SystemSpec::name}) {
    for (const std::string& text : texts) {
      HMANN_ASSIGN_OR_RETURN(const auto named, NamedJson(text, option, kind));
      bool found = whose == &SystemSpec::again_of;
      for (SystemSpec& spec : *specs) {
        if (spec.*whose != named.first) continue;
        found = true;
        store(&spec, named.second);
      }
      if (found) continue;
      return InvalidArgument(option, ": no system '", named.first, "' takes part; those who do: ",
                             absl::StrJoin(*specs, ", ", [](std::string* out, const SystemSpec& s) {
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
  Json value = ParseJson<Json>(text.substr(std::min(equals + 1, text.size())));
  if (equals > 0 && value.type() == kind)
    return std::pair(text.substr(0, equals), std::move(value));
  return InvalidArgument(option, ": expected NAME=", array ? "[...]" : "{...}", ", JSON, found '",
                         text, "'");
}

void EvalFlags::AddData(CLI::App& app, bool truth) {
  BenchmarkData* job = &benchmark.job;
  app.add_option("--base", job->base, "vectors to index, in any format that `hmann build` takes")
      ->required();
  app.add_option("--queries", job->queries, "query vectors")->required();
  app.add_option("--query-rows", job->query_rows, "use only the first rows of --queries (0: all)")
      ->capture_default_str();
  tools::AddParsed(app, "--metric", ParseMetric, &job->metric, "distance (default: l2)")
      ->type_name("l2|ip|cosine");
  if (!truth) return;
  app.add_option("--groundtruth", benchmark.groundtruth,
                 "exact neighbors of the queries (default: computed once, kept in --out)");
  app.add_option("--rows", job->rows, "use only the first rows of --base (0: all)");
}

void EvalFlags::AddBuild(CLI::App& app, bool settings) {
  BenchmarkData* job = &benchmark.job;
  job->threads = UsableCores();
  app.add_option("--m", job->m, "M of every graph")
      ->check(CLI::Range(2, 512))
      ->capture_default_str();
  app.add_option("--ef-construction", job->ef_construction, "beam width of every build")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--threads", job->threads, "threads of the builds (default: all usable cores)")
      ->check(CLI::Range(1, 1024));
  if (!settings) return;
  app.add_option("--build-settings", build_settings,
                 "NAME={...}: a system's own build settings, JSON");
}

void EvalFlags::AddRuns(CLI::App& app) {
  app.add_option("--k", benchmark.job.k, "neighbors per query")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--rounds", benchmark.rounds, "runs of every setting")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--targets", benchmark.targets, "recalls at which to compare")
      ->delimiter(',')
      ->check(CLI::Range(0.0001, 1.0))
      ->capture_default_str();
}

void EvalFlags::AddShapes(CLI::App& app) {
  app.add_option("--search-threads", search_threads,
                 search_threads.empty()
                     ? "numbers of concurrent search threads, one row each (default: one, "
                       "without latencies)"
                     : "numbers of concurrent search threads, one row each")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--in-flight", in_flight,
                 "queries that each thread keeps in flight, one row each, if the system can")
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
         "time behind QPS: wall (default), or cpu: CPU time of the search thread, for a "
         "machine that is not quiet")
      ->check(CLI::IsMember({"wall", "cpu"}));
}

void EvalFlags::AddOthers(CLI::App& app) {
  app.add_option("--adapter", adapters,
                 "NAME=COMMAND: an additional system, a program that speaks the protocol");
  app.add_option("--reference", benchmark.reference,
                 "system that ratios refer to (default: hnswlib-u8 if it takes part, otherwise "
                 "hnswlib)");
  app.add_option("--settings", settings,
                 "NAME=[{...}]: search settings that replace a system's own, JSON");
}

void EvalFlags::AddOut(CLI::App& app, const std::string& example, bool required) {
  app.add_option("--out", benchmark.job.folder,
                 "folder for results.jsonl, report.html, logs and built indexes")
      ->required(required);
  app.add_flag("--json", json, "print the figures as one JSON object on stdout");
  app.footer(absl::StrCat("Example:\n  hmann eval ", app.get_name(), " ", example));
}

absl::Status EvalFlags::Run(const Recipe& recipe) {
  for (const std::string& text : adapters) {
    HMANN_ASSIGN_OR_RETURN(SystemSpec spec, ForeignSystem(text));
    benchmark.systems.push_back(std::move(spec));
  }
  HMANN_RETURN_IF_ERROR(Give(settings, "--settings", Json::value_t::array, &benchmark.systems,
                             [](SystemSpec* spec, const Json& value) { spec->settings = value; }));
  HMANN_RETURN_IF_ERROR(
      Give(build_settings, "--build-settings", Json::value_t::object, &benchmark.systems,
           [](SystemSpec* spec, const Json& value) { spec->build.update(value); }));
  if (!search_threads.empty()) benchmark.shapes = AllShapes(search_threads, in_flight);
  benchmark.job.cancelled = tools::CancelOnInterrupt();
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(
      const std::vector<Json> lines,
      recipe(benchmark, progress, [](const std::string& line) { std::cerr << line << '\n'; }));
  const Json figures = FiguresOf(lines);
  if (!json) PrintTables(figures, std::cout);
  if (const std::string& out = benchmark.job.folder; !out.empty()) {
    HMANN_RETURN_IF_ERROR(WriteReport(figures, BenchmarkPage(), absl::StrCat(out, "/report.html")));
    std::cerr << out << "/results.jsonl: every run\n"
              << out << "/report.html: the same to look at\n";
  }
  return json ? tools::PrintJson(figures) : absl::OkStatus();
}

}  // namespace hmann::eval
