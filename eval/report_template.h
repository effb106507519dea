#pragma once

#include <string_view>

namespace hmann {

/// The finished page of eval/report (chart library and script inlined), made when hmann was built, with kReportDataMark in place of the
/// figures.
std::string_view ReportTemplate();

inline constexpr std::string_view kReportDataMark = "@@HMANN_RESULTS@@";

}  // namespace hmann
