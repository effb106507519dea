/// Dials and counters as the keys of a JSON object: of a report, a tuned table, a setting
/// of a sweep.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/counters.h"
#include "hmann/dial_table.h"
#include "index/base/errors.h"
#include "nlohmann/json.hpp"

namespace hmann {

/// A key for each dial in force: {"walk": "best-first", "ef_l1": 4, "ef_l0": 64, ...}.
nlohmann::ordered_json ToJson(const Dials& dials);

/// A key for each counter, divided by `queries`.
nlohmann::ordered_json ToJson(const Counters& counters, double queries);

/// The value of `dial` under its key. Errors: INVALID_ARGUMENT for another type, and
/// those of Dial::Check.
template <typename Json>
absl::StatusOr<double> DialFromJson(const Dial& dial, const Json& value) {
  if (dial.words.empty() ? value.is_number() : value.is_string()) {
    if (!dial.words.empty()) return dial.Parse(value.template get<std::string>());
    const auto number = value.template get<double>();
    if (absl::Status status = dial.Check(number); !status.ok()) return status;
    return number;
  }
  return InvalidArgument(std::string(dial.name), ": expected a ",
                         dial.words.empty() ? "number" : "text", ", found ", value.dump());
}

/// Asks for every dial that `object` has a key for; other keys are the caller's. Errors:
/// those of DialFromJson.
template <typename Json>
absl::Status AskFromJson(const Json& object, SearchOptions* options) {
  for (const Dial& dial : DialTable()) {
    const auto found = object.find(std::string(dial.name));
    if (found == object.end()) continue;
    absl::StatusOr<double> value = DialFromJson(dial, *found);
    if (!value.ok()) return value.status();
    dial.ask(*options, *value);
  }
  return absl::OkStatus();
}

}  // namespace hmann
