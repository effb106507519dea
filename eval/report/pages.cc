#include "eval/report/pages.h"

#include "absl/strings/str_replace.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann::eval {

absl::Status WriteReport(const nlohmann::ordered_json& figures, std::string_view page,
                         const std::string& path) {
  // Only "</" and "<!--" could end the data inside a script element, so no "<" is left.
  const std::string json = absl::StrReplaceAll(JsonText(figures), {{"<", "\\u003c"}});
  const std::size_t place = page.find(kReportDataMark);
  if (place == std::string::npos)
    return Internal("report template: the mark ", std::string(kReportDataMark), " is missing");
  return WriteTextFile(path, std::string(page).replace(place, kReportDataMark.size(), json));
}

}  // namespace hmann::eval
