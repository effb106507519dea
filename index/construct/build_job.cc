#include "index/construct/build_job.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/construct/bounded.h"
#include "index/construct/inputs.h"
#include "index/construct/jobs/stages.h"
#include "index/construct/jobs/work_status.h"
#include "index/construct/joined_upper.h"
#include "index/construct/make_bottom.h"

namespace hmann {
namespace {

/// The build that a work folder belongs to.
struct KnownBuild {
  BuildOptions options;
  NodeId n1 = 0;
};

absl::StatusOr<KnownBuild> ReadKnownBuild(const std::string& work) {
  HMANN_ASSIGN_OR_RETURN(const std::string identity, WorkFolder::IdentityOf(work));
  const auto of = nlohmann::json::parse(identity);
  const auto text = [&](const char* key) {
    return of.contains(key) && of[key].is_string() ? of[key].get<std::string>() : std::string();
  };
  const auto number = [&](const char* key) {
    return of.contains(key) && of[key].is_number() ? of[key].get<double>() : 0.0;
  };
  if (of.contains("finished") && of["finished"] == true)
    return Unimplemented(work, ": promotes a finished index, which one process does");
  if (text("method") == Name(BuildMethod::kInsertion))
    return Unimplemented(work, ": inserts node after node, which one process does");
  KnownBuild build;
  if (!absl::CUnescape(text("base"), &build.options.base))
    return FailedPrecondition(work, ": the name of its base is damaged; remove the folder");
  HMANN_ASSIGN_OR_RETURN(build.options.metric, ParseMetric(text("metric")));
  build.options.method = BuildMethod::kPartition;
  build.options.rows = static_cast<std::uint64_t>(number("rows"));
  build.options.m = static_cast<std::uint32_t>(number("m"));
  build.options.ef_construction = static_cast<std::uint32_t>(number("ef_construction"));
  build.options.alpha = static_cast<float>(number("alpha"));
  build.options.seed =
      of.contains("seed") && of["seed"].is_number_unsigned() ? of["seed"].get<std::uint64_t>() : 0;
  build.options.work = work;
  build.n1 = static_cast<NodeId>(number("promoted"));
  return build;
}

/// Makes the stages of L1, if the build has come that far.
absl::Status MakeUpper(const BuildInputs& inputs, std::uint64_t room, const Stages& stages) {
  if (!HasUpperNodes(stages)) {
    return Unavailable(stages.work().path(),
                       ": L1 is not begun: a build ranks the nodes of L0 before it");
  }
  HMANN_ASSIGN_OR_RETURN(const UpperNodes nodes, UpperNodes::Map(stages));
  return JoinUpper({.kernels = inputs.kernels(),
                    .stride = RowStride(inputs.kernels()),
                    .unique = nodes.ids(),
                    .copy = nodes.Copy(CopyFrom(*inputs.file(), inputs.kernels())),
                    .m = inputs.m(),
                    .alpha = inputs.alpha(),
                    .partition = PartitionFor(nodes.ids().size(), inputs.seed()),
                    .room = room},
                   stages)
      .status();
}

}  // namespace

absl::Status RunBuildJob(const BuildJobOptions& options, Progress& progress) {
  const std::vector<std::string> names = StageNames();
  if (std::find(names.begin(), names.end(), options.stage) == names.end()) {
    return InvalidArgument("stage: expected one of ", absl::StrJoin(names, ", "), "; found ",
                           options.stage);
  }
  HMANN_ASSIGN_OR_RETURN(const KnownBuild build, ReadKnownBuild(options.work));
  HMANN_ASSIGN_OR_RETURN(const BuildInputs inputs, BuildInputs::Open(build.options));
  HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<WorkFolder> work,
                         JoinWorkFolder(build.options, inputs, build.n1));
  KeepNoFreedMemory();
  const BoundedMemory rooms =
      RoomsOf(inputs.Shape(build.n1), options.memory > 0 ? options.memory : UsableMemoryBytes());
  ThreadPool pool(options.threads > 0 ? options.threads : UsableCores());
  const TaskContext job{pool, progress, options.cancelled};
  std::vector<PhaseTime> times;
  Phases phases(progress, times);
  StageJobs only{options.stage, options.first, options.last};
  const bool l0 = options.stage.starts_with("l0-");
  Stages stages(l0 ? "l0" : "l1", l0 ? "" : "L1 ", *work, phases, job);
  stages.Only(only);
  if (stages.Done(options.stage.substr(3))) return absl::OkStatus();
  BottomSource source{.rows = inputs.Rows(),
                      .file = inputs.file(),
                      .kernels = inputs.kernels(),
                      .m = inputs.m(),
                      .ef_construction = inputs.ef_construction(),
                      .alpha = inputs.alpha(),
                      .seed = inputs.seed(),
                      .room = rooms.bottom_room};
  const absl::Status made = l0 ? MakeBottom(std::move(source), stages).status()
                               : MakeUpper(inputs, rooms.upper_room, stages);
  if (only.made) return absl::OkStatus();
  HMANN_RETURN_IF_ERROR(made);
  return InvalidArgument("stage: this build has no ", options.stage,
                         ": hmann build --status lists what it has");
}

}  // namespace hmann
