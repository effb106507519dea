#include <functional>
#include <iostream>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/plan_index.h"
#include "index/tune/build_estimate.h"
#include "index/tune/placement_choices.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/plan_choice.h"
#include "tools/print.h"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string index, queries, profile;
  BuildOptions build;  ///< that the plan is for
  std::uint32_t dim = 0;
  DType dtype = DType::kU8;
  PlanRequest request;
  bool as_is = false, explain = false, json = false;
};

absl::Status FillShape(Flags& flags, Progress& progress) {
  PlanRequest& request = flags.request;
  if (!flags.index.empty()) {
    HMANN_ASSIGN_OR_RETURN(const IndexToPlan index, DescribeIndex(flags.index));
    request.shape = index.shape;
    if (flags.as_is) request.finished = index.structure;
    HMANN_ASSIGN_OR_RETURN(request.scale, SampleCounts(flags.index, flags.queries, request.slow.starts_with("nvme"), progress));
  } else if (!flags.build.base.empty()) {
    HMANN_ASSIGN_OR_RETURN(request.shape, ShapeOf(flags.build));
  } else {
    if (flags.build.rows == 0 || flags.dim == 0) {
      return absl::InvalidArgumentError("expected an index, or --base, or --rows and --dim of what will be indexed");
    }
    request.shape = ShapeOf(flags.build, flags.build.rows, flags.dim, flags.dtype);
  }
  return absl::OkStatus();
}

Json ToJson(const PlacementPlan& plan, const PlanRequest& request, const BuildEstimate& build) {
  Json structures = Json::array();
  for (const PlacedBytes& line : plan.bytes)
    structures.push_back({{"structure", line.structure}, {"tier", line.tier}, {"bytes", line.bytes}});
  const PlanStructure& structure = plan.structure;
  return {{"n", request.shape.n},
          {"dim", request.shape.dim},
          {"dtype", std::string(Name(request.shape.dtype))},
          {"fast_memory_bytes", request.fast_bytes},
          {"middle_memory_bytes", request.middle_bytes},
          {"promoted", structure.n1},
          {"promote", static_cast<double>(structure.n1) / static_cast<double>(request.shape.n)},
          {"codes", structure.bits == 0 ? "none" : std::string(Name(structure.codes))},
          {"bits", structure.bits},
          {"assign", structure.assign},
          {"fast", plan.fast_tier},
          {"slow", plan.l0_tier},
          {"cache_bytes", plan.cache_bytes},
          {"cached_share", plan.cached_share},
          {"migration_bytes", plan.migration_bytes},
          {"structures", structures},
          {"fast_bytes", plan.used.fast},
          {"middle_bytes", plan.used.middle},
          {"file_bytes", plan.file_bytes},
          {"predicted_us", plan.predicted_us},
          {"slow_reads", plan.counts.slow_reads},
          {"rounds", plan.counts.rounds},
          {"cache_hit_share", plan.cache_hits},
          {"states", plan.work.states},
          {"replans", plan.replans},
          {"build", {{"memory_bytes", build.memory_bytes}, {"file_bytes", build.file_bytes}, {"seconds", build.seconds}}}};
}

void PrintPlan(const Flags& flags, const PlacementPlan& plan, const BuildEstimate& build) {
  const PlanShape& shape = flags.request.shape;
  std::cerr << absl::StrFormat("%d vectors of %d x %s, M = %d: %s\n", shape.n, shape.dim, std::string(Name(shape.dtype)), shape.m,
                               DescribeStructure(shape, plan.structure));
  for (const PlacedBytes& line : plan.bytes) {
    std::cerr << absl::StrFormat("  %-22s %-20s %12s  %7.2f B a vector\n", line.structure, line.tier, FormatSize(line.bytes),
                                 static_cast<double>(line.bytes) / static_cast<double>(shape.n));
  }
  std::cerr << absl::StrFormat("fast memory: %s of %s in whole pages", FormatSize(plan.used.fast), FormatSize(flags.request.fast_bytes));
  if (flags.request.middle_bytes > 0) {
    std::cerr << absl::StrFormat("; middle: %s of %s", FormatSize(plan.used.middle), FormatSize(flags.request.middle_bytes));
  }
  if (plan.replans > 0) std::cerr << absl::StrFormat("; planned anew %d times, since the kernel gave more than was asked", plan.replans);
  std::cerr << absl::StrFormat(
      "\na query at recall@10 0.95, about: %s: %.0f records of L0 in %.1f rounds, %.0f %% of them from the cache; %.0f distances and %.0f "
      "estimates in fast memory\n",
      FormatDuration(plan.predicted_us / 1e6), plan.counts.slow_reads, plan.counts.rounds, 100 * plan.cache_hits,
      plan.counts.distances_fast, plan.counts.sketches);
  if (!flags.as_is) {
    std::cerr << absl::StrFormat("to build: about %s on %d threads, %s of memory, a file of %s\n", FormatDuration(build.seconds),
                                 flags.request.threads, FormatSize(build.memory_bytes), FormatSize(build.file_bytes));
    const std::string command = flags.index.empty()
                                    ? absl::StrCat("hmann build --base ", flags.build.base.empty() ? "F" : flags.build.base, " --out IDX")
                                    : absl::StrCat("hmann promote ", flags.index);
    std::cerr << "  " << command << StructureFlags(shape, plan.structure) << '\n';
  }
  std::cerr << "  hmann search " << (flags.index.empty() ? "IDX" : flags.index) << " --fast " << plan.fast_tier << " --slow "
            << plan.l0_tier;
  if (plan.cache_bytes > 0) std::cerr << " --cache static --cache-size " << (plan.cache_bytes >> 10) << "KiB";
  if (plan.migration_bytes > 0) std::cerr << " --migration " << (plan.migration_bytes >> 10) << "KiB";
  std::cerr << " --queries Q\n";
}

struct Explanation : PlanBesideRules {
  std::string name;
};

/// The plan and the rules of thumb at other sizes.
std::vector<Explanation> Explain(const PlanRequest& request, const PlacementPlan& plan) {
  std::vector<Explanation> lines;
  const auto add = [&](std::string name, std::uint64_t fast, std::uint64_t middle) {
    lines.push_back({CompareWithRules(request, fast, middle), std::move(name)});
  };
  add("as given", request.fast_bytes, request.middle_bytes);
  add("1 GiB more of fast memory", request.fast_bytes + 1_GiB, request.middle_bytes);
  if (request.middle_bytes > 0) add("1 GiB more of the middle", request.fast_bytes, request.middle_bytes + 1_GiB);
  for (const int percent : {5, 10, 20, 40}) {
    add(absl::StrCat(percent, " % of the file in fast memory"), plan.file_bytes * static_cast<std::uint64_t>(percent) / 100,
        request.middle_bytes);
  }
  return lines;
}

std::string Microseconds(const std::optional<PlacementPlan>& plan) {
  return plan.has_value() ? FormatDuration(plan->predicted_us / 1e6) : "too small";
}

void PrintExplanation(const PlanShape& shape, const std::vector<Explanation>& lines) {
  std::cerr << absl::StrFormat("\n%-30s %10s | %-10s %-34s | %-14s | %s\n", "predicted time of a query", "fast", "the plan", "",
                               "layers first", "first touch");
  for (const Explanation& line : lines) {
    std::cerr << absl::StrFormat("%-30s %10s | %-10s %-34s | %-14s | %s\n", line.name, FormatSize(line.fast_bytes), Microseconds(line.plan),
                                 line.plan.has_value() ? DescribeStructure(shape, line.plan->structure) : "", Microseconds(line.layers),
                                 Microseconds(line.touch));
  }
  if (lines[0].plan.has_value() && lines[1].plan.has_value()) {
    std::cerr << absl::StrFormat("one more GiB of fast memory is worth %.1f %% of a query's time\n",
                                 100 * (1 - lines[1].plan->predicted_us / lines[0].plan->predicted_us));
  }
}

Json ToJson(const std::vector<Explanation>& lines) {
  Json list = Json::array();
  const auto us = [](const std::optional<PlacementPlan>& plan) { return plan.has_value() ? Json(plan->predicted_us) : Json(nullptr); };
  for (const Explanation& line : lines) {
    list.push_back({{"case", line.name},
                    {"fast_memory_bytes", line.fast_bytes},
                    {"middle_memory_bytes", line.middle_bytes},
                    {"predicted_us", us(line.plan)},
                    {"upper_layers_first_us", us(line.layers)},
                    {"first_touch_us", us(line.touch)}});
  }
  return list;
}

absl::Status Plan(Flags& flags) {
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(flags.request.profile, ProfileToPlanWith(flags.profile));
  HMANN_RETURN_IF_ERROR(FillShape(flags, progress));
  const auto taken = [&](const PlacementPlan& plan) -> absl::StatusOr<std::uint64_t> {
    return flags.as_is ? MeasureFastBytes(flags.index, plan) : plan.used.fast;
  };
  HMANN_ASSIGN_OR_RETURN(const PlacementPlan plan, PlanAgainst(flags.request, taken));
  HMANN_ASSIGN_OR_RETURN(const BuildEstimate build,
                         EstimateBuild(flags.request.shape, plan.structure, flags.request.profile, flags.request.threads));
  const std::vector<Explanation> lines = flags.explain ? Explain(flags.request, plan) : std::vector<Explanation>();
  if (flags.json) {
    Json json = ToJson(plan, flags.request, build);
    if (flags.explain) json["explain"] = ToJson(lines);
    return PrintJson(json);
  }
  PrintPlan(flags, plan, build);
  if (flags.explain) PrintExplanation(flags.request.shape, lines);
  return absl::OkStatus();
}

void AddShapeOptions(CLI::App& app, Flags* flags) {
  BuildOptions* build = &flags->build;
  CLI::Option* index = app.add_option("INDEX", flags->index, "finished index, whose work a sample of queries tells");
  app.add_option("--base", build->base, "instead: vector file that will be indexed")->excludes(index);
  app.add_option("--rows", build->rows, "its first rows only (0: all); or, without a file, how many vectors there will be")
      ->excludes(index);
  app.add_option("--dim", flags->dim, "without a file: dimension")->check(CLI::Range(1, static_cast<int>(kMaxDim)));
  AddParsed<DType>(
      app, "--dtype", ParseDType, [flags](DType dtype) { flags->dtype = dtype; }, "without a file: u8 (default), i8, f32");
  AddParsed<Metric>(
      app, "--metric", ParseMetric, [build](Metric metric) { build->metric = metric; }, "l2 (default), ip, cosine");
  app.add_option("--m", build->m, "M of the build")->check(CLI::Range(2, 512))->capture_default_str();
  app.add_option("--ef-construction", build->ef_construction, "of the build")->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--alpha", build->alpha, "of the build, for the time it takes")->check(CLI::Range(1.0, 2.0))->capture_default_str();
  app.add_option("--queries", flags->queries, "sample of queries for INDEX (default: made from its vectors)")->needs(index);
  app.add_flag("--as-is", flags->as_is, "INDEX stays as it is: say only where it lies, and prove that it fits by opening it")->needs(index);
}

}  // namespace

CommandAction SetupPlan(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  PlanRequest* request = &flags->request;
  request->threads = UsableCores();
  AddShapeOptions(app, flags.get());
  AddParsed<std::uint64_t>(
      app, "--fast-memory", ParseSize, [request](std::uint64_t bytes) { request->fast_bytes = bytes; }, "bytes of DRAM for it, as 96GiB")
      ->required();
  AddParsed<std::uint64_t>(
      app, "--middle-memory", ParseSize, [request](std::uint64_t bytes) { request->middle_bytes = bytes; },
      "bytes of a tier between DRAM and the slow one, as 512GiB");
  app.add_option("--middle", request->middle, "that tier: numa:N, emulated:lat=200ns")->capture_default_str();
  app.add_option("--slow", request->slow, "tier of L0, of any size: nvme, emulated:lat=300ns, numa:N, ...")->capture_default_str();
  app.add_option("--profile", flags->profile, "device file of `hmann profile` (default: figures of a usual machine)");
  app.add_option("--threads", request->threads, "that search at once: their scratch is in fast memory")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--promote", request->promote, "pinned: share of the vectors in fast memory")->check(CLI::Range(0.0, 1.0));
  app.add_option("--bits", request->bits, "pinned: bits per dimension of a sketch; 0: none")->check(CLI::Range(0, 4));
  app.add_option("--assign", request->assign, "pinned: hubs that a node is listed with")->check(CLI::Range(1, 2));
  app.add_flag("--edge-codes", request->edge_codes, "codes inside the records are a choice, too");
  app.add_flag("--explain", flags->explain,
               "what one more GiB is worth, and the plan beside two rules of thumb at 5, 10, 20, 40 % fast memory");
  app.add_flag("--json", flags->json, "the plan as one JSON object on stdout");
  return [flags] { return Plan(*flags); };
}

}  // namespace hmann
