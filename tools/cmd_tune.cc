#include <chrono>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "hmann/param_table.h"
#include "hmann/tune.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/report/report.h"
#include "tools/commands.h"
#include "tools/open_flags.h"
#include "tools/print.h"

namespace hmann::tools {
namespace {

using Json = nlohmann::ordered_json;

struct TuneFlags {
  TuneOptions tune;
  std::vector<std::string> slow;
  std::vector<std::uint32_t> sq;
  std::vector<double> recalls = {0.9, 0.95, 0.99};
  std::vector<std::string> latencies;
  bool json = false;
};

std::string DescribeTarget(const Target& target) {
  if (target.recall > 0) return absl::StrFormat("recall %g", target.recall);
  return absl::StrFormat("latency %g us", target.latency_us);
}

void Print(const TunedForK& tuned) {
  const TunedEntry& entry = tuned.entry;
  if (entry.of_shards > 1)
    std::cout << absl::StrFormat("recall of %d shards merged, ", entry.of_shards);
  std::cout << absl::StrFormat("k %d, fast %s, slow %s, cache %s: %d queries %s, %s\n", entry.k,
                               entry.placement.fast, entry.placement.slow, entry.placement.cache,
                               entry.queries, entry.origin, FormatDuration(tuned.seconds));
  for (const TunedChoice& choice : tuned.choices) {
    std::cout << absl::StrFormat("  %-18s ", DescribeTarget(choice.target));
    if (!choice.setting.ok()) {
      std::cout << "CANNOT BE MET: " << choice.setting.status().message() << '\n';
      continue;
    }
    const TunedSetting& setting = *choice.setting;
    std::cout << absl::StrFormat(
        "%s: recall %.4f (at least %.4f), %.1f us, 95 of 100 within %.1f us\n",
        DescribeParams(setting.params), setting.recall, setting.recall_low, setting.mean_us,
        setting.p95_us);
  }
  std::cout << absl::StrFormat(
      "  in flight          %d queries of a thread: %.2f times the QPS of 1\n", entry.in_flight,
      entry.in_flight_gain);
  for (const Comparison& comparison : tuned.comparisons) {
    std::cout << absl::StrFormat(
        "  comparison at %-6g %d settings reach it, %d do not; %d were dropped early%s; Equation "
        "3.1 "
        "errs by %.0f %%; %d neighbors of the best were tried\n",
        comparison.recall, comparison.settings, comparison.unable, comparison.dropped,
        comparison.upper_dropped ? " (efSearchL0 = 0 is out)" : "", 100 * comparison.equation_error,
        comparison.neighbors);
  }
  std::cout << absl::StrFormat(
      "  Equation 3.1       T_fast %.1f ns, T_slow %.1f ns, codes %.1f and %.1f ns; A/A %.3f; %s\n",
      tuned.equation.fast_ns, tuned.equation.slow_ns, tuned.equation.gathered_ns,
      tuned.equation.by_cell_ns, tuned.same_again, tuned.others.Describe());
}

absl::Status Tune(const TuneFlags& flags) {
  TuneOptions options = flags.tune;
  options.targets.clear();
  for (const double recall : flags.recalls) options.targets.push_back({.recall = recall});
  for (const std::string& text : flags.latencies) {
    HMANN_ASSIGN_OR_RETURN(const std::chrono::nanoseconds latency, ParseDuration(text));
    options.targets.push_back(
        {.latency_us = std::chrono::duration<double, std::micro>(latency).count()});
  }
  Json json = {{"table", TunedPath(options.index)}, {"tuned", Json::array()}};
  std::vector<std::pair<std::string, std::optional<std::uint32_t>>> placements;
  for (const std::string& slow : flags.slow) {
    if (flags.sq.empty()) placements.emplace_back(slow, std::nullopt);
    for (const std::uint32_t bits : flags.sq) placements.emplace_back(slow, bits);
  }
  for (const auto& [slow, bits] : placements) {
    options.open.slow = slow;
    options.open.sq_bits = bits;
    Progress progress;
    const absl::StatusOr<TuneReport> report = hmann::Tune(options, progress);
    if (bits.value_or(0) > 0 && placements.size() > 1 &&
        absl::IsFailedPrecondition(report.status())) {
      std::cerr << "warning: passed over: " << report.status().message() << '\n';
      continue;
    }
    HMANN_RETURN_IF_ERROR(report.status());
    for (const std::string& warning : report->warnings) std::cerr << "warning: " << warning << '\n';
    for (const TunedForK& tuned : report->of_k) {
      if (!flags.json) Print(tuned);
      json["tuned"].push_back(ToJson(tuned));
    }
  }
  if (flags.json) return PrintJson(json);
  std::cout << "stored in " << TunedPath(options.index)
            << ": hmann search --recall or --latency uses it\n";
  return absl::OkStatus();
}

std::string CheckDuration(const std::string& text) {
  return std::string(ParseDuration(text).status().message());
}

}  // namespace

CommandAction SetupTune(CLI::App& app) {
  auto flags = std::make_shared<TuneFlags>();
  TuneOptions* tune = &flags->tune;
  app.add_option("INDEX", tune->index,
                 "index file; the tuned table is written next to it, as INDEX.tuned")
      ->required();
  CLI::Option* queries = app.add_option("--queries,QUERIES", tune->queries,
                                        "vector file of your queries to learn from (default: "
                                        "vectors of the index, each left out in turn)");
  app.add_option("--groundtruth", tune->groundtruth,
                 "exact neighbors of --queries (default: computed)")
      ->needs(queries);
  app.add_option("--of-shards", tune->of_shards,
                 "the index is one of this many shards (`hmann data split`): recalls are those of "
                 "their merged answers; --groundtruth is of all shards, without it recalls are "
                 "underestimated")
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str();
  app.add_option("--k", tune->k, "neighbors per query, as 1,10,100")
      ->delimiter(',')
      ->check(CLI::Range(1u, std::numeric_limits<std::uint32_t>::max()))
      ->capture_default_str();
  app.add_option("--recall", flags->recalls,
                 "target recalls, as 0.9,0.95, for which to find the fastest parameters; the tuned "
                 "table also answers other targets")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--latency", flags->latencies, "target mean times, as 200us,1ms")
      ->delimiter(',')
      ->check(CheckDuration);
  app.add_option(
         "--learn", tune->learn,
         "maximum number of queries to learn from (default: enough for the k, 1,500 to 20,000)")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--query-threads", tune->most_query_threads,
                 "maximum threads per query: more are faster only where cores are idle")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  AddOpenFlags(app, &tune->open);
  app.remove_option(app.get_option("--slow"));
  flags->slow = {tune->open.slow};
  app.add_option(
         "--slow", flags->slow,
         "tiers of L0 to tune in turn: mapped, dram, numa:N, dax:PATH, nvme, emulated:lat=300ns")
      ->capture_default_str();
  app.remove_option(app.get_option("--sq"));
  app.add_option("--sq", flags->sq,
                 "bits of scalar codes to tune in turn, as 0,4,8; the index is then opened with "
                 "the fastest, unless --sq is given (default: those of the index)")
      ->delimiter(',')
      ->check(CLI::IsMember({0, 4, 8}));
  app.add_flag("--accept-noise", tune->accept_noise,
               "replace stored times even if other programs or virtual machines used the CPU "
               "meanwhile");
  app.add_flag("--json", flags->json, "print the report as one JSON object on stdout");
  return [flags] { return Tune(*flags); };
}

}  // namespace hmann::tools
