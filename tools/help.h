#pragma once

#include <cstddef>
#include <string>

#include "CLI/App.hpp"
#include "CLI/Formatter.hpp"

namespace hmann::tools {

/// Lays out --help: wrapped at the width of the terminal, the group "Options" alone.
/// --help-all adds the other groups.
class Help : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option, bool positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

/// Appends the words of `text`, wrapped at the width of the terminal, to a line that has
/// `used` columns. Further lines are indented.
void AppendWrapped(const std::string& text, std::size_t used, std::size_t indent, std::string* out);

/// "--k N", and what the option does with its range and its default value.
struct OptionText {
  std::string name, description;
};
OptionText TextOf(const CLI::Option& option);

/// Keeps the options of `everyday`, as "--k --out", in the group "Options" of `app` and
/// of its subcommands, and moves the others out of it. Nothing moves if it is empty.
void ShowEveryday(CLI::App& app, const std::string& everyday);

/// Options that are declared in its lifetime belong to the group `name`.
class OptionGroup {
 public:
  OptionGroup(CLI::App& app, const char* name)
      : app_(app), name_(name), first_(app.get_options({}).size()) {}
  ~OptionGroup();  // NOLINT(bugprone-exception-escape): names are short
  OptionGroup(const OptionGroup&) = delete;
  OptionGroup& operator=(const OptionGroup&) = delete;

 private:
  CLI::App& app_;
  const char* name_;
  const std::size_t first_;
};

}  // namespace hmann::tools
