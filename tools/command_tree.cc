#include "tools/command_tree.h"

#include <functional>

#include "CLI/Option.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "tools/help.h"

namespace hmann::tools {
namespace {

std::vector<CLI::App*> Subcommands(CLI::App* command) {
  return command->get_subcommands([](CLI::App* sub) { return !sub->get_group().empty(); });
}

/// Calls visit(command, path) for `command` and its subcommands, parents first. `path` is
/// e.g. {"hmann", "data", "fetch"}.
void VisitCommands(CLI::App* command, std::vector<std::string> path,
                   const std::function<void(CLI::App*, const std::vector<std::string>&)>& visit) {
  path.push_back(command->get_name());
  visit(command, path);
  for (CLI::App* sub : Subcommands(command)) VisitCommands(sub, path, visit);
}

/// Escapes text so that troff takes it literally.
std::string Plain(const std::string& text) {
  const std::string escaped =
      absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"\n.", "\n\\&."}});
  return absl::StartsWith(escaped, ".") ? absl::StrCat("\\&", escaped) : escaped;
}

std::string Page(CLI::App* command, const std::vector<std::string>& path) {
  const std::string name = absl::StrJoin(path, "-");
  std::string page =
      absl::StrCat(".TH ", absl::AsciiStrToUpper(name), " 1 \"\" \"hmann ", HMANN_VERSION,
                   "\"\n.SH NAME\n", Plain(name), " \\- ", Plain(command->get_description()),
                   "\n.SH SYNOPSIS\n.B ", Plain(absl::StrJoin(path, " ")), "\n");
  for (const CLI::Option* option : command->get_options()) {
    if (option->get_positional()) absl::StrAppend(&page, ".I ", Plain(option->get_name()), "\n");
  }
  absl::StrAppend(&page, "[options]\n");
  const auto subcommands = Subcommands(command);
  if (!subcommands.empty()) absl::StrAppend(&page, ".SH COMMANDS\n");
  for (const CLI::App* sub : subcommands) {
    absl::StrAppend(&page, ".TP\n.BR ", Plain(absl::StrCat(name, "-", sub->get_name())), " (1)\n",
                    Plain(sub->get_description()), "\n");
  }
  absl::StrAppend(&page, ".SH OPTIONS\n");
  for (const CLI::Option* option : command->get_options()) {
    const OptionText text = TextOf(*option);
    absl::StrAppend(&page, ".TP\n.B ", Plain(text.name), "\n", Plain(text.description), "\n");
  }
  if (!command->get_footer().empty())
    absl::StrAppend(&page, ".SH EXAMPLE\n.nf\n", Plain(command->get_footer()), "\n.fi\n");
  return absl::StrCat(page,
                      ".SH EXIT STATUS\n0 done, 1 the work failed (the error says why), 2 wrong "
                      "usage, 130 Ctrl-C.\n");
}

/// The values of an option whose type lists them, as "l2|ip|cosine" or "{0,4,8}".
std::string ValuesOf(const CLI::Option* option) {
  const std::string type = option->get_type_name();
  const std::size_t brace = type.find('{');
  if (brace == std::string::npos && !absl::StrContains(type, "|")) return "";
  return absl::StrReplaceAll(type.substr(brace == std::string::npos ? 0 : brace),
                             {{"{", ""}, {"}", ""}, {",", " "}, {"|", " "}});
}

/// The words that may follow a command, e.g. "--k --ef-l1 fetch".
std::string WordsAfter(CLI::App* command) {
  std::vector<std::string> words;
  for (const CLI::App* sub : Subcommands(command)) words.push_back(sub->get_name());
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back(absl::StrCat("--", name));
  }
  return absl::StrJoin(words, " ");
}

}  // namespace

CLI::App* Root(CLI::App* app) {
  while (app->get_parent() != nullptr) app = app->get_parent();
  return app;
}

absl::Status WriteManual(CLI::App* command, const std::vector<std::string>& above,
                         const std::string& folder) {
  HMANN_RETURN_IF_ERROR(MakeFolders(folder));
  absl::Status status;
  VisitCommands(command, above, [&](CLI::App* found, const std::vector<std::string>& path) {
    if (status.ok())
      status = WriteTextFile(absl::StrCat(folder, "/", absl::StrJoin(path, "-"), ".1"),
                             Page(found, path));
  });
  return status;
}

std::string CompletionCases(CLI::App* command, const std::vector<std::string>& above) {
  std::string cases;
  VisitCommands(command, above, [&](CLI::App* found, const std::vector<std::string>& path) {
    const std::string name = absl::StrJoin(path.begin() + 1, path.end(), " ");
    for (const CLI::Option* option : found->get_options()) {
      const std::string values = ValuesOf(option);
      if (!values.empty())
        absl::StrAppend(&cases, "    '", name, ":", option->get_name(false, true), "') words='",
                        values, "' value=yes ;;\n");
    }
    absl::StrAppend(&cases, "    '", name, ":'*) words='", WordsAfter(found), "' ;;\n");
  });
  return cases;
}

}  // namespace hmann::tools
