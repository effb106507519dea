#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "datasets/toolbox/answer_writer.h"
#include "hmann/param_table.h"
#include "index/base/units.h"
#include "tools/flags.h"
#include "tools/help.h"
#include "tools/query_report.h"

namespace hmann::tools {
namespace {

std::string CheckSuffix(const std::string& path) {
  return std::string(CheckAnswerSuffix(path).message());
}

/// The option of a parameter: --ef-l1 for ef_l1.
std::string OptionOf(const ParamInfo& param) {
  return absl::StrCat("--", absl::StrReplaceAll(std::string(param.name), {{"_", "-"}}));
}

}  // namespace

void AddParams(CLI::App& app, SearchParams* search) {
  const OptionGroup group(app, "Search parameters");
  app.add_option("--recall", search->recall,
                 "target mean recall, reached as fast as possible with the parameters that `hmann "
                 "tune` found, else with the defaults at the calibrated ef_scale")
      ->check([](const std::string& text) {
        double recall = 0;
        return absl::SimpleAtod(text, &recall) && recall > 0 && recall <= 1
                   ? std::string()
                   : absl::StrCat("expected a share of at most 1, as 0.95; found '", text, "'");
      });
  AddParsed(app, "--latency", ParseDuration, &search->latency,
            "target mean time per query, as 800us, with the best recall that it allows; parameters "
            "as for --recall");
  AddParsed(app, "--budget", ParseDuration, &search->budget,
            "time after which a query ends with the best results found so far");
  app.add_option("--max-distance", search->max_distance,
                 "find only vectors at this distance or nearer: all of them, at most k");
  for (const ParamInfo& param : ParamTable()) {
    const std::string name = OptionOf(param);
    CLI::Option* option = app.add_option_function<std::string>(
        name,
        [name, &param, search](const std::string& text) {
          const absl::StatusOr<double> value = param.Parse(text);
          if (!value.ok()) throw CLI::ValidationError(name, std::string(value.status().message()));
          param.ask(*search, *value);
        },
        std::string(param.help));
    if (param.with_target) continue;
    for (const char* target : {"--recall", "--latency"}) option->excludes(target);
  }
}

void AddQueryFlags(CLI::App& app, QueryFlags* flags) {
  SearchParams* search = &flags->search;
  app.add_option("--queries,QUERIES", flags->queries,
                 "vector file with the index's type and dimension")
      ->required();
  app.add_option("--rows", flags->rows, "use only the first queries (0: all)");
  app.add_option("--k", search->k, "neighbors per query")
      ->check(CLI::Range(1u, std::numeric_limits<std::uint32_t>::max()))
      ->capture_default_str();
  AddParams(app, search);
  AddFilterFlag(app, &flags->filter,
                "find only vectors whose attributes satisfy this, as 'year >= 2020 and tag = "
                "\"cat\"'");
  app.add_option("--threads", flags->threads, "concurrent queries")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--groundtruth", flags->groundtruth, "exact neighbors; adds recall to the report");
  app.add_option("--out", flags->out,
                 "file for the answers: .ibin (ids), .gt (ids and distances) or .jsonl")
      ->check(CheckSuffix);
  app.add_flag("--stats", flags->stats, "print all figures: times, parameters, work per query");
  app.add_flag("--json", flags->json, "print the report as one JSON object on stdout");
}

}  // namespace hmann::tools
