#pragma once

#include <functional>

#include "CLI/App.hpp"
#include "absl/status/status.h"

namespace hmann::tools {

/// The work of a command, run after its options are parsed. A failure gives exit code 1
/// with the message on stderr. Wrong usage ends before (exit 2).
using CommandAction = std::function<absl::Status()>;

/// A command. `setup` declares its options on `app` (a subcommand, description included)
/// and returns its action. The options live in a struct that the action shares.
struct Command {
  const char* name;
  const char* summary;
  const char* example;  ///< one line; runs in a clone after ./dev demo
  CommandAction (*setup)(CLI::App& app);
  /// The options that --help shows, as "--k --out"; --help-all shows the others, too.
  const char* everyday = "";
};

CommandAction SetupData(CLI::App& app);
CommandAction SetupBuild(CLI::App& app);
CommandAction SetupBuildJob(CLI::App& app);
CommandAction SetupPromote(CLI::App& app);
CommandAction SetupProfile(CLI::App& app);
CommandAction SetupPlan(CLI::App& app);
CommandAction SetupTune(CLI::App& app);
CommandAction SetupAttrs(CLI::App& app);
CommandAction SetupInfo(CLI::App& app);
CommandAction SetupVerify(CLI::App& app);
CommandAction SetupUpgrade(CLI::App& app);
CommandAction SetupSearch(CLI::App& app);
CommandAction SetupGet(CLI::App& app);
CommandAction SetupCreate(CLI::App& app);
CommandAction SetupPut(CLI::App& app);
CommandAction SetupUpdate(CLI::App& app);
CommandAction SetupDelete(CLI::App& app);
CommandAction SetupCompact(CLI::App& app);
CommandAction SetupBackup(CLI::App& app);
CommandAction SetupServe(CLI::App& app);
CommandAction SetupQuery(CLI::App& app);
CommandAction SetupAdmin(CLI::App& app);
CommandAction SetupEval(CLI::App& app);
CommandAction SetupCompletion(CLI::App& app);
CommandAction SetupMan(CLI::App& app);

}  // namespace hmann::tools
