#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/report/report.h"
#include "index/tune/plan_report.h"
#include "tools/build_flags.h"
#include "tools/commands.h"
#include "tools/help.h"
#include "tools/print.h"

namespace hmann::tools {
namespace {

struct PlanFlags {
  PlanInput input;
  bool json = false;
};

std::string CommandFor(const BuildOptions& wish) {
  if (!wish.from_index.empty()) return absl::StrCat("hmann promote ", wish.from_index);
  std::string command =
      absl::StrCat("hmann build --base ", wish.base.empty() ? "F" : wish.base, " --out IDX");
  if (wish.dtype.has_value() && !wish.base.empty())
    absl::StrAppend(&command, " --dtype ", std::string(Name(*wish.dtype)));
  if (wish.method.has_value())
    absl::StrAppend(&command, " --method ", std::string(Name(*wish.method)));
  return command;
}

/// Prints what the build takes, and the command for it.
void PrintBuild(const PlanInput& input, const PlanReport& report) {
  const BuildEstimate& build = report.build;
  const PlanShape& shape = report.request.shape;
  const std::uint64_t base = shape.n * shape.dim * SizeOf(shape.dtype);
  const std::uint64_t memory = report.build_memory;
  const bool bounded = build.bounded.has_value() && build.memory_bytes > memory;
  const std::uint64_t work = bounded ? build.bounded->work_bytes : 0;
  const std::string command = absl::StrCat(
      CommandFor(input.build), StructureFlags(shape, report.plan.structure),
      bounded ? absl::StrCat(" --build-memory ", memory >> 20, "MiB --work IDX.work") : "");
  std::cout << absl::StrFormat("to build: %s of memory, %s of disk in all: base %s, index %s",
                               FormatSize(bounded ? memory : build.memory_bytes),
                               FormatSize(base + build.file_bytes + work), FormatSize(base),
                               FormatSize(build.file_bytes));
  if (bounded) {
    std::cout << absl::StrFormat(
        ", work folder at most %s (about: how many links lead far was seen on one set)\n"
        "  the base is read %d times, %s in all; in memory the build takes %s",
        FormatSize(work), build.bounded->base_passes, FormatSize(base * build.bounded->base_passes),
        FormatSize(build.memory_bytes));
    if (memory > report.request.fast_bytes)
      std::cout << "; less than " << FormatSize(memory) << " do not suffice";
  }
  std::cout << "\n  time: unknown; this command with --plan measures it on some of the vectors\n  "
            << command << '\n';
}

void PrintPlan(const PlanInput& input, const PlanReport& report) {
  const auto& [request, plan, build, build_memory] = report;
  const BuildOptions& wish = input.build;
  const PlanShape& shape = request.shape;
  std::cout << absl::StrFormat("%d vectors of %d x %s, M = %d: %s\n", shape.n, shape.dim,
                               std::string(Name(shape.dtype)), shape.m,
                               DescribeStructure(shape, plan.structure));
  for (const PlacedBytes& line : plan.bytes) {
    std::cout << absl::StrFormat("  %-22s %-20s %12s  %7.2f B a vector\n", line.structure,
                                 line.tier, FormatSize(line.bytes),
                                 static_cast<double>(line.bytes) / static_cast<double>(shape.n));
  }
  std::cout << absl::StrFormat("fast memory: %s of %s in whole pages\n",
                               FormatSize(plan.fast_bytes), FormatSize(request.fast_bytes));
  if (!input.as_is) PrintBuild(input, report);
  std::cout << absl::StrFormat(
      "to search: %s of memory in all, and about 60 MiB for the program (a guess)\n",
      FormatSize(plan.fast_bytes));
  if (plan.l0_tier != "dram")
    std::cout << "  reads of " << plan.l0_tier << ": unknown; `hmann tune IDX --slow "
              << plan.l0_tier << "` measures them per query, `hmann profile` what a drive gives\n";
  std::cout << "  hmann search " << (wish.from_index.empty() ? "IDX" : wish.from_index)
            << " --fast " << plan.fast_tier << " --slow " << plan.l0_tier;
  if (plan.cache_bytes > 0)
    std::cout << " --cache static --cache-size " << (plan.cache_bytes >> 10) << "KiB";
  if (plan.read_buffer_bytes > 0)
    std::cout << " --read-buffers " << (plan.read_buffer_bytes >> 10) << "KiB";
  std::cout << " --queries Q\n";
}

absl::Status Plan(const PlanFlags& flags) {
  HMANN_ASSIGN_OR_RETURN(const PlanReport report, ReportPlan(flags.input));
  if (flags.json) return PrintJson(ToJson(report));
  PrintPlan(flags.input, report);
  std::cout << "why:\n";
  for (std::size_t i = 0; i < report.plan.rule.size(); ++i) {
    std::string line = absl::StrCat("  ", i + 1, ". ");
    AppendWrapped(report.plan.rule[i], 5, 5, &line);
    std::cout << line << '\n';
  }
  return absl::OkStatus();
}

}  // namespace

CommandAction SetupPlan(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  PlanInput* input = &flags->input;
  BuildOptions* build = &input->build;
  CLI::Option* index =
      app.add_option("INDEX", build->from_index, "finished index to promote again");
  app.add_option("--base", build->base, "vector file to index, instead of INDEX")->excludes(index);
  app.add_option("--rows", build->rows,
                 "use only the first rows (0: all); without a file, the number of vectors")
      ->excludes(index);
  app.add_option("--dim", input->dim,
                 "without a file: the dimension; --dtype is then u8 by default")
      ->check(CLI::Range(1, static_cast<int>(kMaxDim)));
  AddGraphFlags(app, build);
  app.add_flag("--as-is", input->as_is,
               "keep INDEX as it is; only plan its placement and the cache that fits")
      ->needs(index);
  AddPlanFlags(app, &input->plan)->required();
  app.add_option("--threads", input->plan.threads,
                 "concurrent search threads, whose scratch is in fast memory (0: one per core)")
      ->check(CLI::Range(0, 1024));
  AddStructureFlags(app, build);
  app.add_flag("--json", flags->json, "print the plan as one JSON object on stdout");
  return [flags] { return Plan(*flags); };
}

}  // namespace hmann::tools
