#include "server/core/options.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann::server {

absl::Status IndexSpec::Validate() const {
  constexpr std::size_t kMaxName = 64;
  const bool legal = !name.empty() && name.size() <= kMaxName &&
                     std::all_of(name.begin(), name.end(), [](unsigned char c) {
                       return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
                     });
  if (legal) return absl::OkStatus();
  return InvalidArgument("expected a name of 1 to ", kMaxName,
                         " letters, digits, '.', '_' or '-', found '", name, "'");
}

absl::StatusOr<IndexSpec> IndexSpec::Parse(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (text.empty() || equals + 1 == text.size())
    return InvalidArgument("expected NAME=FILE or FILE, found '", text, "'");
  IndexSpec spec = equals == std::string::npos
                       ? IndexSpec{std::filesystem::path(text).stem().string(), text}
                       : IndexSpec{text.substr(0, equals), text.substr(equals + 1)};
  HMANN_RETURN_IF_ERROR(spec.Validate());
  return spec;
}

}  // namespace hmann::server
