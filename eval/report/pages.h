#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace hmann::eval {

/// The finished pages (chart library and script inlined), made when hmann was built, with
/// kReportDataMark in place of the figures.
std::string_view BenchmarkPage();

inline constexpr std::string_view kReportDataMark = "@@HMANN_RESULTS@@";

/// Writes `page` with `figures` in it to `path`: one file, all of it inside. Errors: as
/// AtomicFile.
absl::Status WriteReport(const nlohmann::ordered_json& figures, std::string_view page,
                         const std::string& path);

}  // namespace hmann::eval
