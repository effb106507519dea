#include <iostream>
#include <memory>

#include "absl/strings/str_format.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/hmann.h"
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
  bool json = false;
};

/// With --fast-memory the planner chooses what no flag says.
absl::Status ChooseForFastMemory(const CLI::App& app, Flags& flags) {
  BuildOptions& build = flags.build;
  if (app.count("--fast-memory") == 0) return absl::OkStatus();
  if (app.count("--bits") > 0) flags.plan.bits = build.bits;
  if (app.count("--codes") > 0) flags.plan.codes = build.codes;
  if (app.count("--replicas") > 0) flags.plan.replicas = build.replicas;
  HMANN_ASSIGN_OR_RETURN(build, PlanAloud(build, flags.plan));
  return absl::OkStatus();
}

nlohmann::ordered_json ToJson(const BuildReport& report) {
  nlohmann::ordered_json seconds, cpu_seconds;
  for (const PhaseTime& phase : report.phases) {
    seconds[phase.name] = phase.seconds;
    cpu_seconds[phase.name] = phase.cpu_seconds;
  }
  nlohmann::ordered_json json = {
      {"seconds", seconds},
      {"cpu_seconds", cpu_seconds},
      {"peak_rss_bytes", report.peak_rss_bytes},
      {"threads", report.threads},
      {"reachable_share", report.reachable_share},
      {"repaired_nodes", report.repaired_nodes},
      {"promoted_by", report.promoted_by_norm ? "norm" : "degree"},
      {"duplicates", report.duplicates},
      {"self_recall_at_1", report.self_recall_at_1},
      {"self_recall_sample", report.self_recall_sample},
      {"degree_mean", report.degree_mean},
      {"degree_p99", report.degree_p99},
      {"degree_max", report.degree_max},
  };
  json.update(ToJson(report.info));
  return json;
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
  app.add_option_function<std::string>(
         "--codes",
         [build](const std::string& place) {
           if (place == "none") build->bits = 0;
           if (place == "link") build->codes = CodePlace::kLink;
         },
         "codes, for the quantised walk: node (default: in fast memory, centred on each node's "
         "nearest promoted one), link (of each link, "
         "in the records of L0: no fast memory, several times the slow), none")
      ->check(CLI::IsMember({"node", "link", "none"}));
  app.add_option("--bits", build->bits, "bits per dimension of a code")
      ->check(CLI::IsMember({1, 2, 4}))
      ->capture_default_str();
  app.add_option("--replicas", build->replicas, "cells that a node is listed in")
      ->check(CLI::Range(1, 2))
      ->capture_default_str();
}

void AddOptions(CLI::App& app, Flags* flags) {
  BuildOptions* build = &flags->build;
  app.add_option("--base", build->base, "vector file: .fvecs .bvecs .fbin .u8bin .i8bin .hdf5")
      ->required();
  app.add_option("--out", build->out, "index file to write, whole or not at all")->required();
  app.add_option("--rows", build->rows, "first rows only (0: all)");
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
    HMANN_RETURN_IF_ERROR(ChooseForFastMemory(app, *flags));
    flags->build.cancelled = CancelOnInterrupt();
    Progress progress;
    HMANN_ASSIGN_OR_RETURN(const BuildReport report, Build(flags->build, progress));
    if (flags->json) return PrintJson(ToJson(report));
    PrintForTheEye(report, flags->build.out);
    return absl::OkStatus();
  };
}

}  // namespace hmann
