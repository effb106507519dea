#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "datasets/toolbox/answer_writer.h"
#include "hmann/dial_table.h"
#include "index/base/units.h"
#include "tools/flags.h"
#include "tools/query_report.h"

namespace hmann::tools {
namespace {

constexpr std::int64_t kMostNeighbours = 1u << 20;

std::string CheckSuffix(const std::string& path) {
  return std::string(CheckAnswerSuffix(path).message());
}

/// --ef-l1 for ef_l1.
std::string OptionOf(const Dial& dial) {
  return absl::StrCat("--", absl::StrReplaceAll(std::string(dial.name), {{"_", "-"}}));
}

}  // namespace

void AddDials(CLI::App& app, SearchOptions* search) {
  app.add_option(
         "--recall", search->recall,
         "mean recall to reach, as fast as may be: the dials are those that `hmann tune` found, "
         "or else the defaults at the effort that was calibrated")
      ->check(CLI::Range(0.0, 1.0));
  AddParsed(app, "--latency", ParseDuration, &search->latency,
            "mean time of a query to keep, as 800us, with the best recall that it allows: dials "
            "likewise");
  AddParsed(app, "--budget", ParseDuration, &search->budget,
            "time after which a query ends with the best that it has found");
  for (const Dial& dial : DialTable()) {
    const std::string name = OptionOf(dial);
    CLI::Option* option = app.add_option_function<std::string>(
        name,
        [name, &dial, search](const std::string& text) {
          const absl::StatusOr<double> value = dial.Parse(text);
          if (!value.ok()) throw CLI::ValidationError(name, std::string(value.status().message()));
          dial.ask(*search, *value);
        },
        std::string(dial.help));
    if (dial.with_target) continue;
    for (const char* target : {"--recall", "--latency"}) option->excludes(target);
  }
}

void AddQueryFlags(CLI::App& app, QueryFlags* flags) {
  SearchOptions* search = &flags->search;
  app.add_option("--queries", flags->queries, "vector file of the index's type and dimension")
      ->required();
  app.add_option("--rows", flags->rows, "first queries only (0: all)");
  app.add_option("--k", search->k, "neighbours per query")
      ->check(CLI::Range(std::int64_t{1}, kMostNeighbours))
      ->capture_default_str();
  AddDials(app, search);
  app.add_option("--threads", flags->threads, "queries side by side")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--groundtruth", flags->groundtruth,
                 "exact neighbours: adds recall to the report");
  app.add_option("--out", flags->out, "write the answers: .ibin ids, .gt ids and distances, .jsonl")
      ->check(CheckSuffix);
  app.add_flag("--json", flags->json, "report as one JSON object on stdout");
}

}  // namespace hmann::tools
