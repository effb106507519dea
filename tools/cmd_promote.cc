#include <iostream>
#include <memory>

#include "absl/strings/str_format.h"
#include "hmann/hmann.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/report/report.h"
#include "tools/build_flags.h"
#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/print.h"

namespace hmann::tools {
namespace {

struct PromoteFlags {
  BuildCall call;
  bool json = false;
};

absl::Status Promote(PromoteFlags& flags) {
  BuildOptions& build = flags.call.build;
  HMANN_ASSIGN_OR_RETURN(const IndexInfo before, ReadInfo(build.from_index));
  if (build.out.empty()) build.out = build.from_index;
  HMANN_ASSIGN_OR_RETURN(const std::string planned, ChooseStructure(&flags.call));
  std::cerr << planned;
  Progress progress;
  build.cancelled = CancelOnInterrupt();
  HMANN_ASSIGN_OR_RETURN(const CalibratedBuild built, Build(flags.call, progress));
  const BuildReport& report = built.report;
  if (flags.json) return PrintJson(InfoJson(build.out, report.info));
  std::cout << absl::StrFormat(
      "%s: %.2f %% promoted (before: %.2f %%), %d bits a dimension (before: %d), %s\n", build.out,
      100 * report.info.promote, 100 * before.promote, report.info.codes.bits, before.codes.bits,
      FormatSize(report.info.file_bytes));
  PrintPhases(report.phases);
  std::cout << Describe(built.calibration);
  return absl::OkStatus();
}

}  // namespace

CommandAction SetupPromote(CLI::App& app) {
  auto flags = std::make_shared<PromoteFlags>();
  BuildOptions* build = &flags->call.build;
  app.add_option("INDEX", build->from_index, "finished index; its L0 stays unchanged")->required();
  app.add_option("--out", build->out,
                 "index file to write; written whole or not at all (default: INDEX itself)");
  AddBuildFlags(app, &flags->call);
  app.add_flag("--json", flags->json,
               "print the output of `info --json` for the new index, one JSON object on stdout");
  return [flags] { return Promote(*flags); };
}

}  // namespace hmann::tools
