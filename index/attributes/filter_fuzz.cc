/// libFuzzer over filters: any text. If it is a filter, its canonical text is the same
/// filter and its own canonical text. The arguments $a, $b and $c have values.
#include <cstdint>
#include <string>

#include "hmann/filter.h"
#include "index/base/check.h"

namespace hmann {
namespace {

void CheckText(std::string_view text) {
  static const FilterArguments given = {
      {"a", {std::int64_t{7}}}, {"b", {0.5, true, std::string("x\ny")}}, {"c", {}}};
  FilterArguments arguments;
  for (const auto& [name, values] : given) {
    if (text.find("$" + name) != std::string_view::npos) arguments.emplace(name, values);
  }
  const auto filter = Filter::Parse(text, arguments);
  if (!filter.ok() || filter->text().size() > Filter::kMostBytes) return;
  const auto again = Filter::Parse(filter->text());
  HMANN_CHECK(again.ok());
  HMANN_CHECK(again->root() == filter->root());
  HMANN_CHECK(again->text() == filter->text());
}

}  // namespace
}  // namespace hmann

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hmann::CheckText(std::string(data, data + size));
  return 0;
}
