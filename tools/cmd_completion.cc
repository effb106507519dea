#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/command_tree.h"
#include "tools/commands.h"

namespace hmann {
namespace {

/// "--k --ef-l1 fetch": what may follow a command.
std::string WordsAfter(CLI::App* command) {
  std::vector<std::string> words;
  for (const CLI::App* sub : command->get_subcommands([](CLI::App*) { return true; })) words.push_back(sub->get_name());
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back(absl::StrCat("--", name));
  }
  return absl::StrJoin(words, " ");
}

/// One `case` over the commands already on the line; file names complete wherever no word of ours fits.
std::string BashScript(CLI::App* root) {
  std::string cases;
  VisitCommands(root, [&](CLI::App* command, const std::vector<std::string>& path) {
    absl::StrAppend(&cases, "    '", absl::StrJoin(path.begin() + 1, path.end(), " "), "') words='", WordsAfter(command), "' ;;\n");
  });
  return absl::StrCat(
      "_hmann() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} command='' words='' word\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case $word in -*) break ;; esac\n"
      "    command=${command:+$command }$word\n"
      "    [[ $command == data\\ * || $command == eval\\ * ]] && break\n"
      "    [[ $command == data || $command == eval ]] || break\n"
      "  done\n"
      "  case $command in\n",
      cases,
      "  esac\n"
      "  if [[ $current == -* || -z $command || $command == data || $command == eval || $command == completion ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  fi\n"
      "}\n"
      "complete -o default -F _hmann hmann\n");
}

}  // namespace

CommandAction SetupCompletion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  return [&app, shell]() -> absl::Status {
    if (*shell == "zsh") std::cout << "autoload -U +X bashcompinit && bashcompinit\n";
    std::cout << BashScript(Root(&app)) << std::flush;
    return std::cout.good() ? absl::OkStatus() : absl::DataLossError("write to stdout failed");
  };
}

}  // namespace hmann
