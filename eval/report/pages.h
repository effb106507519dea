#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "index/base/json_reader.h"

namespace hmann::eval {

/// The finished page, with chart library and script inlined when hmann was built.
/// kReportDataMark stands in place of the figures.
std::string_view BenchmarkPage();

inline constexpr std::string_view kReportDataMark = "@@HMANN_RESULTS@@";

/// Writes `page` with `figures` embedded to `path`, as one self-contained file. Errors:
/// as AtomicFile.
absl::Status WriteReport(const nlohmann::ordered_json& figures, std::string_view page,
                         const std::string& path);

}  // namespace hmann::eval
