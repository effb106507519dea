#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "hmann/machine_load.h"
#include "index/base/clock.h"
#include "index/base/cpu.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tune/probes.h"

namespace hmann {
namespace {

constexpr std::uint64_t kLeastBytes = 8_MiB;

void NoteNoise(const OthersShare& others, const Probes& probes, int repeats,
               MeasurementNoise& noise) {
  std::vector<double> spreads;
  for (const Figure& figure : probes.figures()) spreads.push_back(figure.spread);
  noise.repeats = repeats;
  noise.median_spread = FigureOf(spreads).median;
  noise.worst_spread = *std::max_element(spreads.begin(), spreads.end());
  noise.steal_share = others.steal;
  noise.busy_share = others.busy;
}

/// A scratch file next to a given one, for a tier's own copy of the load chain. It is
/// removed at the end.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& beside)
      : path_((std::filesystem::path(beside).parent_path() /
               absl::StrCat(".hmann-profile.", getpid()))
                  .string()) {}
  ScratchFile(const ScratchFile&) = delete;
  ~ScratchFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

/// Everything that must live until the probes have run.
struct Measured {
  Buffer chain;
  std::vector<std::unique_ptr<ScratchFile>> files;
  DeviceProfile profile;
  Probes probes;
};

absl::Status AddTier(const std::string& tier, const ProfileOptions& options, Measured& measured,
                     Progress& progress) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(tier, absl::MaxSplits(':', 1));
  const auto& [kind, path] = parts;  // "dax", "/mnt/x"
  if (kind == "nvme" && !options.index.empty() && path.empty()) {
    return AddBlockProbes(tier, options.index, measured.profile.blocks.emplace_back(),
                          measured.probes);
  }
  std::string made = tier;
  if (kind == "mapped" || kind == "dax" || kind == "nvme") {
    const std::string& beside = path.empty() ? options.scratch : path;
    if (beside.empty()) {
      return InvalidArgument("tier ", tier,
                             " is measured on a file: give a path in whose folder one may be made");
    }
    // Not PATH itself: it may hold an index's L0. A folder can be shared, but a device
    // cannot.
    struct stat found {};
    if (stat(beside.c_str(), &found) == 0 && (S_ISCHR(found.st_mode) || S_ISBLK(found.st_mode))) {
      return Unimplemented("tier ", tier,
                           ": a whole device is not measured, since that would overwrite it");
    }
    measured.files.push_back(std::make_unique<ScratchFile>(beside));
    const std::string& file = measured.files.back()->path();
    if (kind == "nvme") {
      const Buffer& chain = measured.chain;
      HMANN_RETURN_IF_ERROR(
          WriteTextFile(file, {reinterpret_cast<const char*>(chain.data()), chain.size()}));
      return AddBlockProbes(tier, file, measured.profile.blocks.emplace_back(), measured.probes);
    }
    made = absl::StrCat(kind, ":", file);
  }
  MemoryProfile& memory = measured.profile.memory.emplace_back();
  HMANN_RETURN_IF_ERROR(AddMemoryProbes(made, measured.chain, memory, measured.probes, progress));
  memory.tier = tier;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DeviceProfile> MeasureProfile(const ProfileOptions& options, Progress& progress) {
  HMANN_RETURN_IF_ERROR(options.Validate());
  const auto start = Probes::Clock::now();
  Measured measured;
  measured.profile.machine = ThisMachine();
  const std::uint64_t bytes = std::max<std::uint64_t>(
      kLeastBytes, std::min(options.memory_bytes, UsableMemoryBytes() / 8 / 2_MiB * 2_MiB));
  HMANN_ASSIGN_OR_RETURN(measured.chain, MakeLoadChain(bytes));

  std::vector<std::string> tiers = {"dram"};
  for (const std::string& tier : options.tiers) {
    if (std::find(tiers.begin(), tiers.end(), tier) == tiers.end()) tiers.push_back(tier);
  }
  // Probes keep pointers to the figures, so the vectors must not move.
  measured.profile.memory.reserve(tiers.size());
  measured.profile.blocks.reserve(tiers.size());
  for (const std::string& tier : tiers)
    HMANN_RETURN_IF_ERROR(AddTier(tier, options, measured, progress));
  const MachineLoad load;
  HMANN_RETURN_IF_ERROR(measured.probes.Run(options.repeats, options.budget, progress));
  NoteNoise(load.Others(), measured.probes, options.repeats, measured.profile.noise);
  measured.profile.seconds = SecondsSince(start);
  return std::move(measured.profile);
}

}  // namespace hmann
