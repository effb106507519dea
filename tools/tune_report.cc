#include "tools/tune_report.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "eval/report/environment.h"
#include "eval/report/pages.h"
#include "index/base/status_macros.h"

namespace hmann {
absl::Status WriteTuningReport(const TuneOptions& options, const nlohmann::ordered_json& tuned,
                               const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(options.index));
  nlohmann::ordered_json page = {
      {"title", absl::StrCat("Tuned: ", std::filesystem::path(options.index).filename().string())}};
  page.update(tuned);
  page["index"] = {{"path", options.index},
                   {"n", info.n},
                   {"dim", info.dim},
                   {"dtype", std::string(Name(info.dtype))},
                   {"metric", std::string(Name(info.metric))},
                   {"file_bytes", info.file_bytes}};
  page["environment"] = DescribeEnvironment();
  return WriteReport(page, TuningPage(), path);
}

}  // namespace hmann
