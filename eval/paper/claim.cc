#include "eval/paper/claim.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace hmann::eval {

std::string Text(double value, const char* unit) {
  if (!std::isfinite(value)) return "-";
  const int digits = std::abs(value) >= 100 ? 0 : std::abs(value) >= 10 ? 1 : 2;
  return absl::StrFormat("%.*f%s", digits, value, unit);
}
std::string Percent(double share) { return Text(100 * share, " %"); }

Json ClaimLine(const char* claim, const char* paper, const std::string& ran,
               const std::string& figure, const char* verdict, const std::string& varied,
               const std::vector<Table>& tables) {
  Json shown = Json::array();
  for (const Table& table : tables)
    shown.push_back({{"title", table.title}, {"head", table.head}, {"rows", table.rows}});
  return {{"kind", "claim"},  {"claim", claim},     {"paper", paper},   {"ran", ran},
          {"figure", figure}, {"verdict", verdict}, {"varied", varied}, {"tables", shown}};
}

}  // namespace hmann::eval
