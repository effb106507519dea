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
#include "tools/print.h"

namespace hmann::tools {
namespace {

struct PlanFlags {
  PlanInput input;
  bool explain = false, json = false;
};

void PrintBounded(const BoundedPlan& plan, std::uint64_t memory) {
  if (plan.base_passes == 0) {
    std::cerr << absl::StrFormat("  within bounded memory: %s at least\n",
                                 FormatSize(plan.least_bytes));
    return;
  }
  std::cerr << absl::StrFormat(
      "  within %s (--build-memory, --work): the base is read %d times, the folder takes %s at the "
      "most (about: how many links lead far was seen on one set)\n",
      FormatSize(memory), plan.base_passes, FormatSize(plan.work_bytes));
}

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

void PrintPlan(const PlanInput& input, const PlanReport& report) {
  const auto& [request, plan, build] = report;
  const BuildOptions& wish = input.build;
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
    std::cerr << absl::StrFormat(
        "to build: %s of memory, a file of %s (`hmann build --plan` measures the time)\n",
        FormatSize(build.memory_bytes), FormatSize(build.file_bytes));
    if (build.bounded.has_value()) PrintBounded(*build.bounded, request.fast_bytes);
    std::cerr << "  " << CommandFor(wish) << StructureFlags(shape, plan.structure) << '\n';
  }
  std::cerr << "  hmann search " << (wish.from_index.empty() ? "IDX" : wish.from_index)
            << " --fast " << plan.fast_tier << " --slow " << plan.l0_tier;
  if (plan.cache_bytes > 0)
    std::cerr << " --cache static --cache-size " << (plan.cache_bytes >> 10) << "KiB";
  if (plan.migration_bytes > 0)
    std::cerr << " --migration " << (plan.migration_bytes >> 10) << "KiB";
  std::cerr << " --queries Q\n";
}

absl::Status Plan(const PlanFlags& flags) {
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
  app.add_flag("--explain", flags->explain, "show the three lines of the rule, with their numbers");
  app.add_flag("--json", flags->json, "print the plan as one JSON object on stdout");
  return [flags] { return Plan(*flags); };
}

}  // namespace hmann::tools
