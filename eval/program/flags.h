/// The options that the commands of `hmann eval` share. A command is a recipe: it
/// declares some of them, and fills a benchmark with systems, settings, places and data.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/benchmark.h"
#include "eval/program/finished_flags.h"
#include "tools/commands.h"

namespace hmann::eval {

/// As parsed; what is declared must live as long as the `app`.
struct EvalFlags {
  Benchmark benchmark;
  std::vector<std::string> adapters;        ///< NAME=COMMAND
  std::vector<std::string> settings;        ///< NAME=JSON
  std::vector<std::string> build_settings;  ///< NAME=JSON
  std::vector<int> search_threads, in_flight = {1};
  bool json = false;

  /// Declare options, each group once.
  void AddData(CLI::App& app, bool truth = true);
  void AddBuild(CLI::App& app, bool settings = true);
  void AddRuns(CLI::App& app);
  void AddShapes(CLI::App& app);
  void AddClock(CLI::App& app);
  void AddOthers(CLI::App& app);
  void AddOut(CLI::App& app, const std::string& example, bool required = true);

  /// Fills in what the command line leaves to it (adapters, settings of the contestants,
  /// shapes, that SIGINT cancels), runs the benchmark by `recipe`, with progress and
  /// lines for the eye on stderr, and tells its figures: tables on stderr, report.html,
  /// and JSON if that was asked for. Call once, when the contestants are known.
  using Recipe = std::function<absl::StatusOr<std::vector<Json>>(Benchmark, Progress&, const Say&)>;
  absl::Status Run(const Recipe& recipe = RunBenchmark);
};

/// "NAME=JSON" in two, where the JSON begins: a name may have a "=" in it. Errors:
/// INVALID_ARGUMENT naming `option`, where it is not of `kind`.
absl::StatusOr<std::pair<std::string, Json>> NamedJson(const std::string& text, const char* option,
                                                       Json::value_t kind);

/// A subcommand of `hmann eval`, declared: the action is run if it was the one that was
/// called.
using EvalCommand = std::pair<CLI::App*, tools::CommandAction>;
EvalCommand SetupEvalSweep(CLI::App& eval);
EvalCommand SetupEvalTiers(CLI::App& eval);
EvalCommand SetupEvalDisk(CLI::App& eval);
EvalCommand SetupEvalScale(CLI::App& eval);
EvalCommand SetupEvalLoad(CLI::App& eval);

}  // namespace hmann::eval
