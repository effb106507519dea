#include "tools/calibration_report.h"

#include <iostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/status_macros.h"
#include "index/dials/dial_table.h"
#include "index/tune/learning_set.h"
#include "tools/info_json.h"

namespace hmann {
namespace {

/// Where this way of searching is the default.
std::string Where(const Calibration::Curve& curve) {
  if (curve.way.walk == WalkKind::kUpper) return "no L0";
  if (curve.way.scalar_bits > 0) return absl::StrCat("memory, sq", curve.way.scalar_bits);
  if (curve.way.walk == WalkKind::kBestFirst) return "memory";
  return curve.way.cells ? "device" : "far memory";
}

Calibration::Found Expected(const Calibration& calibration, const Calibration::Curve& curve) {
  return *calibration.Find(curve.way, curve.k, kDefaultRecall);
}

}  // namespace

void PrintCalibration(const absl::StatusOr<Calibration>& calibration) {
  if (absl::IsNotFound(calibration.status())) return;
  if (!calibration.ok()) {
    std::cerr << "  not calibrated, default dials are a guess: " << calibration.status().message()
              << "\n";
    return;
  }
  std::cerr << absl::StrFormat("  default dials, by queries %s: recall@k expected%s\n",
                               calibration->origin,
                               calibration->origin == kLeftOutInTurn
                                   ? " (how much easier others are to find is a guess)"
                                   : "");
  for (const Calibration::Curve& curve : calibration->curves) {
    const Calibration::Found found = Expected(*calibration, curve);
    std::cerr << absl::StrFormat("    %-11s %-10s k %-5d %.3f  effort %.2f  (%d queries)\n",
                                 Where(curve), std::string(Name(curve.way.walk)), curve.k,
                                 found.recall, double{found.effort}, curve.queries);
  }
}

nlohmann::ordered_json ToJson(const absl::StatusOr<Calibration>& calibration) {
  if (!calibration.ok()) return nullptr;
  nlohmann::ordered_json expected = nlohmann::ordered_json::array();
  for (const Calibration::Curve& curve : calibration->curves) {
    const Calibration::Found found = Expected(*calibration, curve);
    expected.push_back({{"where", Where(curve)},
                        {"walk", std::string(Name(curve.way.walk))},
                        {"k", curve.k},
                        {"queries", curve.queries},
                        {"recall", found.recall},
                        {"effort", found.effort}});
  }
  return {{"origin", calibration->origin}, {"expected", std::move(expected)}};
}

absl::StatusOr<Calibration> ReadCalibration(const std::string& index, const IndexInfo& info) {
  HMANN_ASSIGN_OR_RETURN(const TunedTable table, ReadTunedTable(index, info.content_hash, info.n));
  if (table.calibration.has_value()) return *table.calibration;
  return absl::NotFoundError(absl::StrCat(index, ": not calibrated"));
}

nlohmann::ordered_json InfoJson(const std::string& path, const IndexInfo& info) {
  nlohmann::ordered_json json = ToJson(info);
  json["calibration"] = ToJson(ReadCalibration(path, info));
  return json;
}

}  // namespace hmann
