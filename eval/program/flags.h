/// The options that the commands of `hmann eval` share. A command is a recipe: it
/// declares some of these options and fills a benchmark with systems, settings, places
/// and data.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/benchmark.h"
#include "tools/commands.h"

namespace hmann::eval {

/// Parsed values. The object must live as long as the `app` that it is declared on.
struct EvalFlags {
  Benchmark benchmark;
  std::vector<std::string> adapters;        ///< NAME=COMMAND
  std::vector<std::string> settings;        ///< NAME=JSON
  std::vector<std::string> build_settings;  ///< NAME=JSON
  std::vector<int> search_threads, in_flight = {1};
  bool json = false;

  /// Each declares a group of options; call each at most once.
  void AddData(CLI::App& app, bool truth = true);
  void AddBuild(CLI::App& app, bool settings = true);
  void AddRuns(CLI::App& app);
  void AddShapes(CLI::App& app);
  void AddClock(CLI::App& app);
  void AddOthers(CLI::App& app);
  void AddOut(CLI::App& app, const std::string& example, bool required = true);

  /// Runs the benchmark by `recipe`, after filling in adapters, settings of systems,
  /// shapes, and cancellation by SIGINT. Prints progress, human-readable lines and tables
  /// to stderr. Writes report.html, and prints JSON if requested. Call once, when the
  /// systems are known.
  using Recipe = std::function<absl::StatusOr<std::vector<Json>>(Benchmark, Progress&, const Say&)>;
  absl::Status Run(const Recipe& recipe = RunBenchmark);
};

/// Splits "NAME=JSON" where the JSON begins; a name may contain "=". Errors:
/// INVALID_ARGUMENT naming `option` if the JSON is not of `kind`.
absl::StatusOr<std::pair<std::string, Json>> NamedJson(const std::string& text, const char* option,
                                                       Json::value_t kind);

/// A declared subcommand of `hmann eval`, and its action, which runs if the user called
/// it.
using EvalCommand = std::pair<CLI::App*, tools::CommandAction>;
EvalCommand SetupEvalSweep(CLI::App& eval);
EvalCommand SetupEvalTiers(CLI::App& eval);
EvalCommand SetupEvalDisk(CLI::App& eval);
EvalCommand SetupEvalScale(CLI::App& eval);
EvalCommand SetupEvalLoad(CLI::App& eval);
EvalCommand SetupEvalRunbook(CLI::App& eval);
EvalCommand SetupEvalPaper(CLI::App& eval);
EvalCommand SetupEvalReport(CLI::App& eval);

}  // namespace hmann::eval
