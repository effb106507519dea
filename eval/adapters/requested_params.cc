#include "eval/adapters/requested_params.h"

#include <string>
#include <vector>

#include "eval/adapters/adapter.h"
#include "hmann/param_table.h"
#include "index/base/status_macros.h"
#include "index/params/params_json.h"

namespace hmann::eval {

absl::StatusOr<SearchParams> RequestedParams(const nlohmann::json& setting) {
  std::vector<std::string> keys = {"recall"};
  for (const ParamInfo& param : ParamTable()) keys.emplace_back(param.name);
  HMANN_RETURN_IF_ERROR(CheckKeys(setting, keys));
  SearchParams options;
  if (const absl::Status requested = ParamsFromJson(setting, &options); !requested.ok())
    return InvalidArgument("setting ", requested.message());
  if (setting.contains("recall")) {
    absl::Status status;
    JsonReader(setting, "setting ", absl::StatusCode::kInvalidArgument, &status)
        .Number("recall", 0, 1, &options.recall.emplace());
    HMANN_RETURN_IF_ERROR(status);
  }
  return options;
}

}  // namespace hmann::eval
