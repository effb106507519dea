#include "tools/build_flags.h"

#include "CLI/Error.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/units.h"
#include "tools/flags.h"

namespace hmann::tools {

void AddGraphFlags(CLI::App& app, BuildOptions* build) {
  AddParsed(
      app, "--dtype", ParseDType, &build->dtype,
      "of the stored vectors (default: as in --base); f16: half the bytes of an f32 base, rounded");
  AddParsed(app, "--metric", ParseMetric, &build->metric, "l2 (default), ip, cosine");
  app.add_option("--m", build->m,
                 "M: neighbours a new node links to; up to 2M are kept in L0 and L1")
      ->check(CLI::Range(2, 512))
      ->capture_default_str();
  AddParsed(
      app, "--method", ParseBuildMethod, &build->method,
      "of making L0 and L1: partition (default: leaves of near vectors, compared "
      "all with all; its constants are of a million SIFT vectors, elsewhere a guess), insertion "
      "(default of integers under ip: the paper's, three times as long)");
}

CLI::Option* AddStructureFlags(CLI::App& app, BuildOptions* build) {
  app.add_option("--bits", build->bits,
                 "bits per dimension of a code, for the quantised walk; 0: no codes (default 2; of "
                 "a finished index as it is)")
      ->check(CLI::IsMember({0, 1, 2, 4}));
  app.add_option("--replicas", build->replicas,
                 "cells that a node is listed in (default 1; of a finished index as it is)")
      ->check(CLI::Range(1, 2));
  return app
      .add_option("--promote", build->promote,
                  "share of the vectors in fast memory, N_1 / N (default 0.16; of a finished index "
                  "as it is)")
      ->check([](const std::string& text) {
        double share = 0;
        return CLI::detail::lexical_cast(text, share) && share > 0 && share < 1
                   ? std::string()
                   : "expected a share between 0 and 1";
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
      "bytes of DRAM to plan for, as 96GiB: bits of codes that no flag says, and as many promoted "
      "nodes as fit");
}

void AddBuildFlags(CLI::App& app, BuildCall* call) {
  BuildOptions* build = &call->build;
  AddPlanFlags(app, &call->plan)->excludes(AddStructureFlags(app, build));
  AddParsed(app, "--build-memory", ParseSize, &build->memory,
            "memory this may take, as 2GiB: the rest goes through --work; the index is the same");
  app.add_option("--work", build->work,
                 "folder for what does not fit; the same command goes on where it was interrupted");
  app.add_option("--threads", build->threads,
                 "0: all usable cores; the index is the same for any number")
      ->check(CLI::Range(0, 1024));
  app.add_option("--queries", call->calibrate.queries,
                 "vector file of queries like those to come: default dials are set by them "
                 "(default: by vectors of the index, each left out in turn)");
  app.add_flag_callback(
      "--no-calibrate", [call] { call->calibrate.wanted = false; },
      "leave default dials as they suit SIFT, a guess on other data");
}

std::string StructureFlags(const PlanShape& shape, const PlanStructure& structure) {
  const std::string promote = absl::StrFormat(" --promote %.10g", ShareOf(shape, structure.n1));
  if (structure.bits == 0) return absl::StrCat(promote, " --bits 0");
  return absl::StrCat(promote, " --bits ", structure.bits, " --replicas ", structure.replicas);
}

}  // namespace hmann::tools
