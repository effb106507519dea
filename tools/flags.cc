#include "tools/flags.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "index/base/units.h"

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

}  // namespace

std::string Suggestion(std::string_view found, const std::vector<std::string>& known) {
  std::string nearest;
  std::size_t best = 3;
  for (const std::string& name : known) {
    const std::size_t distance = EditDistance(found, name);
    if (distance >= best) continue;
    best = distance;
    nearest = name;
  }
  return nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?");
}

CLI::Option* AddFilterFlag(CLI::App& app, std::string* filter, const std::string& description) {
  return app.add_option("--filter", *filter, description)->check([](const std::string& text) {
    const bool is_blank = absl::StripAsciiWhitespace(text).empty();
    return is_blank ? "expected a condition, as 'year >= 2020'; found none" : "";
  });
}

void AcceptUnits(CLI::App& app) {
  for (CLI::Option* option : app.get_options({})) {
    if (!absl::StrContains(option->get_type_name(), "INT")) continue;
    option->transform([](const std::string& text) {
      const absl::StatusOr<std::uint64_t> number = ParseCount(text);
      return number.ok() ? absl::StrCat(*number) : text;
    });
  }
  for (CLI::App* sub : app.get_subcommands({})) AcceptUnits(*sub);
}

}  // namespace hmann::tools
