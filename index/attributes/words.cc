#include "index/attributes/words.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "index/attributes/attrs_file.h"
#include "index/base/errors.h"
#include "index/base/json_reader.h"

namespace hmann {

std::size_t Utf8Prefix(std::string_view text) {
  constexpr char32_t kLeast[] = {0, 0x80, 0x800, 0x10000};  // by the bytes that follow
  const auto byte = [text](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const unsigned lead = byte(at);
    const std::size_t more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    char32_t code = more == 0 ? lead : lead & (0x3Fu >> more);
    if ((more > 0 && lead < 0xC2) || lead > 0xF4) return at;
    for (std::size_t i = at + 1; i <= at + more; ++i) {
      if ((byte(i) & 0xC0) != 0x80) return at;
      code = code << 6 | (byte(i) & 0x3F);
    }
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    if (code < kLeast[more] || code > 0x10FFFF || surrogate) return at;
    at += more + 1;
  }
  return at;
}

std::string ShownText(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::size_t end = std::min(text.size(), kMost);
  // A character that the cut splits is left out.
  while (end < text.size() && end > kMost - 4 && (text[end] & 0xC0) == 0x80) --end;
  return JsonText(nlohmann::json(text.substr(0, end))) + (end < text.size() ? "..." : "");
}

std::string ShownBare(std::string_view text) {
  std::string shown = ShownText(text);
  shown.erase(shown.rfind('"'), 1);
  return shown.substr(1);
}

std::string ShownNames(std::span<const AttributeField> fields) {
  constexpr std::size_t kMost = 20;
  std::string names;
  for (const AttributeField& field : fields.first(std::min(fields.size(), kMost)))
    absl::StrAppend(&names, names.empty() ? "" : ", ", field.name);
  return names + (fields.size() > kMost ? ", ..." : "");
}

absl::Status CheckFieldName(std::string_view name) {
  if (!name.empty() && name.size() <= kMostNameBytes && Utf8Prefix(name) == name.size())
    return absl::OkStatus();
  return InvalidArgument("expected a name of 1 to ", kMostNameBytes,
                         " bytes of UTF-8 for a field, found ", ShownText(name), " (", name.size(),
                         " bytes)");
}

}  // namespace hmann
