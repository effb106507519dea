#pragma once

#include <string_view>

namespace hmann {

/// The finished pages of eval/report (chart library and script inlined), made when hmann was built, with kReportDataMark in place of the
/// figures: of a sweep, and of `hmann tune`.
std::string_view ReportTemplate();
std::string_view TuningTemplate();

inline constexpr std::string_view kReportDataMark = "@@HMANN_RESULTS@@";

}  // namespace hmann
