#include "tools/help.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace hmann::tools {
namespace {

constexpr const char* kOptions = "Options";
constexpr std::size_t kColumn = 26;

std::size_t Width() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return std::clamp<std::size_t>(known ? size.ws_col : 80, 2 * kColumn, 100);
}

/// Two columns, the right one wrapped.
std::string Row(const std::string& left, const std::string& right) {
  std::string row = absl::StrCat("  ", left);
  if (row.size() + 2 > kColumn) absl::StrAppend(&row, "\n", std::string(kColumn, ' '));
  if (row.size() < kColumn) row.append(kColumn - row.size(), ' ');
  AppendWrapped(right, kColumn, kColumn, &row);
  return absl::StrCat(row, "\n");
}

}  // namespace

void AppendWrapped(const std::string& text, std::size_t used, std::size_t indent,
                   std::string* out) {
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (used > indent && used + 1 + word.size() > Width()) {
      absl::StrAppend(out, "\n", std::string(indent, ' '));
      used = indent;
    }
    absl::StrAppend(out, used > indent ? " " : "", word);
    used += word.size() + (used > indent ? 1 : 0);
  }
}

OptionText TextOf(const CLI::Option& option) {
  OptionText text{option.get_name(true, true), option.get_description()};
  if (option.get_type_size() == 0) return text;
  const auto [type, check] = std::pair<std::string, std::string>(
      absl::StrSplit(option.get_type_name(), absl::MaxSplits(':', 1)));
  const std::string kind = absl::StrReplaceAll(type, {{"UINT", "N"}, {"INT", "N"}, {"FLOAT", "X"}});
  if (option.nonpositional()) absl::StrAppend(&text.name, " ", kind);
  std::string range = check;
  absl::string_view view = range;
  if (absl::ConsumePrefix(&view, "INT in ") || absl::ConsumePrefix(&view, "UINT in ") ||
      absl::ConsumePrefix(&view, "FLOAT in ") || absl::ConsumePrefix(&view, "{"))
    absl::StrAppend(&text.description, " (",
                    absl::StripPrefix(absl::StripSuffix(absl::StripSuffix(view, "]"), "}"), "["),
                    ")");
  if (!option.get_default_str().empty())
    absl::StrAppend(&text.description, " (default: ", option.get_default_str(), ")");
  if (option.get_required()) absl::StrAppend(&text.description, " (required)");
  return text;
}

std::string Help::make_option(const CLI::Option* option, bool) const {
  const OptionText text = TextOf(*option);
  return Row(text.name, text.description);
}

std::string Help::make_subcommand(const CLI::App* command) const {
  return Row(command->get_name(), command->get_description());
}

std::string Help::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  const bool all = mode == CLI::AppFormatMode::All;
  std::string help;
  AppendWrapped(app->get_description(), 0, 0, &help);
  absl::StrAppend(&help, "\n", make_usage(app, name));
  std::size_t hidden = 0;
  std::vector<std::string> groups = app->get_groups();
  for (const std::string& group : groups) {
    const auto options =
        app->get_options([&](const CLI::Option* option) { return option->get_group() == group; });
    if (group.empty() || options.empty()) continue;
    if (all || group == kOptions) {
      absl::StrAppend(&help, make_group(group, false, options));
    } else {
      hidden += options.size();
    }
  }
  if (hidden > 0) absl::StrAppend(&help, "\n", hidden, " more options: `", name, " --help-all`.\n");
  return absl::StrCat(help, make_subcommands(app, CLI::AppFormatMode::Normal), "\n",
                      make_footer(app));
}

void ShowEveryday(CLI::App& app, const std::string& everyday) {
  if (everyday.empty()) return;
  const std::set<std::string> shown = absl::StrSplit(everyday, ' ');
  for (CLI::Option* option : app.get_options({})) {
    const bool show = option->get_positional() || option == app.get_help_ptr() ||
                      option == app.get_help_all_ptr() ||
                      shown.contains(option->get_name(false, true));
    if (show) {
      option->group(kOptions);
    } else if (option->get_group() == kOptions) {
      option->group("More options");
    }
  }
  for (CLI::App* sub : app.get_subcommands({})) ShowEveryday(*sub, everyday);
}

OptionGroup::~OptionGroup() {  // NOLINT(bugprone-exception-escape)
  const std::vector<CLI::Option*> options = app_.get_options({});
  for (std::size_t i = first_; i < options.size(); ++i) options[i]->group(name_);
}

}  // namespace hmann::tools
