#include "tools/calibration_report.h"

#include <iostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/status_macros.h"
#include "index/dials/dial_table.h"

namespace hmann {
namespace {

/// Where this way of searching is the default.
std::string Where(const Calibration::Curve& curve) {
  if (curve.walk == WalkKind::kUpper) return "no L0";
  if (curve.walk == WalkKind::kBestFirst) return "memory";
  return curve.cells ? "device" : "far memory";
}

Calibration::Found Expected(const Calibration& calibration, const Calibration::Curve& curve) {
  return *calibration.Find(curve.walk, curve.cells, curve.k, kDefaultRecall);
}

}  // namespace

void AddCalibrateFlags(CLI::App& app, CalibrateOptions* calibrate) {
  app.add_option("--queries", calibrate->queries,
                 "vector file of queries like those to come: default dials are set by them "
                 "(default: by vectors of the index, each left out in turn)");
  app.add_flag_callback(
      "--no-calibrate", [calibrate] { calibrate->wanted = false; },
      "leave default dials as they suit SIFT, a guess on other data");
}

void PrintCalibration(const absl::StatusOr<Calibration>& calibration) {
  if (absl::IsNotFound(calibration.status())) return;
  if (!calibration.ok()) {
    std::cerr << "  not calibrated, default dials are a guess: " << calibration.status().message()
              << "\n";
    return;
  }
  std::cerr << absl::StrFormat("  default dials, by %d queries %s: recall@k expected\n",
                               calibration->queries, calibration->origin);
  for (const Calibration::Curve& curve : calibration->curves) {
    const Calibration::Found found = Expected(*calibration, curve);
    std::cerr << absl::StrFormat("    %-11s %-10s k %-4d %.3f  effort %.2f\n", Where(curve),
                                 std::string(Name(curve.walk)), curve.k, found.recall,
                                 double{found.effort});
  }
}

nlohmann::ordered_json ToJson(const absl::StatusOr<Calibration>& calibration) {
  if (!calibration.ok()) return nullptr;
  nlohmann::ordered_json expected = nlohmann::ordered_json::array();
  for (const Calibration::Curve& curve : calibration->curves) {
    const Calibration::Found found = Expected(*calibration, curve);
    expected.push_back({{"where", Where(curve)},
                        {"walk", std::string(Name(curve.walk))},
                        {"k", curve.k},
                        {"recall", found.recall},
                        {"effort", found.effort}});
  }
  return {{"queries", calibration->queries},
          {"origin", calibration->origin},
          {"expected", std::move(expected)}};
}

absl::StatusOr<Calibration> ReadCalibration(const std::string& index, const IndexInfo& info) {
  HMANN_ASSIGN_OR_RETURN(const TunedTable table, ReadTunedTable(index, info.content_hash, info.n));
  if (table.calibration.has_value()) return *table.calibration;
  return absl::NotFoundError(absl::StrCat(index, ": not calibrated"));
}

}  // namespace hmann
