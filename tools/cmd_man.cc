#include <iostream>
#include <memory>
#include <string>

#include "index/base/status_macros.h"
#include "tools/command_tree.h"
#include "tools/commands.h"
#include "tools/eval_program.h"

namespace hmann::tools {
namespace {

absl::Status WriteAllPages(CLI::App* root, const std::string& folder) {
  HMANN_RETURN_IF_ERROR(WriteManual(root, {}, folder));
  // hmann-eval knows its own commands: it rewrites hmann-eval.1 and the pages below it.
  const absl::Status eval = RunEvalProgram({"man", "--out", folder});
  if (!absl::IsNotFound(eval)) return eval;
  std::cerr << "no pages of the commands of `hmann eval`: " << std::string(eval.message()) << '\n';
  return absl::OkStatus();
}

}  // namespace

CommandAction SetupMan(CLI::App& app) {
  auto folder = std::make_shared<std::string>();
  app.add_option("--out", *folder, "folder for hmann.1, hmann-build.1, ...")
      ->required()
      ->check([](const std::string& name) {
        return name.starts_with("-") ? "expected a folder, found the option " + name : "";
      });
  return [&app, folder] { return WriteAllPages(Root(&app), *folder); };
}

}  // namespace hmann::tools
