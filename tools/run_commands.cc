#include "tools/run_commands.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "index/base/errors.h"
#include "index/base/units.h"
#include "tools/failed_read.h"
#include "tools/flags.h"
#include "tools/help.h"
#include "tools/interrupt.h"

namespace hmann::tools {
namespace {

constexpr int kTryAgain = 75;  ///< EX_TEMPFAIL, by which schedulers start a task again

/// Prints wrong usage of the command `name`. Returns 2, for main to return.
int WrongUsage(const std::string& name, const std::string& message) {
  std::cerr << name << ": " << message << "\n`" << name << " --help` shows the options.\n";
  return 2;
}

/// Looks for words that no command knows, before anything that they leave missing is
/// reported. Returns 2 and has printed the first one; otherwise 0, and `name` is the full
/// name of the command.
int FindUnknown(CLI::App* app, int argc, char** argv, std::string* name) {
  *name = app->get_name();
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string word(argv[i], std::strcspn(argv[i], "="));
    const std::vector<CLI::App*> commands = app->get_subcommands({});
    std::vector<std::string> known;
    if (absl::StartsWith(word, "--")) {
      if (app->get_option_no_throw(word) != nullptr) continue;
      for (const CLI::Option* option : app->get_options({})) {
        for (const std::string& each : option->get_lnames()) known.push_back("--" + each);
      }
      return WrongUsage(*name, absl::StrCat("no option '", word, "'", Suggestion(word, known)));
    }
    if (commands.empty() || absl::StartsWith(word, "-")) continue;
    for (CLI::App* command : commands) {
      if (command->get_name() == word) app = command;
      if (!command->get_group().empty()) known.push_back(command->get_name());
    }
    if (app->get_name() != word) {
      std::string more = Suggestion(word, known);
      if (more.empty()) more = absl::StrCat("; expected ", absl::StrJoin(known, ", "));
      return WrongUsage(*name, absl::StrCat("no command '", word, "'", more));
    }
    absl::StrAppend(name, " ", word);
    if (app->get_prefix_command()) break;
  }
  return 0;
}

/// Runs the work of a command. Returns its exit code.
int Run(const CommandAction& action, const std::string& name) {
  absl::Status status = action();
  errno = 0;
  if (status.ok() && !std::cout.flush().good())
    status = DataLoss("write to stdout: ", std::strerror(errno));
  if (status.ok()) return 0;
  std::cerr << name << ": " << std::string(status.message()) << '\n';
  if (absl::IsUnavailable(status)) return kTryAgain;
  return absl::IsCancelled(status) ? EndAsInterrupted() : 1;
}

int ParseAndRun(std::span<const Command> table, int argc, char** argv) {
  CLI::App app("hmann: search among billions of vectors in two-tier memory (HM-ANN)", "hmann");
  app.formatter(std::make_shared<Help>());
  app.set_version_flag("-V,--version", "hmann " HMANN_VERSION);
  app.set_help_all_flag("--help-all", "print all options, in groups");
  app.require_subcommand(0, 1);
  app.footer("`hmann COMMAND --help` shows the options and an example.");
  std::vector<CommandAction> actions;
  std::vector<CLI::App*> commands;
  for (const Command& command : table) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->footer(absl::StrCat("Example:\n  ", command.example));
    commands.push_back(sub);
    actions.push_back(command.setup(*sub));
    ShowEveryday(*sub, command.everyday);
  }
  AcceptUnits(app);

  std::string name;
  if (const int code = FindUnknown(&app, argc, argv, &name); code != 0) return code;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error, std::cout, std::cerr);
    const bool no_value =
        error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch);
    const std::string what = error.what();
    return WrongUsage(name,
                      no_value ? what.substr(0, what.find(": ")) + ": expected a value" : what);
  }

  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (commands[i]->parsed()) return Run(actions[i], name);
  }
  std::cerr << app.help();
  return 2;
}

}  // namespace

int RunCommands(std::span<const Command> commands, int argc, char** argv) {
  try {
    // A file size limit should give an error to report (EFBIG), not a fatal signal.
    std::signal(SIGXFSZ, SIG_IGN);
    NameFailedReads();
    return ParseAndRun(commands, argc, argv);
  } catch (const std::system_error& error) {
    std::cerr << "hmann: " << std::string(ThreadRefused(error).message()) << '\n';
    return 1;
  } catch (const std::exception& error) {  // from libraries; our code throws nothing
    std::cerr << "hmann: " << error.what() << '\n';
    return 1;
  }
}

}  // namespace hmann::tools
