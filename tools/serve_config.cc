// `hmann serve --config FILE`: the options of the command line, read from a TOML file.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "toml++/toml.h"
#include "tools/flags.h"
#include "tools/open_flags.h"
#include "tools/serve_flags.h"

namespace hmann::tools {
namespace {

/// The options of one index, which are keys of its table.
struct IndexFlags {
  std::string file, versions;
  OpenOptions open;
  bool warm = false, follow = false;
  std::uint64_t delta_bytes = 0;
};

void AddIndexFlags(CLI::App& app, IndexFlags* flags) {
  app.add_option("--file", flags->file)->type_name("FILE");
  app.add_option("--versions", flags->versions)->type_name("FOLDER");
  app.add_flag("--warm", flags->warm);
  app.add_flag("--follow", flags->follow);
  AddParsed(app, "--delta-memory", ParseSize, &flags->delta_bytes, "");
  AddOpenFlags(app, &flags->open);
}

/// An error of a key or a value: "serve.toml:3:1: ...".
template <typename... Parts>
absl::Status ErrorAt(const toml::source_region& at, const Parts&... parts) {
  return InvalidArgument(*at.path, ":", at.begin.line, ":", at.begin.column, ": ", parts...);
}

absl::StatusOr<toml::table> ParseToml(const std::string& path) {
  constexpr std::uint64_t kMost = 1 << 20;
  HMANN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMost));
  // The parser bounds levels of values, but not those that dots in keys make: a guess.
  constexpr std::ptrdiff_t kMostDots = 256;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (std::ranges::count(line, '.') > kMostDots)
      return InvalidArgument(path, ": expected at most ", kMostDots, " dots in a line, found more");
  }
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return ErrorAt(error.source(), std::string(error.description()));
  }
}

/// The value of `key` as the command line would give it.
absl::StatusOr<std::string> TextOfValue(const toml::key& key, const toml::node& value,
                                        const CLI::Option& option) {
  const std::string name(key.str());
  const bool flag = option.get_items_expected_max() == 0;
  if (flag && value.is_boolean()) return value.ref<bool>() ? "true" : "false";
  if (flag) return ErrorAt(value.source(), name, ": expected true or false");
  const std::string type = option.get_type_name();
  const bool path = type == "FILE" || type == "FOLDER";
  if (value.is_integer() && !path) return absl::StrCat(value.ref<std::int64_t>());
  if (!value.is_string()) {
    return ErrorAt(value.source(), name, ": expected ", path ? "" : "a whole number or ",
                   "a text in quotes");
  }
  const auto& text = value.ref<std::string>();
  if (text.empty() || !path) return text;
  return std::filesystem::path(*value.source().path).parent_path() / text;
}

/// Gives the values of a table to the options of `app`, but those that are sections or
/// that `line` has. Keys may have `_` for `-`, as in Python.
absl::Status Feed(const toml::table& table, const std::set<std::string>& sections,
                  const CLI::App& line, CLI::App& app) {
  std::set<std::string> seen;
  for (auto&& [key, value] : table) {
    const std::string name = absl::StrReplaceAll(std::string(key.str()), {{"_", "-"}});
    if (sections.contains(name)) continue;
    if (!seen.insert(name).second) return ErrorAt(key.source(), name, ": is there already");
    CLI::Option* const option = app.get_option_no_throw("--" + name);
    if (option == nullptr || !option->get_configurable()) {
      std::vector<std::string> known(sections.begin(), sections.end());
      for (const CLI::Option* each : app.get_options({})) {
        if (each->get_configurable()) known.push_back(each->get_single_name());
      }
      const std::string near = Suggestion(name, known);
      return ErrorAt(key.source(), "no key '", std::string(key.str()), "'",
                     near.empty() ? "; expected " + absl::StrJoin(known, ", ") : near);
    }
    HMANN_ASSIGN_OR_RETURN(std::string text, TextOfValue(key, value, *option));
    const CLI::Option* const given = line.get_option_no_throw("--" + name);
    if (given != nullptr && given->count() > 0) continue;
    try {
      option->add_result(std::move(text));
      option->run_callback();
    } catch (const std::exception& error) {  // CLI11's
      return ErrorAt(value.source(), std::string(absl::StripPrefix(error.what(), "--")));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<const toml::table*> Section(const toml::table& file, const char* name) {
  static const toml::table kNone;
  const toml::node* const node = file.get(name);
  if (node == nullptr) return &kNone;
  if (!node->is_table()) return ErrorAt(node->source(), name, ": expected a table");
  return node->as_table();
}

absl::StatusOr<server::IndexSpec> ReadIndex(const toml::key& key, const toml::node& node,
                                            const server::ServerOptions& defaults) {
  server::IndexSpec spec{std::string(key.str()), ""};
  if (const absl::Status status = spec.Validate(); !status.ok())
    return ErrorAt(key.source(), "index: ", status.message());
  if (!node.is_table())
    return ErrorAt(node.source(), "index.", spec.name, ": expected a table [index.", spec.name,
                   "]");
  IndexFlags flags;
  flags.open = defaults.open;
  flags.warm = defaults.warm;
  CLI::App app;
  app.set_help_flag();
  AddIndexFlags(app, &flags);
  AcceptUnits(app);
  HMANN_RETURN_IF_ERROR(Feed(*node.as_table(), {}, CLI::App(), app));
  if (flags.file.empty() == flags.versions.empty())
    return ErrorAt(key.source(), "index.", spec.name,
                   ": expected either file = \"FILE\" or versions = \"FOLDER\"");
  spec.versions = flags.file.empty();
  spec.path = spec.versions ? flags.versions : flags.file;
  spec.open = std::move(flags.open);
  spec.warm = flags.warm;
  spec.follow = flags.follow;
  spec.delta_bytes = flags.delta_bytes;
  return spec;
}

/// The index that an alias stands for, if by way of other aliases.
absl::StatusOr<std::string> ReadAlias(const toml::key& key, const toml::table& aliases,
                                      const std::set<std::string>& indexes) {
  constexpr int kMostSteps = 16;  // ends circles; more is no name but a riddle
  const std::string name(key.str());
  if (const absl::Status status = server::IndexSpec{name, ""}.Validate(); !status.ok())
    return ErrorAt(key.source(), "alias: ", status.message());
  if (indexes.contains(name))
    return ErrorAt(key.source(), "alias.", name, ": an index has this name, too");
  std::string at = name;
  for (int step = 0; step < kMostSteps; ++step) {
    const toml::node* const next = aliases.get(at);
    if (next == nullptr)
      return ErrorAt(key.source(), "alias.", name, ": no [index.", at, "] and no alias '", at, "'");
    if (!next->is_string())
      return ErrorAt(next->source(), "alias.", at, ": expected the name of an index in quotes");
    at = next->ref<std::string>();
    if (indexes.contains(at)) return at;
  }
  return ErrorAt(key.source(), "alias.", name, ": expected an index within ", kMostSteps,
                 " aliases, found a circle or more");
}

absl::Status ReadSections(const toml::table& file, const std::string& path,
                          server::ServerOptions* options) {
  HMANN_ASSIGN_OR_RETURN(const toml::table* const indexes, Section(file, "index"));
  HMANN_ASSIGN_OR_RETURN(const toml::table* const aliases, Section(file, "alias"));
  if (indexes->empty())
    return InvalidArgument(path, ": expected at least one [index.NAME], with file or versions");
  std::set<std::string> names;
  for (auto&& [key, node] : *indexes) {
    HMANN_ASSIGN_OR_RETURN(server::IndexSpec spec, ReadIndex(key, node, *options));
    names.insert(spec.name);
    options->indexes.push_back(std::move(spec));
  }
  for (auto&& [key, node] : *aliases) {
    HMANN_ASSIGN_OR_RETURN(options->aliases[std::string(key.str())],
                           ReadAlias(key, *aliases, names));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ServeFlags> ReadServeFlags(const CLI::App& line, const std::string& config) {
  ServeFlags flags;
  CLI::App app;
  AddServeFlags(app, &flags);
  AcceptUnits(app);
  toml::table file;
  if (!config.empty()) {
    HMANN_ASSIGN_OR_RETURN(file, ParseToml(config));
    HMANN_RETURN_IF_ERROR(Feed(file, {"alias", "index"}, line, app));
  }
  for (const CLI::Option* given : line.get_options()) {
    CLI::Option* const option = app.get_option_no_throw(given->get_name());
    if (given->count() == 0 || option == nullptr) continue;
    option->add_result(given->results());
    option->run_callback();  // `line` has checked it
  }
  IndexFlags none;
  CLI::App of_index;
  AddIndexFlags(of_index, &none);
  for (const CLI::Option* option : app.get_options({})) {
    const std::string name = option->get_single_name();
    if (option->count() > 0 && name != "drain" && name != "log-level" &&
        of_index.get_option_no_throw("--" + name) == nullptr)
      flags.fixed[name] = option->results();
  }
  if (config.empty()) {
    for (const std::string& text : flags.indexes) {
      HMANN_ASSIGN_OR_RETURN(flags.server.indexes.emplace_back(), server::IndexSpec::Parse(text));
    }
  } else {
    HMANN_RETURN_IF_ERROR(ReadSections(file, config, &flags.server));
  }
  const absl::Status valid = flags.server.Validate();
  if (valid.ok()) return flags;
  return InvalidArgument(config, config.empty() ? "" : ": ", valid.message());
}

absl::Status CheckFixed(const ServeFlags& before, const ServeFlags& now) {
  std::set<std::string> names;
  for (const auto& [name, values] : before.fixed) names.insert(name);
  for (const auto& [name, values] : now.fixed) names.insert(name);
  for (const std::string& name : names) {
    const auto was = before.fixed.find(name), is = now.fixed.find(name);
    if (was != before.fixed.end() && is != now.fixed.end() && was->second == is->second) continue;
    return FailedPrecondition(now.config, ": ", name, ": cannot change while serving: restart");
  }
  return absl::OkStatus();
}

}  // namespace hmann::tools
