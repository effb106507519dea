#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "hmann/tune.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tune/probes.h"
#include "tools/commands.h"
#include "tools/flags.h"

namespace hmann::tools {
namespace {

struct ProfileFlags {
  ProfileOptions options;
  std::string out;
};

/// The figure, with the digits that its spread allows and a mark if it is noisy.
std::string Show(const Figure& figure) {
  return absl::StrCat(Rounded(figure), figure.noisy() ? " (noisy)" : "");
}

void PrintMemory(const MemoryProfile& memory) {
  std::cout << "tier " << memory.tier << '\n';
  std::cout << "  ns a line, by loads in flight    ";
  for (const LoadsInFlight& point : memory.in_flight)
    std::cout << ' ' << point.loads << ": " << Show(point.ns_per_line) << ' ';
  std::cout << absl::StrFormat(
      "\n  reading from end to end          %s GB/s, all cores %s GB/s: Thr %.1f\n",
      Show(memory.bandwidth_gb_per_s), Show(memory.peak_gb_per_s), memory.thr());
}

void PrintBlocks(const BlockProfile& block) {
  std::cout << "tier " << block.tier << ": " << block.device << ", 4 KiB at random in "
            << FormatSize(block.file_bytes) << '\n';
  for (const BlockDepth& point : block.depths) {
    std::cout << absl::StrFormat("  depth %2d   %s us a read, %.0f reads/s\n", point.depth,
                                 Show(point.read_us), point.reads_per_s());
  }
}

void PrintProfile(const DeviceProfile& profile) {
  const MachineIdentity& machine = profile.machine;
  std::cout << absl::StrFormat("%s, %d usable cores, %s, kernels %s\n", machine.cpu_model,
                               machine.cores, FormatSize(machine.memory_bytes), machine.simd);
  for (const MemoryProfile& memory : profile.memory) PrintMemory(memory);
  for (const BlockProfile& block : profile.blocks) PrintBlocks(block);
  const MeasurementNoise& noise = profile.noise;
  std::cout << absl::StrFormat(
      "%d repeats in %s; quartiles apart by %.1f %% of the median (the worst figure %.0f %%); %.1f "
      "%% of the CPU time stolen by other "
      "virtual "
      "machines, %.0f %% used by other programs\n",
      noise.repeats, FormatDuration(profile.seconds), 100 * noise.median_spread,
      100 * noise.worst_spread, 100 * noise.steal_share, 100 * noise.busy_share);
  if (!noise.quiet())
    std::cout
        << "This machine was not quiet: measure again, and compare figures of one file only.\n";
}

absl::Status Measure(ProfileFlags& flags) {
  flags.options.scratch = flags.out;
  HMANN_RETURN_IF_ERROR(FileToWrite(flags.out).status());
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(const DeviceProfile profile, MeasureProfile(flags.options, progress));
  HMANN_RETURN_IF_ERROR(WriteProfile(profile, flags.out));
  PrintProfile(profile);
  return absl::OkStatus();
}

}  // namespace

CommandAction SetupProfile(CLI::App& app) {
  auto flags = std::make_shared<ProfileFlags>();
  app.add_option("--out", flags->out, "JSON file to write; its names include the units")
      ->required();
  app.add_option("--slow", flags->options.tiers,
                 "tiers to measure in addition to dram, named as for search: numa:N, "
                 "emulated:lat=300ns, nvme, nvme:PATH, mapped, dax:PATH")
      ->delimiter(' ');
  AddParsed(
      app, "--budget", ParseDuration,
      [flags](std::chrono::nanoseconds time) {
        flags->options.budget = std::chrono::duration_cast<std::chrono::milliseconds>(time);
      },
      "measurement time (default 4s), in addition to filling memory");
  return [flags] { return Measure(*flags); };
}

}  // namespace hmann::tools
