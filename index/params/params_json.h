/// Parameters and counters as keys of a JSON object: in a report, a tuned table, or a
/// setting of a sweep.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/counters.h"
#include "hmann/param_table.h"
#include "index/base/errors.h"
#include "index/base/json_reader.h"

namespace hmann {

/// Writes a key for each active parameter: {"mode": "graph", "ef_l1": 4, "ef_l0": 64,
/// ...}.
nlohmann::ordered_json ToJson(const ResolvedParams& params);

/// Writes a key for each counter, divided by `queries`.
nlohmann::ordered_json ToJson(const Counters& counters, double queries);

/// Reads the value of `param`. Errors: INVALID_ARGUMENT for another type; those of
/// ParamInfo::Check.
template <typename Json>
absl::StatusOr<double> ParamFromJson(const ParamInfo& param, const Json& value) {
  if (param.words.empty() ? value.is_number() : value.is_string()) {
    if (!param.words.empty()) return param.Parse(value.template get<std::string>());
    const auto number = value.template get<double>();
    if (absl::Status status = param.Check(number); !status.ok()) return status;
    return number;
  }
  return InvalidArgument(std::string(param.name), ": expected a ",
                         param.words.empty() ? "number" : "text", ", found ", JsonText(value));
}

/// Sets every parameter that `object` has a key for. Other keys are left to the caller.
/// Errors: those of ParamFromJson.
template <typename Json>
absl::Status ParamsFromJson(const Json& object, SearchParams* options) {
  for (const ParamInfo& param : ParamTable()) {
    const auto found = object.find(std::string(param.name));
    if (found == object.end()) continue;
    absl::StatusOr<double> value = ParamFromJson(param, *found);
    if (!value.ok()) return value.status();
    param.ask(*options, *value);
  }
  return absl::OkStatus();
}

}  // namespace hmann
