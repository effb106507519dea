#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tune/tune_index.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/open_flags.h"
#include "tools/print.h"
#include "tools/tune_json.h"
#include "tools/tune_report.h"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  TuneOptions tune;
  std::vector<std::string> slow;
  std::vector<std::uint32_t> sq = {0};
  std::vector<double> recalls = {0.9, 0.95, 0.99};
  std::vector<std::string> latencies;
  TuningCheckRequest check;
  std::string report;
  bool settings = false;
  bool json = false;
};

std::string Describe(const Target& target) {
  if (target.recall > 0) return absl::StrFormat("recall %g", target.recall);
  return absl::StrFormat("latency %g us", target.latency_us);
}

void PrintCheck(const TuningCheck& check, const Tuned& tuned) {
  const auto line = [](const char* what, const ModelError& error) {
    std::cerr << absl::StrFormat(
        "    %-38s %5.1f %% (median) %5.1f %% (95 of 100) %5.1f %% (worst)\n", what,
        100 * error.median, 100 * error.p95, 100 * error.worst);
  };
  std::cerr << absl::StrFormat(
      "  check: %.1f %% of the grid was never run; mean times of these %d settings, predicted, are "
      "off by\n",
      100 * check.pruned, check.held_out);
  line("the model", check.work_model);
  line("the model, less the machine's drift", check.work_model_less_drift);
  line("the paper's Eq 3.1", check.paper_model);
  line("a setting against itself", check.same_again);
  if (check.held_out > 0) {
    const TriedSetting& worst = tuned.settings[check.worst];
    std::cerr << absl::StrFormat(
        "    drift of the machine since tuning %+.1f %%; the worst is %s: predicted %.1f us, "
        "rounds of %.1f to %.1f us\n",
        100 * check.drift, DescribeDials(worst.dials), worst.predicted.mean_us, check.worst_low_us,
        check.worst_high_us);
  }
  for (const ChoiceCheck& choice : check.choices) {
    std::cerr << absl::StrFormat("    %-18s on test queries: recall %.4f, %.1f us",
                                 Describe(choice.choice.target), choice.test_recall,
                                 choice.test_mean_us);
    if (choice.best_exists) {
      std::cerr << absl::StrFormat(
          "; best of the whole grid: %s, recall %.4f, %.1f us%s; regret %.2f %%",
          DescribeDials(tuned.settings[choice.best].dials), choice.best_recall, choice.best_mean_us,
          choice.best_was_run ? "" : " (never run)", 100 * choice.regret);
    }
    std::cerr << '\n';
  }
}

void Print(const TuningRun::ForK& of_k, const TunedEntry& entry) {
  const Tuned& tuned = of_k.tuned;
  std::cerr << absl::StrFormat(
      "k %d, fast %s, slow %s, cache %s: %d settings, %d on the front, %s\n", of_k.k,
      entry.placement.fast, entry.placement.slow, entry.placement.cache, tuned.settings.size(),
      tuned.front.size(), FormatDuration(of_k.seconds));
  for (const Choice& choice : tuned.choices) {
    const TriedSetting& tried = tuned.settings[choice.setting];
    std::cerr << absl::StrFormat(
        "  %-18s %s%s: recall %.4f (at least %.4f), %.1f us (predicted %.1f), 95 of 100 within "
        "%.1f us\n",
        Describe(choice.target),
        choice.met ? "" : "CANNOT BE MET; the best: ", DescribeDials(tried.dials),
        tried.measured.recall, tried.recall_low, tried.measured.mean_us, tried.predicted.mean_us,
        tried.measured.p95_us);
  }
  std::cerr << absl::StrFormat(
      "  in flight         %d queries of a thread: %.2f times the QPS of 1\n", entry.in_flight,
      entry.in_flight_gain);
  if (of_k.check.has_value()) PrintCheck(*of_k.check, tuned);
}

absl::Status Tune(const Flags& flags) {
  TuneOptions options = flags.tune;
  options.targets.clear();
  for (const double recall : flags.recalls) options.targets.push_back({.recall = recall});
  for (const std::string& text : flags.latencies) {
    HMANN_ASSIGN_OR_RETURN(const std::chrono::nanoseconds latency, ParseDuration(text));
    options.targets.push_back(
        {.latency_us = std::chrono::duration<double, std::micro>(latency).count()});
  }
  Json json = {
      {"table", TunedPath(options.index)}, {"dials", Json::array()}, {"tuned", Json::array()}};
  for (const Dial& dial : DialTable()) json["dials"].push_back(std::string(dial.name));
  const bool settings = flags.settings || !flags.report.empty();
  std::vector<std::pair<std::string, std::uint32_t>> placements;
  for (const std::string& slow : flags.slow) {
    for (const std::uint32_t bits : flags.sq) placements.emplace_back(slow, bits);
  }
  for (const auto& [slow, bits] : placements) {
    options.open.slow = slow;
    options.open.sq_bits = bits;
    Progress progress;
    HMANN_ASSIGN_OR_RETURN(const TuningRun run, TuneIndex(options, flags.check, progress));
    for (const std::string& warning : run.report.warnings)
      std::cerr << "warning: " << warning << '\n';
    for (std::size_t i = 0; i < run.of_k.size(); ++i) {
      if (!flags.json) Print(run.of_k[i], run.report.entries[i]);
      json["tuned"].push_back(TuningJson(run.of_k[i], run.report.entries[i], settings));
    }
  }
  if (!flags.json)
    std::cerr << "stored in " << TunedPath(options.index)
              << ": hmann search --recall or --latency uses it\n";
  if (!flags.report.empty()) {
    HMANN_RETURN_IF_ERROR(WriteTuningReport(options, json, flags.report));
    std::cerr << flags.report << ": the same to look at\n";
  }
  if (!flags.json) return absl::OkStatus();
  if (!flags.settings) {
    for (Json& tuned : json["tuned"]) tuned.erase("settings");
  }
  return PrintJson(json);
}

std::string CheckDuration(const std::string& text) {
  return std::string(ParseDuration(text).status().message());
}

void AddCheckFlags(CLI::App& app, Flags* flags) {
  CLI::Option* check = app.add_flag("--check", flags->check.wanted,
                                    "afterwards run the whole grid on queries that were not "
                                    "learned from: errors of the models, regret");
  CLI::Option* queries = app.add_option("--check-queries", flags->check.queries,
                                        "those queries (default: others of --queries)")
                             ->needs(check);
  app.add_option("--check-groundtruth", flags->check.groundtruth,
                 "exact neighbours of --check-queries")
      ->needs(queries);
  app.add_option("--check-most", flags->check.most_queries, "queries for each setting of the grid")
      ->check(CLI::Range(4, 1 << 20))
      ->capture_default_str()
      ->needs(check);
}

}  // namespace

CommandAction SetupTune(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  TuneOptions* tune = &flags->tune;
  app.add_option("INDEX", tune->index, "index file; the table is written beside it, as INDEX.tuned")
      ->required();
  CLI::Option* queries = app.add_option(
      "--queries", tune->queries,
      "vector file to learn from: your queries (default: vectors of the index, each left out)");
  app.add_option("--groundtruth", tune->groundtruth,
                 "their exact neighbours (default: compared with every indexed vector)")
      ->needs(queries);
  app.add_option("--k", tune->k, "neighbours per query, as 1,10,100")
      ->delimiter(',')
      ->check(CLI::Range(1u, kMaxEf))
      ->capture_default_str();
  app.add_option("--recall", flags->recalls,
                 "targets to be measured to the end, as 0.9,0.95; the table answers others too")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--latency", flags->latencies, "targets of mean time, as 200us,1ms")
      ->delimiter(',')
      ->check(CheckDuration);
  app.add_option("--learn", tune->learn, "queries to learn from, at most")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--query-threads", tune->most_query_threads,
                 "most threads of one query (default: the usable cores)")
      ->check(CLI::Range(1, 64));
  app.add_option("--profile", tune->profile,
                 "device file of `hmann profile`, as bounds for the model");
  AddOpenFlags(app, &tune->open);
  app.remove_option(app.get_option("--slow"));
  flags->slow = {tune->open.slow};
  app.add_option("--slow", flags->slow,
                 "tiers of L0, one after the other: mapped, dram, numa:N, dax:PATH, nvme, "
                 "emulated:lat=300ns")
      ->capture_default_str();
  app.remove_option(app.get_option("--sq"));
  app.add_option("--sq", flags->sq,
                 "bits of scalar codes, one after the other, as 0,4,8: the fastest is what the "
                 "index is opened with from then on, where --sq is not said")
      ->delimiter(',')
      ->check(CLI::IsMember({0, 4, 8}))
      ->capture_default_str();
  AddCheckFlags(app, flags.get());
  app.add_option("--report", flags->report,
                 "write a page: all settings, those that the model keeps, those chosen; predicted "
                 "against measured");
  app.add_flag(
      "--settings", flags->settings,
      "list every setting of the grid in the JSON: predicted, measured, what became of it");
  app.add_flag("--json", flags->json, "report as one JSON object on stdout");
  return [flags] { return Tune(*flags); };
}

}  // namespace hmann
