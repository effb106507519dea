#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "absl/strings/str_format.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/hmann.h"
#include "tools/commands.h"
#include "tools/info_json.h"
#include "tools/interrupt.h"
#include "tools/plan_choice.h"
#include "tools/print.h"

namespace hmann {
namespace {

/// What is not given stays as the index has it.
struct Flags {
  BuildOptions build;
  std::optional<std::uint32_t> bits, replicas;
  std::string codes;
  PlanOptions plan;
  bool json = false;
};

/// `planned`: for fast memory.
absl::Status Promote(Flags& flags, bool planned) {
  BuildOptions& build = flags.build;
  HMANN_ASSIGN_OR_RETURN(const IndexInfo before, ReadInfo(build.from_index));
  if (build.out.empty()) build.out = build.from_index;
  if (!build.promote.has_value() && !planned) build.promote = before.promote;
  build.bits = flags.bits.value_or(before.codes.bits > 0 || flags.codes.empty() ? before.codes.bits
                                                                                : build.bits);
  build.codes = before.codes.place;
  if (flags.codes == "none") build.bits = 0;
  if (!flags.codes.empty())
    build.codes = flags.codes == "link" ? CodePlace::kLink : CodePlace::kNode;
  build.replicas = flags.replicas.value_or(
      build.codes == CodePlace::kLink ? 1 : std::max(before.codes.replicas, 1u));
  if (planned) {
    flags.plan.replicas = flags.replicas;
    if (flags.bits.has_value() || !flags.codes.empty() || build.codes == CodePlace::kLink)
      flags.plan.codes = build.codes;
    HMANN_ASSIGN_OR_RETURN(build, PlanAloud(build, flags.plan));
  }
  build.cancelled = CancelOnInterrupt();
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(const BuildReport report, Build(build, progress));
  if (flags.json) return PrintJson(ToJson(report.info));
  std::cerr << absl::StrFormat(
      "%s: %.2f %% promoted (before: %.2f %%), %d bits a dimension (before: %d), %s\n", build.out,
      100 * report.info.promote, 100 * before.promote, report.info.codes.bits, before.codes.bits,
      FormatSize(report.info.file_bytes));
  PrintPhases(report.phases);
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
  app.add_option("--codes", flags->codes, "codes: node, link, none, as of `build`")
      ->check(CLI::IsMember({"node", "link", "none"}));
  app.add_option("--bits", flags->bits, "bits per dimension of a code; 0: none")
      ->check(CLI::IsMember({0, 1, 2, 4}));
  app.add_option("--replicas", flags->replicas, "cells that a node is listed in")
      ->check(CLI::Range(1, 2));
  app.add_option("--threads", build->threads,
                 "0: all usable cores; the index is the same for any number")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--json", flags->json,
               "what `info --json` says of the new index, as one JSON object on stdout");
  return [flags, fast_memory] { return Promote(*flags, fast_memory->count() > 0); };
}

}  // namespace hmann
