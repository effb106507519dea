#include <filesystem>
#include <memory>
#include <system_error>

#include "CLI/Option.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "tools/command_tree.h"
#include "tools/commands.h"

namespace hmann {
namespace {

/// Text as troff takes it literally: no escapes, no control line.
std::string Plain(const std::string& text) {
  const std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"\n.", "\n\\&."}});
  return absl::StartsWith(escaped, ".") ? absl::StrCat("\\&", escaped) : escaped;
}

std::string Page(CLI::App* command, const std::vector<std::string>& path) {
  const std::string name = absl::StrJoin(path, "-");
  std::string page = absl::StrCat(".TH ", absl::AsciiStrToUpper(name), " 1 \"\" \"hmann ", HMANN_VERSION, "\"\n.SH NAME\n", Plain(name),
                                  " \\- ", Plain(command->get_description()), "\n.SH SYNOPSIS\n.B ", Plain(absl::StrJoin(path, " ")), "\n");
  for (const CLI::Option* option : command->get_options()) {
    if (option->get_positional()) absl::StrAppend(&page, ".I ", Plain(option->get_name()), "\n");
  }
  absl::StrAppend(&page, "[options]\n");
  const auto subcommands = command->get_subcommands([](CLI::App*) { return true; });
  if (!subcommands.empty()) absl::StrAppend(&page, ".SH COMMANDS\n");
  for (const CLI::App* sub : subcommands) {
    absl::StrAppend(&page, ".TP\n.BR ", Plain(absl::StrCat(name, "-", sub->get_name())), " (1)\n", Plain(sub->get_description()), "\n");
  }
  absl::StrAppend(&page, ".SH OPTIONS\n");
  for (const CLI::Option* option : command->get_options()) {
    absl::StrAppend(&page, ".TP\n.B ", Plain(option->get_name(option->get_positional(), !option->get_positional())), "\n",
                    Plain(option->get_description()));
    if (!option->get_default_str().empty()) absl::StrAppend(&page, " (default: ", Plain(option->get_default_str()), ")");
    absl::StrAppend(&page, "\n");
  }
  if (!command->get_footer().empty()) absl::StrAppend(&page, ".SH EXAMPLE\n.nf\n", Plain(command->get_footer()), "\n.fi\n");
  return absl::StrCat(page, ".SH EXIT STATUS\n0 done, 1 the work failed (the error says why), 2 wrong usage.\n");
}

absl::Status WritePages(CLI::App* root, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return ErrnoError(error.value(), "create", folder);
  absl::Status status;
  VisitCommands(root, [&](CLI::App* command, const std::vector<std::string>& path) {
    if (status.ok()) status = WriteTextFile(absl::StrCat(folder, "/", absl::StrJoin(path, "-"), ".1"), Page(command, path));
  });
  return status;
}

}  // namespace

CommandAction SetupMan(CLI::App& app) {
  auto folder = std::make_shared<std::string>();
  app.add_option("--out", *folder, "folder for hmann.1, hmann-build.1, ...")->required();
  return [&app, folder] { return WritePages(Root(&app), *folder); };
}

}  // namespace hmann
