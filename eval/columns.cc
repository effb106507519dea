#include "eval/columns.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hmann {

void PrintColumns(const std::vector<std::vector<std::string>>& rows, std::size_t left,
                  std::ostream& out) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&line, i == 0 ? "  " : "   ",
                      i < left ? absl::StrFormat("%-*s", widths[i], row[i])
                               : absl::StrFormat("%*s", widths[i], row[i]));
    }
    out << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
  }
}

}  // namespace hmann
