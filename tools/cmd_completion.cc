#include <iostream>
#include <memory>
#include <string>

#include "index/base/errors.h"
#include "tools/command_tree.h"
#include "tools/commands.h"
#include "tools/eval_program.h"

namespace hmann::tools {
namespace {

/// One `case` over the commands already on the line. File names complete where no word of
/// ours fits.
constexpr const char* kBeforeCases =
    "_hmann() {\n"
    "  local current=${COMP_WORDS[COMP_CWORD]} command='' words='' value='' word\n"
    "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
    "    case $word in -*) break ;; esac\n"
    "    command=${command:+$command }$word\n"
    "    [[ $command == data\\ * || $command == eval\\ * ]] && break\n"
    "    [[ $command == data || $command == eval ]] || break\n"
    "  done\n"
    "  case $command:${COMP_WORDS[COMP_CWORD-1]} in\n";
constexpr const char* kAfterCases =
    "  esac\n"
    "  if [[ -n $value || $current == -* || -z $command || $command == data || $command == eval || "
    "$command == "
    "completion ]]; then\n"
    "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
    "  fi\n"
    "}\n"
    "complete -o default -F _hmann hmann\n";

absl::Status PrintScript(CLI::App* root, const std::string& shell) {
  if (shell == "zsh") std::cout << "autoload -U +X bashcompinit && bashcompinit\n";
  std::cout << kBeforeCases << std::flush;
  // The first matching case counts. Those of hmann-eval, if present, precede our `eval`,
  // which has no words.
  const absl::Status eval = RunEvalProgram({"completion"});
  if (!eval.ok() && !absl::IsNotFound(eval)) return eval;
  std::cout << CompletionCases(root, {}) << kAfterCases << std::flush;
  return std::cout.good() ? absl::OkStatus() : DataLoss("write to stdout failed");
}

}  // namespace

CommandAction SetupCompletion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  return [&app, shell] { return PrintScript(Root(&app), *shell); };
}

}  // namespace hmann::tools
