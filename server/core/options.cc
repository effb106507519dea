#include "server/core/options.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann::server {

bool IndexSpec::MayHave(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
}

absl::Status IndexSpec::Validate() const {
  if (!name.empty() && name.size() <= kMostName && std::all_of(name.begin(), name.end(), MayHave))
    return absl::OkStatus();
  return InvalidArgument("expected a name of 1 to ", kMostName,
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
