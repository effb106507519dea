#include "eval/adapters/asked_dials.h"

#include <string>
#include <vector>

#include "eval/adapters/adapter.h"
#include "hmann/dial_table.h"
#include "index/base/status_macros.h"
#include "index/dials/dials_json.h"

namespace hmann::eval {

absl::StatusOr<SearchOptions> AskedDials(const nlohmann::json& setting) {
  std::vector<std::string> keys;
  for (const Dial& dial : DialTable()) keys.emplace_back(dial.name);
  HMANN_RETURN_IF_ERROR(CheckKeys(setting, keys));
  SearchOptions options;
  if (const absl::Status asked = AskFromJson(setting, &options); !asked.ok())
    return InvalidArgument("setting ", asked.message());
  return options;
}

}  // namespace hmann::eval
