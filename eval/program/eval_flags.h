/// What the commands of `hmann eval` share: options of a sweep, its run, what it leaves.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/sweep.h"
#include "tools/commands.h"

namespace hmann {

/// Options that every command with a sweep has, as parsed.
struct EvalFlags {
  SweepOptions sweep;
  std::vector<std::string> settings;        ///< NAME=JSON
  std::vector<std::string> build_settings;  ///< NAME=JSON
  bool json = false;
};

/// A check of CLI11's: "" for a share between 0 and 1.
std::string CheckShare(const std::string& text);

/// Declares them, with an example on the sample: `more` are its further options. `flags`
/// must live as long as `app`.
void AddEvalOptions(CLI::App& app, EvalFlags* flags, const std::string& more = "");
/// Declares --adapter and --reference: `adapters` become contestants in AddAdapters.
void AddForeign(CLI::App& app, std::vector<std::string>* adapters, SweepOptions* sweep);
absl::Status AddAdapters(const std::vector<std::string>& adapters, SweepOptions* sweep);
/// Declares --promote, --emulated.
void AddPromote(CLI::App& app, double* promote);
void AddEmulated(CLI::App& app, std::string* emulated);

/// Fills in what the command line leaves to it: --settings and --build-settings of the
/// contestants, the folder of built indexes, and that SIGINT cancels. Call once.
absl::Status FinishEvalOptions(EvalFlags& flags);

/// FinishEvalOptions, then runs the sweep of `flags` (progress and lines for the eye on
/// stderr).
absl::StatusOr<SweepResult> RunEval(EvalFlags& flags);

/// Writes report.html of the figures, names the files on stderr, and prints the figures
/// as JSON if that was asked for.
absl::Status TellEval(const EvalFlags& flags, const Json& figures);

/// A subcommand of `hmann eval`, declared: the action is run if it was the one that was
/// called.
using EvalCommand = std::pair<CLI::App*, CommandAction>;
EvalCommand SetupEvalSweep(CLI::App& eval);
EvalCommand SetupEvalTiers(CLI::App& eval);
EvalCommand SetupEvalMemoryMode(CLI::App& eval);
EvalCommand SetupEvalDisk(CLI::App& eval);
EvalCommand SetupEvalLoad(CLI::App& eval);
EvalCommand SetupEvalScale(CLI::App& eval);

}  // namespace hmann
