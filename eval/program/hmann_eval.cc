#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "eval/program/flags.h"
#include "index/base/errors.h"
#include "tools/command_tree.h"
#include "tools/run_commands.h"

namespace hmann::eval {
namespace {

// hmann calls these two to write manual pages and completion scripts. No help lists them.

EvalCommand SetupEvalMan(CLI::App& eval) {
  auto folder = std::make_shared<std::string>();
  CLI::App* app = eval.add_subcommand("man", "Write the manual pages of `hmann eval`")->group("");
  app->add_option("--out", *folder, "folder for hmann-eval.1, hmann-eval-sweep.1, ...")->required();
  return {app, [&eval, folder] { return tools::WriteManual(&eval, {"hmann"}, *folder); }};
}

EvalCommand SetupEvalCompletion(CLI::App& eval) {
  CLI::App* app =
      eval.add_subcommand("completion", "Print the cases of `hmann eval` for the completion script")
          ->group("");
  return {app, [&eval] {
            std::cout << tools::CompletionCases(&eval, {"hmann"}) << std::flush;
            return std::cout.good() ? absl::OkStatus() : DataLoss("write to stdout failed");
          }};
}

tools::CommandAction SetupEvalCommands(CLI::App& app) {
  app.require_subcommand(1);
  std::vector<EvalCommand> commands = {
      SetupEvalSweep(app), SetupEvalTiers(app),     SetupEvalDisk(app),  SetupEvalScale(app),
      SetupEvalLoad(app),  SetupEvalRunbook(app),   SetupEvalPaper(app), SetupEvalReport(app),
      SetupEvalMan(app),   SetupEvalCompletion(app)};
  return [commands = std::move(commands)]() -> absl::Status {
    for (const auto& [command, action] : commands) {
      if (command->parsed()) return action();
    }
    return Internal("eval: no subcommand was called");
  };
}

constexpr tools::Command kCommands[] = {tools::EvalRow(SetupEvalCommands)};

}  // namespace
}  // namespace hmann::eval

/// `hmann-eval ARGS` is `hmann eval ARGS`; it reads and reports as hmann does.
int main(int argc, char** argv) {
  std::string eval = "eval";
  std::vector<char*> words(argv, argv + argc);
  words.insert(words.begin() + 1, eval.data());
  return hmann::tools::RunCommands(hmann::eval::kCommands, static_cast<int>(words.size()),
                                   words.data());
}
