#include "eval/hardware_limit.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "index/base/progress.h"
#include "index/base/status_macros.h"
#include "index/tune/tune.h"

namespace hmann {

absl::StatusOr<Json> MeasureGathers(const std::string& folder) {
  ProfileOptions profile;
  profile.scratch = folder + "/probe";
  profile.repeats = 3;
  profile.budget = std::chrono::milliseconds(300);
  Progress quiet(Progress::Show::kNever);
  HMANN_ASSIGN_OR_RETURN(const DeviceProfile machine, MeasureProfile(profile, quiet));
  Json gathers = Json::array();
  for (const LoadsInFlight& at : machine.Memory("dram")->in_flight)
    gathers.push_back({{"loads", at.loads}, {"ns_a_line", at.ns_per_line.median}});
  return gathers;
}

std::optional<double> MemoryLimitQps(const Json& gathers, const std::optional<double>& lines) {
  if (!lines || *lines <= 0 || gathers.empty()) return std::nullopt;
  double ns = std::numeric_limits<double>::max();
  for (const Json& at : gathers) ns = std::min(ns, at["ns_a_line"].get<double>());
  return 1e9 / (ns * *lines);
}

DriveAt AtDepth(std::span<const DepthFigures> depths, double depth) {
  const auto of = [](const DepthFigures& at) { return DriveAt{at.latency.mean, at.iops}; };
  const auto above = std::find_if(depths.begin(), depths.end(),
                                  [&](const DepthFigures& at) { return at.depth >= depth; });
  if (above == depths.begin()) return of(*above);
  if (above == depths.end()) return of(depths.back());
  const auto below = above - 1;
  const double share = (depth - below->depth) / (above->depth - below->depth);
  const DriveAt low = of(*below), high = of(*above);
  return {low.read_us + share * (high.read_us - low.read_us),
          low.reads_per_s + share * (high.reads_per_s - low.reads_per_s)};
}

std::optional<double> DriveLimitQps(std::span<const DepthFigures> depths, double reads,
                                    double rounds, int queries_in_flight) {
  if (depths.empty() || !(reads > 0)) return std::nullopt;
  const double width = rounds > 0 ? std::max(1.0, reads / rounds) : reads;
  const DriveAt drive = AtDepth(depths, width * queries_in_flight);
  const double by_waiting = queries_in_flight * 1e6 / (std::max(rounds, 1.0) * drive.read_us);
  return std::min(by_waiting, drive.reads_per_s / reads);
}

Json ToJson(const DiskFigures& disk) {
  Json depths = Json::array();
  for (const DepthFigures& at : disk.depths) {
    depths.push_back({{"depth", at.depth},
                      {"iops", at.iops},
                      {"mean_us", at.latency.mean},
                      {"p50_us", at.latency.p50},
                      {"p99_us", at.latency.p99},
                      {"reads", at.reads}});
  }
  return {{"path", disk.path},
          {"tier", disk.tier},
          {"blocks", disk.blocks},
          {"threads", disk.threads},
          {"depths", depths}};
}

std::vector<DepthFigures> DepthsOf(const Json& device) {
  std::vector<DepthFigures> depths;
  for (const Json& at : device["depths"]) {
    depths.emplace_back();
    depths.back().depth = at["depth"].get<std::uint32_t>();
    depths.back().iops = at["iops"].get<double>();
    depths.back().latency.mean = at["mean_us"].get<double>();
  }
  return depths;
}

}  // namespace hmann
