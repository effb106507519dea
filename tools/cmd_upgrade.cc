#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "hmann/build.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/report/report.h"
#include "tools/commands.h"
#include "tools/interrupt.h"

namespace hmann::tools {
namespace {

struct UpgradeFlags {
  std::string index, out;
};

}  // namespace

CommandAction SetupUpgrade(CLI::App& app) {
  auto flags = std::make_shared<UpgradeFlags>();
  app.add_option("INDEX", flags->index, "index of format 3; it stays as it is")->required();
  app.add_option("--out", flags->out, "index file to write; written whole or not at all")
      ->required();
  return [flags]() -> absl::Status {
    Progress progress;
    CalibrateOptions calibrate;
    calibrate.cancelled = CancelOnInterrupt();
    HMANN_ASSIGN_OR_RETURN(const CalibratedBuild built,
                           Upgrade(flags->index, flags->out, calibrate, progress));
    const IndexInfo& info = built.report.info;
    std::cout << absl::StrFormat("%s: format %s, %d vectors, %s\n", flags->out, info.version,
                                 info.n, FormatSize(info.file_bytes))
              << Describe(built.calibration);
    return absl::OkStatus();
  };
}

}  // namespace hmann::tools
