#include <filesystem>
#include <iostream>
#include <memory>

#include "absl/strings/str_format.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/work_status.h"
#include "index/hmann.h"
#include "tools/build_forecast.h"
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
  PlanOptions plan;
  CalibrateOptions calibrate;
  bool json = false, status = false, forecast = false;
};

/// How far the build in a work folder has come.
absl::Status PrintWorkStatus(const std::string& work, bool json) {
  if (work.empty()) return absl::InvalidArgumentError("--status: of which folder? (--work)");
  HMANN_ASSIGN_OR_RETURN(const WorkStatus status, ReadWorkStatus(work));
  if (json) {
    nlohmann::ordered_json stages = nlohmann::ordered_json::array();
    for (const WorkStatus::Stage& stage : status.stages) {
      stages.push_back({{"stage", stage.name},
                        {"jobs", stage.jobs},
                        {"made", stage.made},
                        {"done", stage.done}});
    }
    return PrintJson({{"at_work", status.at_work},
                      {"bytes", status.bytes},
                      {"seconds_a_job", status.seconds_a_job},
                      {"seconds_left_of_stage", status.seconds_left},
                      {"stages", stages}});
  }
  std::cout << work << ": " << (status.at_work ? "a build is at work" : "no build is at work")
            << ", " << FormatSize(status.bytes) << '\n';
  for (std::size_t i = 0; i < status.stages.size(); ++i) {
    const WorkStatus::Stage& stage = status.stages[i];
    std::cout << absl::StrFormat(
        "  %-12s %s", stage.name,
        stage.done ? "done" : absl::StrCat(stage.made, " of ", stage.jobs));
    if (i == status.current && status.seconds_a_job > 0)
      std::cout << absl::StrFormat(", %s a job, %s left of this stage",
                                   FormatDuration(status.seconds_a_job),
                                   FormatDuration(status.seconds_left));
    std::cout << '\n';
  }
  if (status.current == status.stages.size())
    std::cout << "  L0 and L1 are joined; cells and the index follow\n";
  return absl::OkStatus();
}

/// With --fast-memory the rule chooses what no flag says.
absl::Status ChooseForFastMemory(const CLI::App& app, Flags& flags) {
  BuildOptions& build = flags.build;
  if (app.count("--fast-memory") == 0) return absl::OkStatus();
  if (app.count("--bits") > 0) flags.plan.bits = build.bits;
  if (app.count("--replicas") > 0) flags.plan.replicas = build.replicas;
  HMANN_ASSIGN_OR_RETURN(build, PlanAloud(build, flags.plan));
  return absl::OkStatus();
}

void PrintForTheEye(const BuildReport& report, const std::string& out) {
  const IndexInfo& info = report.info;
  std::cerr << absl::StrFormat("%s: %d vectors, %d x %s, %s, %d promoted (%.1f %%), %s\n", out,
                               info.n, info.dim, std::string(Name(info.dtype)),
                               std::string(Name(info.metric)),
                               info.layers.size() > 1 ? info.layers[1].nodes : 0,
                               100 * info.promote, FormatSize(info.file_bytes));
  if (report.promoted_by_norm)
    std::cerr << "  promoted are the vectors of the largest norm: most answers are among them\n";
  PrintPhases(report.phases);
  std::cerr << absl::StrFormat("  threads %d, peak memory %s\n", report.threads,
                               FormatSize(report.peak_rss_bytes))
            << absl::StrFormat("  degree in L0 (in or out): mean %.1f, p99 %d, max %d\n",
                               report.degree_mean, report.degree_p99, report.degree_max)
            << absl::StrFormat(
                   "  reachable %.4f %% of the nodes (%d repaired), %d exact duplicates\n",
                   100 * report.reachable_share, report.repaired_nodes, report.duplicates)
            << absl::StrFormat("  recall@1 of %d of its own vectors: %.4f\n",
                               report.self_recall_sample, report.self_recall_at_1);
}

void AddCodeOptions(CLI::App& app, BuildOptions* build) {
  app.add_option("--bits", build->bits,
                 "bits per dimension of a code, for the quantised walk; 0: no codes")
      ->check(CLI::IsMember({0, 1, 2, 4}))
      ->capture_default_str();
  app.add_option("--replicas", build->replicas, "cells that a node is listed in")
      ->check(CLI::Range(1, 2))
      ->capture_default_str();
}

/// Of a build within bounded memory. `base`, `out`: not wanted to look at one.
void AddBoundedOptions(CLI::App& app, Flags* flags, CLI::Option* base, CLI::Option* out) {
  BuildOptions* build = &flags->build;
  AddParsed<std::uint64_t>(
      app, "--build-memory", ParseSize, [build](std::uint64_t bytes) { build->memory = bytes; },
      "memory the build may take, as 2GiB: the rest goes through --work; the index is the same");
  app.add_option("--work", build->work,
                 "folder of a bounded build; the same command goes on where one was interrupted");
  app.add_flag("--plan", flags->forecast,
               "what it would take: memory, folder, index, time, by building some rows for a few "
               "seconds; nothing else is written, and what cannot work is refused");
  app.add_flag("--keep-work", build->keep_work, "leave the folder when the index is written");
  app.add_option("--workers", build->workers,
                 "processes that share the jobs and --build-memory (build-job); the index is the "
                 "same")
      ->check(CLI::Range(0, 1024));
  // Seen before what is required is looked for.
  app.add_flag_function(
         "--status",
         [flags, base, out](std::int64_t) {
           flags->status = true;
           base->required(false);
           out->required(false);
         },
         "how far the build in --work has come; nothing is built")
      ->trigger_on_parse();
}

void AddOptions(CLI::App& app, Flags* flags) {
  BuildOptions* build = &flags->build;
  CLI::Option* base = app.add_option("--base", build->base,
                                     "vector file: .fvecs .bvecs .fbin .f16bin .u8bin .i8bin .hdf5")
                          ->required();
  CLI::Option* out =
      app.add_option("--out", build->out, "index file to write, whole or not at all")->required();
  app.add_option("--rows", build->rows, "first rows only (0: all)");
  AddParsed<DType>(
      app, "--dtype", ParseDType, [build](DType dtype) { build->dtype = dtype; },
      "of the stored vectors (default: as in --base); f16: half the bytes of an f32 base, rounded");
  AddParsed<Metric>(
      app, "--metric", ParseMetric, [build](Metric metric) { build->metric = metric; },
      "l2 (default), ip, cosine");
  app.add_option("--m", build->m,
                 "M: neighbours a new node links to; up to 2M are kept in L0 and L1")
      ->check(CLI::Range(2, 512))
      ->capture_default_str();
  AddParsed<BuildMethod>(
      app, "--method", ParseBuildMethod, [build](BuildMethod method) { build->method = method; },
      "of making L0 and L1: partition (default: leaves of near vectors, compared "
      "all with all; its constants are of a million SIFT vectors, elsewhere a guess), insertion "
      "(default of integers under ip: the paper's, three times as long)");
  app.add_option("--ef-construction", build->ef_construction,
                 "beam width of insertion; by partition, of the highest ranks alone")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--alpha", build->alpha,
                 "links of L0 and L1: above 1 also those that nearer ones lead to by a detour of "
                 "up to this factor, and L0's are chosen a "
                 "second time; 1: HNSW's, built faster, searched slower")
      ->check(CLI::Range(1.0, 2.0))
      ->capture_default_str();
  CLI::Option* promote = app.add_option(
      "--promote", build->promote, "share of the vectors in fast memory, N_1 / N (default 0.16)");
  promote->check([](const std::string& text) {
    double share = 0;
    return CLI::detail::lexical_cast(text, share) && share > 0 && share < 1
               ? std::string()
               : "expected a share between 0 and 1";
  });
  AddPlanOptions(app, &flags->plan)->excludes(promote);
  AddCodeOptions(app, build);
  AddBoundedOptions(app, flags, base, out);
  AddCalibrateFlags(app, &flags->calibrate);
  app.add_option("--threads", build->threads,
                 "0: all usable cores; the index is the same for any number")
      ->check(CLI::Range(0, 1024));
  app.add_option("--seed", build->seed, "same seed, same bytes")->capture_default_str();
  app.add_option(
      "--labels", build->labels,
      "n 64-bit labels to answer with instead of row numbers (raw u64, .ivecs or .ibin)");
  CLI::Option* hnswlib = app.add_option("--from-hnswlib", build->from_hnswlib,
                                        "promote this finished hnswlib graph over --base");
  app.add_option("--from-faiss", build->from_faiss,
                 "promote this finished Faiss HNSW graph over --base")
      ->excludes(hnswlib);
  app.add_flag("--json", flags->json, "report as one JSON object on stdout");
}

}  // namespace

CommandAction SetupBuild(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  AddOptions(app, flags.get());
  return [flags, &app]() -> absl::Status {
    if (flags->status) return PrintWorkStatus(flags->build.work, flags->json);
    HMANN_RETURN_IF_ERROR(ChooseForFastMemory(app, *flags));
    flags->build.cancelled = CancelOnInterrupt();
    std::error_code error;
    flags->build.worker_program = std::filesystem::read_symlink("/proc/self/exe", error).string();
    if (flags->forecast) return PrintForecast(flags->build, flags->json);
    Progress progress;
    flags->calibrate.cancelled = flags->build.cancelled;
    flags->calibrate.threads = flags->build.threads;
    HMANN_ASSIGN_OR_RETURN(const CalibratedBuild built,
                           BuildAndCalibrate(flags->build, flags->calibrate, progress));
    if (flags->json) {
      nlohmann::ordered_json json = ToJson(built.report);
      json["calibration"] = ToJson(built.calibration);
      return PrintJson(json);
    }
    PrintForTheEye(built.report, flags->build.out);
    PrintCalibration(built.calibration);
    return absl::OkStatus();
  };
}

}  // namespace hmann
