#include "tools/build_flags.h"

#include "CLI/Error.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/units.h"
#include "tools/flags.h"
#include "tools/help.h"

namespace hmann::tools {

void AddGraphFlags(CLI::App& app, BuildOptions* build) {
  const OptionGroup group(app, "Graph");
  AddParsed(app, "--dtype", ParseDType, &build->dtype,
            "type of the stored vectors (default: as in --base, else f32); f16 halves the bytes of "
            "an f32 base, rounded")
      ->type_name("f32|f16|u8|i8");
  AddParsed(app, "--metric", ParseMetric, &build->metric, "distance (default: l2)")
      ->type_name("l2|ip|cosine");
  app.add_option("--m", build->m,
                 "M: links of a new node; L0 and L1 keep up to 2M links per node (default: 24 for "
                 "vectors of more than 384 bytes, else 16)")
      ->check(CLI::Range(2, 512));
  AddParsed(
      app, "--method", ParseBuildMethod, &build->method,
      "how to build L0 and L1: partition (default; compares all pairs within leaves of near "
      "vectors, with constants fitted to a million SIFT vectors and a guess elsewhere) or "
      "insertion (the method of the paper, three times as long; default for integers under ip)");
}

void AddConstructionFlags(CLI::App& app, BuildOptions* build) {
  app.add_option("--ef-construction", build->ef_construction,
                 "beam width of insertion; with --method partition, only for the highest ranks")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--alpha", build->alpha,
                 "link selection in L0 and L1: above 1, also keeps links that a detour of up to "
                 "this factor could replace, and selects the links of L0 twice; 1: as in HNSW, "
                 "faster to build, slower to search")
      ->check(CLI::Range(1.0, 2.0))
      ->capture_default_str();
  app.add_option("--seed", build->seed, "random seed; the same seed gives the same bytes")
      ->capture_default_str();
}

CLI::Option* AddStructureFlags(CLI::App& app, BuildOptions* build) {
  const OptionGroup group(app, "Promotion and codes");
  app.add_option("--bits", build->bits,
                 "bits per dimension of a code, for the quantized mode; 0: no codes (default 2; a "
                 "finished index keeps its own)")
      ->check(CLI::IsMember({0, 1, 2, 4}));
  app.add_option("--replicas", build->replicas,
                 "number of cells that list each node (default 1; a finished index keeps its own)")
      ->check(CLI::Range(1, 2));
  return app
      .add_option("--promote", build->promote,
                  "share of the vectors in fast memory, N_1 / N (default 0.16; a finished index "
                  "keeps its own)")
      ->check([](const std::string& text) {
        double share = 0;
        return absl::SimpleAtod(text, &share) && share > 0 && share < 1
                   ? std::string()
                   : absl::StrCat("expected a share between 0 and 1, as 0.16; found '", text, "'");
      });
}

CLI::Option* AddPlanFlags(CLI::App& app, PlanOptions* plan) {
  app.add_option(
         "--slow", plan->slow,
         "with --fast-memory: tier of L0, of any size: nvme, emulated:lat=300ns, numa:N, ...")
      ->capture_default_str();
  return AddParsed(
      app, "--fast-memory", ParseSize,
      [plan](std::uint64_t bytes) {
        if (bytes == 0) throw CLI::ValidationError("--fast-memory", "expected some, found none");
        plan->fast_memory_bytes = bytes;
      },
      "bytes of DRAM to plan for, as 96GiB; chooses the code bits unless --bits is given, and "
      "promotes as many nodes as fit");
}

void AddBuildFlags(CLI::App& app, BuildCall* call) {
  BuildOptions* build = &call->build;
  AddPlanFlags(app, &call->plan)->excludes(AddStructureFlags(app, build));
  AddParsed(app, "--build-memory", ParseSize, &build->memory,
            "memory limit, as 2GiB; the rest goes through --work, and the index is the same");
  app.add_option(
      "--work", build->work,
      "folder for data that does not fit; the same command resumes an interrupted build");
  app.add_option("--threads", build->threads,
                 "threads (0: all usable cores); the index is the same for any number")
      ->check(CLI::Range(0, 1024));
  app.add_option("--queries", call->calibrate.queries,
                 "vector file of typical queries, to calibrate the default parameters (default: "
                 "vectors of the index, each left out in turn)");
  app.add_flag_callback(
      "--no-calibrate", [call] { call->calibrate.wanted = false; },
      "skip calibration; the default parameters then suit SIFT and are a guess on other data");
}

void AddRowsFlags(CLI::App& app, const std::string& name, const std::string& purpose,
                  MakeAttributesOptions* rows) {
  CLI::Option* from = app.add_option(
      name, rows->from,
      absl::StrCat("file with a row for each vector: .ndjson, .csv or .spmat; ", purpose));
  app.add_option("--types", rows->types,
                 "types of some fields, as year:int64,tags:tag; others are inferred")
      ->needs(from);
}

std::string StructureFlags(const PlanShape& shape, const PlanStructure& structure) {
  const std::string promote = absl::StrFormat(" --promote %.10g", ShareOf(shape, structure.n1));
  if (structure.bits == 0) return absl::StrCat(promote, " --bits 0");
  return absl::StrCat(promote, " --bits ", structure.bits, " --replicas ", structure.replicas);
}

}  // namespace hmann::tools
