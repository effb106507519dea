#include "eval/hardware_limit.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>

#include "hmann/progress.h"
#include "hmann/tune.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann::eval {

absl::StatusOr<Json> MeasureGathers() {
  ProfileOptions profile;
  profile.repeats = 3;
  profile.budget = std::chrono::milliseconds(300);
  Progress quiet(Progress::Show::kNever);
  HMANN_ASSIGN_OR_RETURN(const DeviceProfile machine, MeasureProfile(profile, quiet));
  Json gathers = Json::array();
  for (const LoadsInFlight& at : machine.Memory("dram")->in_flight)
    gathers.push_back({{"loads", at.loads}, {"ns_a_line", at.ns_per_line.median}});
  return gathers;
}

absl::StatusOr<Json> MeasureDrive(const std::string& path, const std::string& folder) {
  ProfileOptions profile;
  profile.tiers = {"nvme"};
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes >= 4_MiB) profile.index = path;
  profile.scratch = folder + "/probe";
  profile.repeats = 3;
  Progress quiet(Progress::Show::kNever);
  HMANN_ASSIGN_OR_RETURN(const DeviceProfile machine, MeasureProfile(profile, quiet));
  Json depths = Json::array();
  for (const BlockDepth& at : machine.blocks.front().depths) {
    depths.push_back(
        {{"depth", at.depth}, {"iops", at.reads_per_s()}, {"mean_us", at.read_us.median}});
  }
  return Json{{"path", path}, {"tier", "nvme"}, {"depths", depths}};
}

std::optional<double> MemoryLimitQps(const Json& gathers, const std::optional<double>& lines) {
  if (!lines || *lines <= 0 || gathers.empty()) return std::nullopt;
  double ns = std::numeric_limits<double>::max();
  for (const Json& at : gathers) ns = std::min(ns, at["ns_a_line"].get<double>());
  return 1e9 / (ns * *lines);
}

DriveAt AtDepth(const Json& depths, double depth) {
  const auto of = [](const Json& at) {
    return DriveAt{at["mean_us"].get<double>(), at["iops"].get<double>()};
  };
  const auto above = std::find_if(depths.begin(), depths.end(), [&](const Json& at) {
    return at["depth"].get<double>() >= depth;
  });
  if (above == depths.begin()) return of(*above);
  if (above == depths.end()) return of(depths.back());
  const Json& below = *(above - 1);
  const double from = below["depth"].get<double>(), to = (*above)["depth"].get<double>(),
               share = (depth - from) / (to - from);
  const DriveAt low = of(below), high = of(*above);
  return {low.read_us + share * (high.read_us - low.read_us),
          low.reads_per_s + share * (high.reads_per_s - low.reads_per_s)};
}

std::optional<double> DriveLimitQps(const Json& depths, double reads, double rounds,
                                    int queries_in_flight) {
  if (depths.empty() || !(reads > 0)) return std::nullopt;
  const double width = rounds > 0 ? std::max(1.0, reads / rounds) : reads;
  const DriveAt drive = AtDepth(depths, width * queries_in_flight);
  const double by_waiting = queries_in_flight * 1e6 / (std::max(rounds, 1.0) * drive.read_us);
  return std::min(by_waiting, drive.reads_per_s / reads);
}

}  // namespace hmann::eval
