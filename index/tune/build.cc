#include "hmann/build.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "hmann/attributes.h"
#include "index/base/clock.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/graph/phases.h"
#include "index/construct/pipeline.h"
#include "index/format/upgrade.h"
#include "index/make_attributes.h"
#include "index/tune/calibrate.h"

namespace hmann {

absl::StatusOr<std::string> ChooseStructure(BuildCall* call) {
  const std::uint64_t bytes = call->plan.fast_memory_bytes;
  if (bytes == 0) return "";
  if (call->build.promote.has_value())
    return InvalidArgument("promote: cannot be combined with fast_memory, which chooses it");
  HMANN_ASSIGN_OR_RETURN(PlannedBuild planned, Plan(call->build, call->plan));
  call->build = std::move(planned.build);
  const PlannedStructure& placement = planned.placement;
  std::string line = absl::StrCat("planned for ", FormatSize(bytes), ": ", placement.structure);
  if (placement.slow == "dram") line += ", L0 in DRAM as well (--slow dram)";
  if (placement.cache_bytes > 0)
    absl::StrAppend(&line, ", and a cache (--cache static --cache-size ",
                    placement.cache_bytes >> 10, "KiB)");
  call->plan.fast_memory_bytes = 0;  // the plan is chosen
  return line + "; `hmann plan` says why\n";
}

namespace {

/// Does `work` after a build and reports its time.
template <typename Work>
auto AsPhase(const char* name, BuildReport* report, const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  const double cpu = ProcessCpuSeconds();
  auto done = work();
  report->phases.push_back({name, SecondsSince(start), ProcessCpuSeconds() - cpu, 0});
  return done;
}

CalibratedBuild WithCalibration(BuildReport report, const std::string& index,
                                const CalibrateOptions& options, Progress& progress) {
  CalibratedBuild built{std::move(report), NotFound("not asked for")};
  if (!options.wanted) return built;
  built.calibration =
      AsPhase("calibrate", &built.report, [&] { return Calibrate(index, options, progress); });
  return built;
}

/// A build of hours should not end without calibration because of a wrong name. Errors:
/// those of VectorFile.
absl::Status CheckQueries(const CalibrateOptions& options) {
  if (!options.wanted || options.queries.empty()) return absl::OkStatus();
  return VectorFile::Open(options.queries).status();
}

absl::Status AddAttributes(const std::string& index, const MakeAttributesOptions& options,
                           BuildReport* report, Progress& progress) {
  const absl::Status made =
      AsPhase("attributes", report, [&] { return MakeAttributes(index, options, progress); });
  if (made.ok()) return made;
  return absl::Status(
      made.code(), absl::StrCat(index, " is complete, but has no attributes (`hmann attrs ", index,
                                " --from ", options.from, "`): ", made.message()));
}

}  // namespace

absl::StatusOr<CalibratedBuild> Build(BuildCall call, Progress& progress) {
  HMANN_RETURN_IF_ERROR(ChooseStructure(&call).status());
  const BuildOptions& build = call.build;
  const std::string& index = build.out.empty() ? build.from_index : build.out;
  const bool has_attributes = !call.attributes.from.empty();
  call.attributes.memory = build.memory;
  call.attributes.cancelled = build.cancelled;
  HMANN_RETURN_IF_ERROR(CheckQueries(call.calibrate));
  HMANN_RETURN_IF_ERROR(CheckNotInput(index, {call.calibrate.queries, call.attributes.from}));
  HMANN_RETURN_IF_ERROR(
      CheckNotInput(Attributes::PathOf(index), {build.base, call.attributes.from}));
  if (has_attributes) HMANN_RETURN_IF_ERROR(CheckAttributesOf(build, call.attributes, progress));
  HMANN_ASSIGN_OR_RETURN(BuildReport report, BuildIndex(build, progress));
  call.calibrate.threads = build.threads;
  call.calibrate.cancelled = build.cancelled;
  CalibratedBuild built = WithCalibration(std::move(report), index, call.calibrate, progress);
  if (has_attributes)
    HMANN_RETURN_IF_ERROR(AddAttributes(index, call.attributes, &built.report, progress));
  return built;
}

absl::StatusOr<CalibratedBuild> Upgrade(const std::string& from, const std::string& out,
                                        const CalibrateOptions& calibrate, Progress& progress) {
  HMANN_RETURN_IF_ERROR(CheckQueries(calibrate));
  BuildReport report;
  HMANN_ASSIGN_OR_RETURN(report.info, UpgradeIndex(from, out, progress, calibrate.cancelled));
  return WithCalibration(std::move(report), out, calibrate, progress);
}

}  // namespace hmann
