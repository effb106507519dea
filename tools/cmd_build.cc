#include <filesystem>
#include <iostream>
#include <memory>

#include "absl/strings/str_format.h"
#include "hmann/hmann.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/jobs/work_status.h"
#include "index/make_attributes.h"
#include "index/report/report.h"
#include "index/tune/forecast.h"
#include "tools/build_flags.h"
#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/print.h"

namespace hmann::tools {
namespace {

struct BuildFlags {
  BuildCall call;
  bool json = false, status = false, forecast = false;
};

/// Prints the progress of the build in a work folder.
absl::Status PrintWorkStatus(const std::string& work, bool json) {
  if (work.empty()) return InvalidArgument("--status: of which folder? (--work)");
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

void PrintBuild(const BuildReport& report, const std::string& out) {
  const IndexInfo& info = report.info;
  std::cout << absl::StrFormat("%s: %d vectors, %d x %s, %s, %d promoted (%.1f %%), %s\n", out,
                               info.n, info.dim, std::string(Name(info.dtype)),
                               std::string(Name(info.metric)),
                               info.layers.size() > 1 ? info.layers[1].nodes : 0,
                               100 * info.promote, FormatSize(info.file_bytes));
  if (report.promoted_by_norm)
    std::cout << "  promoted are the vectors of the largest norm: most answers are among them\n";
  PrintPhases(report.phases);
  std::cout << absl::StrFormat("  threads %d, peak memory %s, %s with mapped files\n",
                               report.threads, FormatSize(report.peak_anonymous_bytes),
                               FormatSize(report.peak_rss_bytes))
            << absl::StrFormat("  degree in L0 (in or out): mean %.1f, p99 %d, max %d\n",
                               report.degree_mean, report.degree_p99, report.degree_max)
            << absl::StrFormat(
                   "  reachable %.4f %% of the nodes (%d repaired), %d exact duplicates\n",
                   100 * report.reachable_share, report.repaired_nodes, report.duplicates);
  for (const std::string& note : report.notes) std::cerr << "  note: " << note << '\n';
}

/// Prints how long the build would take.
void PrintTime(const BuildForecast& forecast) {
  if (forecast.measured_rows == 0) return;
  std::cout << absl::StrFormat(
      "  time    about %s on %d threads (%s of CPU), then a minute or more to calibrate\n"
      "          %d rows took %s here; by counts, all rows take %.3g times that\n",
      FormatDuration(forecast.seconds), forecast.threads, FormatDuration(forecast.cpu_seconds),
      forecast.measured_rows, FormatDuration(forecast.measured_seconds), forecast.growth);
  if (!forecast.estimate.bounded.has_value()) return;
  std::cout << "          joining 1.7 times that within bounded memory is a guess\n";
  if (forecast.shape.method == BuildMethod::kInsertion)
    std::cout
        << "          insertion reads vectors and lists at random: if the page cache does not\n"
           "          hold them, it takes many times that\n";
  if (forecast.read_seconds > 0)
    std::cout << absl::StrFormat(
        "          %s of it to read the base, at %s/s here\n",
        FormatDuration(forecast.read_seconds),
        FormatSize(static_cast<std::uint64_t>(forecast.read_bytes_per_second)));
}

void PrintForecast(const BuildOptions& build, const BuildForecast& forecast) {
  const BuildEstimate& estimate = forecast.estimate;
  std::cout << absl::StrFormat("%s: %d vectors of %d x %s, M = %d: %s\n", build.base,
                               forecast.shape.n, forecast.shape.dim,
                               std::string(Name(forecast.shape.dtype)), forecast.shape.m,
                               DescribeStructure(forecast.shape, forecast.structure));
  if (estimate.bounded.has_value()) {
    std::cout << absl::StrFormat(
        "  memory  %s as given; at least %s\n  folder  at most %s (approximately: how many "
        "links lead far was seen on one set)\n  reads   the base %d times\n",
        FormatSize(build.memory), FormatSize(estimate.bounded->least_bytes),
        FormatSize(estimate.bounded->work_bytes), estimate.bounded->base_passes);
  } else {
    std::cout << "  memory  " << FormatSize(estimate.memory_bytes) << '\n';
  }
  std::cout << "  index   " << FormatSize(estimate.file_bytes) << '\n';
  PrintTime(forecast);
}

/// Declares the options of a build within bounded memory. `base`, `out`: not required for
/// --status.
void AddBoundedOptions(CLI::App& app, BuildFlags* flags, CLI::Option* base, CLI::Option* out) {
  BuildOptions* build = &flags->call.build;
  app.add_flag(
      "--plan", flags->forecast,
      "forecast memory, folder, index size and time from a trial build of some rows, which takes a "
      "few seconds, after it has read all rows of --attrs; writes nothing else, and rejects builds "
      "that cannot work");
  app.add_flag("--keep-work", build->keep_work, "keep the work folder after the index is written");
  app.add_option("--workers", build->workers,
                 "number of processes that share the jobs and --build-memory (build-job); the "
                 "index is the same")
      ->check(CLI::Range(0, 1024));
  // Parsed before the required options are checked.
  app.add_flag_function(
         "--status",
         [flags, base, out](std::int64_t) {
           flags->status = true;
           base->required(false);
           out->required(false);
         },
         "show the progress of the build in --work; builds nothing")
      ->trigger_on_parse();
}

void AddOptions(CLI::App& app, BuildFlags* flags) {
  BuildOptions* build = &flags->call.build;
  CLI::Option* base =
      app.add_option("--base,BASE", build->base,
                     "vector file: .npy .fvecs .bvecs .fbin .f16bin .u8bin .i8bin .csv .hdf5")
          ->required();
  CLI::Option* out =
      app.add_option("--out,OUT", build->out, "index file to write; written whole or not at all")
          ->required();
  app.add_option("--rows", build->rows, "use only the first rows (0: all)");
  AddGraphFlags(app, build);
  AddConstructionFlags(app, build);
  AddBuildFlags(app, &flags->call);
  AddBoundedOptions(app, flags, base, out);
  app.add_option(
      "--labels", build->labels,
      "file of n 64-bit labels to return instead of row numbers (.npy, raw u64, .ivecs or .ibin)");
  AddRowsFlags(app, "--attrs", "its attributes are written to OUT.attrs, as `hmann attrs` does",
               &flags->call.attributes);
  CLI::Option* hnswlib = app.add_option("--from-hnswlib", build->from_hnswlib,
                                        "promote this finished hnswlib graph over --base");
  app.add_option("--from-faiss", build->from_faiss,
                 "promote this finished Faiss HNSW graph over --base")
      ->excludes(hnswlib);
  app.add_flag("--json", flags->json, "print the report as one JSON object on stdout");
}

}  // namespace

CommandAction SetupBuild(CLI::App& app) {
  auto flags = std::make_shared<BuildFlags>();
  AddOptions(app, flags.get());
  return [flags]() -> absl::Status {
    BuildOptions& build = flags->call.build;
    if (flags->status) return PrintWorkStatus(build.work, flags->json);
    HMANN_ASSIGN_OR_RETURN(const std::string planned, ChooseStructure(&flags->call));
    std::cerr << planned;
    std::error_code error;
    build.worker_program = std::filesystem::read_symlink("/proc/self/exe", error).string();
    build.cancelled = CancelOnInterrupt();
    if (flags->forecast) {
      Progress quiet(Progress::Show::kNever);
      MakeAttributesOptions& attributes = flags->call.attributes;
      attributes.memory = build.memory;
      attributes.cancelled = build.cancelled;
      if (!attributes.from.empty())
        HMANN_RETURN_IF_ERROR(CheckAttributesOf(build, attributes, quiet));
      HMANN_ASSIGN_OR_RETURN(const BuildForecast forecast, ForecastBuild(build, quiet));
      if (flags->json) return PrintJson(ToJson(forecast));
      PrintForecast(build, forecast);
      return absl::OkStatus();
    }
    Progress progress;
    HMANN_ASSIGN_OR_RETURN(const CalibratedBuild built, Build(flags->call, progress));
    if (flags->json) return PrintJson(ToJson(built));
    PrintBuild(built.report, build.out);
    std::cout << Describe(built.calibration);
    return absl::OkStatus();
  };
}

}  // namespace hmann::tools
