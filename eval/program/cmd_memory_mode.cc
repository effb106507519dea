#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/models/memory_mode_acceptance.h"
#include "eval/program/eval_flags.h"
#include "tools/print.h"

namespace hmann {
namespace {

struct MemoryModeFlags {
  std::uint64_t seed = 1;
  bool json = false;
};

Json AccessesJson(const MemoryAccesses& a) {
  return {{"dram_reads", a.dram_reads},
          {"dram_writes", a.dram_writes},
          {"slow_reads", a.slow_reads},
          {"slow_writes", a.slow_writes}};
}

std::string Cells(const MemoryAccesses& a) {
  return absl::StrFormat("%8d %8d %8d %8d %5d", a.dram_reads, a.dram_writes, a.slow_reads,
                         a.slow_writes, a.Sum());
}

absl::Status RunMemoryMode(const MemoryModeFlags& flags) {
  Json requests = Json::array(), traces = Json::array();
  std::string table = absl::StrFormat(
      "Model of Memory Mode (direct-mapped, 64-byte lines): accesses per request\n  %-42s %8s %8s "
      "%8s %8s %5s\n",
      "request", "DRAM rd", "DRAM wr", "slow rd", "slow wr", "sum");
  std::size_t off = 0;
  for (const RequestRow& row : RequestTable()) {
    const bool holds = row.measured == row.expected;
    off += holds ? 0 : 1;
    requests.push_back({{"request", row.request},
                        {"measured", AccessesJson(row.measured)},
                        {"expected", AccessesJson(row.expected)}});
    absl::StrAppend(&table,
                    absl::StrFormat("  %-42s %s%s\n", row.request, Cells(row.measured),
                                    holds ? "" : absl::StrCat("   expected", Cells(row.expected))));
  }
  absl::StrAppend(&table, absl::StrFormat("  %-55s %9s %9s\n", "trace", "measured", "expected"));
  for (const AcceptanceRow& row : AcceptanceList(flags.seed)) {
    off += row.Holds() ? 0 : 1;
    traces.push_back({{"trace", row.trace},
                      {"measured", row.measured},
                      {"expected", row.expected},
                      {"tolerance", row.tolerance}});
    absl::StrAppend(
        &table, absl::StrFormat("  %-55s %9.4f %9.4f%s%s\n", row.trace, row.measured, row.expected,
                                row.tolerance > 0 ? absl::StrFormat(" +-%g", row.tolerance) : "",
                                row.Holds() ? "" : "   off"));
  }
  if (flags.json) {
    if (absl::Status status = PrintJson({{"requests", requests}, {"traces", traces}}); !status.ok())
      return status;
  } else {
    std::cout << table << std::flush;
  }
  return off == 0
             ? absl::OkStatus()
             : absl::InternalError(absl::StrCat("the model: ", off, " rows are not as expected"));
}

}  // namespace

EvalCommand SetupEvalMemoryMode(CLI::App& eval) {
  auto flags = std::make_shared<MemoryModeFlags>();
  CLI::App* app = eval.add_subcommand(
      "memory-mode", "What the model of a DRAM cache in hardware gives, beside what it must give");
  app->add_option("--seed", flags->seed, "of the random traces")->capture_default_str();
  app->add_flag("--json", flags->json, "the figures as one JSON object on stdout");
  app->footer("Example:\n  hmann eval memory-mode");
  return {app, [flags] { return RunMemoryMode(*flags); }};
}

}  // namespace hmann
