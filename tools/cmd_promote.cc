#include <iostream>
#include <memory>

#include "absl/strings/str_format.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/hmann.h"
#include "tools/calibration_report.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/info_json.h"
#include "tools/interrupt.h"
#include "tools/plan_choice.h"
#include "tools/print.h"

namespace hmann {
namespace {

struct Flags {
  BuildOptions build;
  Promotion promotion;
  PlanOptions plan;
  CalibrateOptions calibrate;
  bool json = false;
};

/// `planned`: for fast memory.
absl::Status Promote(Flags& flags, bool planned) {
  BuildOptions& build = flags.build;
  HMANN_ASSIGN_OR_RETURN(const IndexInfo before, ReadInfo(build.from_index));
  flags.promotion.Complete(before, planned, &build, &flags.plan);
  if (planned) {
    HMANN_ASSIGN_OR_RETURN(build, PlanAloud(build, flags.plan));
  }
  build.cancelled = CancelOnInterrupt();
  Progress progress;
  flags.calibrate.cancelled = build.cancelled;
  flags.calibrate.threads = build.threads;
  HMANN_ASSIGN_OR_RETURN(const CalibratedBuild built,
                         BuildAndCalibrate(build, flags.calibrate, progress));
  const BuildReport& report = built.report;
  if (flags.json) {
    nlohmann::ordered_json json = ToJson(report.info);
    json["calibration"] = ToJson(built.calibration);
    return PrintJson(json);
  }
  std::cerr << absl::StrFormat(
      "%s: %.2f %% promoted (before: %.2f %%), %d bits a dimension (before: %d), %s\n", build.out,
      100 * report.info.promote, 100 * before.promote, report.info.codes.bits, before.codes.bits,
      FormatSize(report.info.file_bytes));
  PrintPhases(report.phases);
  PrintCalibration(built.calibration);
  return absl::OkStatus();
}

}  // namespace

CommandAction SetupPromote(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  BuildOptions* build = &flags->build;
  app.add_option("INDEX", build->from_index, "finished index; its L0 stays as it is")->required();
  app.add_option("--out", build->out,
                 "index file to write, whole or not at all (default: INDEX itself)");
  CLI::Option* promote =
      app.add_option("--promote", build->promote, "share of the vectors in fast memory, N_1 / N")
          ->check(CLI::Range(0.0, 1.0));
  CLI::Option* fast_memory = AddPlanOptions(app, &flags->plan)->excludes(promote);
  app.add_option("--bits", flags->promotion.bits, "bits per dimension of a code; 0: none")
      ->check(CLI::IsMember({0, 1, 2, 4}));
  app.add_option("--replicas", flags->promotion.replicas, "cells that a node is listed in")
      ->check(CLI::Range(1, 2));
  AddParsed<std::uint64_t>(
      app, "--build-memory", ParseSize, [build](std::uint64_t bytes) { build->memory = bytes; },
      "memory this may take, as 2GiB: the rest goes through --work; the index is the same");
  app.add_option("--work", build->work,
                 "folder for what does not fit; the same command goes on where it was interrupted");
  app.add_option("--threads", build->threads,
                 "0: all usable cores; the index is the same for any number")
      ->check(CLI::Range(0, 1024));
  AddCalibrateFlags(app, &flags->calibrate);
  app.add_flag("--json", flags->json,
               "what `info --json` says of the new index, as one JSON object on stdout");
  return [flags, fast_memory] { return Promote(*flags, fast_memory->count() > 0); };
}

}  // namespace hmann
