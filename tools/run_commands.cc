#include "tools/run_commands.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "index/base/errors.h"
#include "tools/failed_read.h"

namespace hmann::tools {
namespace {

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

/// Suggests a command for an unknown one. Returns 2, for main to return.
int UnknownCommand(std::span<const Command> commands, std::string_view found) {
  std::string_view nearest;
  std::size_t best = 3;
  for (const Command& command : commands) {
    const std::size_t distance = EditDistance(found, command.name);
    if (distance < best) {
      best = distance;
      nearest = command.name;
    }
  }
  std::cerr << "hmann: no command '" << found << "'";
  if (!nearest.empty()) std::cerr << "; did you mean '" << nearest << "'?";
  std::cerr << "\n`hmann --help` lists the commands.\n";
  return 2;
}

bool Exists(std::span<const Command> commands, std::string_view name) {
  return std::any_of(commands.begin(), commands.end(),
                     [&](const Command& command) { return name == command.name; });
}

int ParseAndRun(std::span<const Command> table, int argc, char** argv) {
  CLI::App app("hmann: search among billions of vectors in two-tier memory (HM-ANN)", "hmann");
  app.set_version_flag("-V,--version", "hmann " HMANN_VERSION);
  app.require_subcommand(0, 1);
  app.footer("`hmann COMMAND --help` shows the options and an example.");
  std::vector<CommandAction> actions;
  std::vector<CLI::App*> commands;
  for (const Command& command : table) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->footer(absl::StrCat("Example:\n  ", command.example));
    commands.push_back(sub);
    actions.push_back(command.setup(*sub));
  }

  if (argc > 1 && argv[1][0] != '-' && !Exists(table, argv[1]))
    return UnknownCommand(table, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : 2;
  }

  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (!commands[i]->parsed()) continue;
    const absl::Status status = actions[i]();
    if (status.ok()) return 0;
    std::cerr << "hmann " << table[i].name << ": " << std::string(status.message()) << '\n';
    return 1;
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
