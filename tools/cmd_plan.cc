#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tune/plan_report.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/plan_choice.h"
#include "tools/plan_json.h"
#include "tools/print.h"

namespace hmann {
namespace {

struct Flags {
  PlanInput input;
  bool explain = false, json = false;
};

void PrintBounded(const BoundedPlan& plan, std::uint64_t memory, int threads) {
  if (plan.base_passes == 0) {
    std::cerr << absl::StrFormat("  within bounded memory: %s at least\n",
                                 FormatSize(plan.least_bytes));
    return;
  }
  std::cerr << absl::StrFormat(
      "  within %s (--build-memory, --work): about %s, the base is read %d times, the folder takes "
      "%s at the most\n  (how many links lead far was seen on one set; `hmann build --plan` "
      "measures its time on the base)\n",
      FormatSize(memory), FormatDuration(plan.cpu_seconds / threads), plan.base_passes,
      FormatSize(plan.work_bytes));
}

void PrintPlan(const PlanInput& input, const PlanReport& report) {
  const auto& [request, plan, build] = report;
  const PlanShape& shape = request.shape;
  std::cerr << absl::StrFormat("%d vectors of %d x %s, M = %d: %s\n", shape.n, shape.dim,
                               std::string(Name(shape.dtype)), shape.m,
                               DescribeStructure(shape, plan.structure));
  for (const PlacedBytes& line : plan.bytes) {
    std::cerr << absl::StrFormat("  %-22s %-20s %12s  %7.2f B a vector\n", line.structure,
                                 line.tier, FormatSize(line.bytes),
                                 static_cast<double>(line.bytes) / static_cast<double>(shape.n));
  }
  std::cerr << absl::StrFormat("fast memory: %s of %s in whole pages\n",
                               FormatSize(plan.fast_bytes), FormatSize(request.fast_bytes));
  if (!input.as_is) {
    std::cerr << absl::StrFormat("to build: about %s on %d threads, %s of memory, a file of %s\n",
                                 FormatDuration(build.seconds), request.threads,
                                 FormatSize(build.memory_bytes), FormatSize(build.file_bytes));
    if (build.bounded.has_value())
      PrintBounded(*build.bounded, request.fast_bytes, request.threads);
    const std::string command =
        input.index.empty()
            ? absl::StrCat("hmann build --base ", input.build.base.empty() ? "F" : input.build.base,
                           " --out IDX",
                           input.build.dtype.has_value() && !input.build.base.empty()
                               ? absl::StrCat(" --dtype ", std::string(Name(*input.build.dtype)))
                               : std::string(),
                           input.build.method.has_value()
                               ? absl::StrCat(" --method ", std::string(Name(*input.build.method)))
                               : std::string())
            : absl::StrCat("hmann promote ", input.index);
    std::cerr << "  " << command << StructureFlags(shape, plan.structure) << '\n';
  }
  std::cerr << "  hmann search " << (input.index.empty() ? "IDX" : input.index) << " --fast "
            << plan.fast_tier << " --slow " << plan.l0_tier;
  if (plan.cache_bytes > 0)
    std::cerr << " --cache static --cache-size " << (plan.cache_bytes >> 10) << "KiB";
  if (plan.migration_bytes > 0)
    std::cerr << " --migration " << (plan.migration_bytes >> 10) << "KiB";
  std::cerr << " --queries Q\n";
}

absl::Status Plan(const Flags& flags) {
  HMANN_ASSIGN_OR_RETURN(const PlanReport report, ReportPlan(flags.input));
  if (flags.json) {
    nlohmann::ordered_json json = ToJson(report);
    if (flags.explain) json["explain"] = report.plan.rule;
    return PrintJson(json);
  }
  PrintPlan(flags.input, report);
  if (!flags.explain) return absl::OkStatus();
  std::cerr << "why:\n";
  for (std::size_t i = 0; i < report.plan.rule.size(); ++i)
    std::cerr << "  " << i + 1 << ". " << report.plan.rule[i] << '\n';
  return absl::OkStatus();
}

void AddShapeOptions(CLI::App& app, PlanInput* input) {
  BuildOptions* build = &input->build;
  CLI::Option* index = app.add_option("INDEX", input->index, "finished index, to be promoted anew");
  app.add_option("--base", build->base, "instead: vector file that will be indexed")
      ->excludes(index);
  app.add_option("--rows", build->rows,
                 "its first rows only (0: all); or, without a file, how many vectors there will be")
      ->excludes(index);
  app.add_option("--dim", input->dim, "without a file: dimension")
      ->check(CLI::Range(1, static_cast<int>(kMaxDim)));
  AddParsed<DType>(
      app, "--dtype", ParseDType, [build](DType dtype) { build->dtype = dtype; },
      "of the stored vectors: as in --base, or f16 of f32; without a file u8 (default), i8, f32, "
      "f16");
  AddParsed<Metric>(
      app, "--metric", ParseMetric, [build](Metric metric) { build->metric = metric; },
      "l2 (default), ip, cosine");
  app.add_option("--m", build->m, "M of the build")
      ->check(CLI::Range(2, 512))
      ->capture_default_str();
  app.add_option("--ef-construction", build->ef_construction, "of the build")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  AddParsed<BuildMethod>(
      app, "--method", ParseBuildMethod, [build](BuildMethod method) { build->method = method; },
      "of the build: partition (default for l2 and cosine) or insertion (default for ip)");
  app.add_option("--alpha", build->alpha, "of the build, for the time it takes")
      ->check(CLI::Range(1.0, 2.0))
      ->capture_default_str();
  app.add_flag("--as-is", input->as_is,
               "INDEX stays as it is: say only where it lies, and which cache there is room for")
      ->needs(index);
}

}  // namespace

CommandAction SetupPlan(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  PlanInput* input = &flags->input;
  PlanRequest* request = &input->request;
  request->threads = UsableCores();
  AddShapeOptions(app, input);
  AddParsed<std::uint64_t>(
      app, "--fast-memory", ParseSize,
      [request](std::uint64_t bytes) { request->fast_bytes = bytes; },
      "bytes of DRAM for it, as 96GiB")
      ->required();
  app.add_option("--slow", request->slow,
                 "tier of L0, of any size: nvme, emulated:lat=300ns, numa:N, ...")
      ->capture_default_str();
  app.add_option("--threads", request->threads,
                 "that search at once: their scratch is in fast memory")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--promote", request->promote, "pinned: share of the vectors in fast memory")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--bits", request->bits, "pinned: bits per dimension of a code; 0: none")
      ->check(CLI::IsMember({0, 1, 2, 4}));
  app.add_option("--replicas", request->replicas, "pinned: cells that a node is listed in")
      ->check(CLI::Range(1, 2));
  app.add_flag("--explain", flags->explain, "the three lines of the rule, with their numbers");
  app.add_flag("--json", flags->json, "the plan as one JSON object on stdout");
  return [flags] { return Plan(*flags); };
}

}  // namespace hmann
