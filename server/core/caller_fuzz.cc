/// libFuzzer target for caller identification: a token file, the header that carries a
/// token, and the address of a client. Error messages never contain text from a token
/// file.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "index/base/check.h"
#include "server/core/caller.h"
#include "server/core/tokens.h"

namespace hmann::server {
namespace {

constexpr char kSecret[] = "Zq7";  // ends a bad line of every file

void Read(const std::string& text) {
  const auto list = TokenList::Parse(text, "tokens");
  if (list.ok()) {
    const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
    HMANN_CHECK(list->size() <= lines.size());
    HMANN_CHECK(list->Of(text) == Role::kNone);  // else it would hold its own hash
  }
  const auto wrong = TokenList::Parse(text + kSecret + "\n", "tokens");
  HMANN_CHECK(wrong.ok() || !absl::StrContains(wrong.status().message(), kSecret));
  const std::string_view token = BearerToken(text);
  HMANN_CHECK(token.empty() || (token.data() >= text.data() &&
                                token.data() + token.size() == text.data() + text.size()));
  if (text.find(':') == std::string::npos)  // a host; the port does not count
    HMANN_CHECK(CallerAt("ipv4:" + text + ":1") == CallerAt("ipv4:" + text + ":2"));
  static_cast<void>(CallerAt(text));
}

}  // namespace
}  // namespace hmann::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hmann::server::Read(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
