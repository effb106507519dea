#include "eval/adapters/ladder.h"

namespace hmann::eval {
namespace {

nlohmann::json Setting(const char* mode, int ef_l1, int ef_l0) {
  return {{"mode", mode}, {"ef_l1", ef_l1}, {"ef_l0", ef_l0}};
}

/// For a drive: more work in L1 saves reads, since L1 is in fast memory.
constexpr int kGraph[][2] = {{8, 10},  {16, 16},  {32, 24},   {48, 36},  {64, 56},
                             {64, 90}, {96, 140}, {128, 220}, {192, 360}};

/// Also for a drive: a round trip costs more than the computation, so rounds are wide.
constexpr struct {
  int ef_l1, ef_l0, nprobe;
  double error_bound;
} kQuantized[] = {{32, 12, 64, 1.0},    {32, 20, 64, 1.0},    {64, 20, 128, 1.0},
                  {64, 30, 128, 1.0},   {64, 60, 128, 1.5},   {128, 30, 256, 1.0},
                  {128, 60, 256, 1.5},  {128, 120, 256, 2.0}, {256, 60, 512, 1.5},
                  {256, 120, 512, 2.0}, {256, 250, 512, 3.0}};

nlohmann::json OnADrive(bool codes) {
  nlohmann::json settings = nlohmann::json::array();
  for (const auto& [ef_l1, ef_l0] : kGraph) settings.push_back(Setting("graph", ef_l1, ef_l0));
  if (!codes) return settings;
  for (const auto& [ef_l1, ef_l0, nprobe, error_bound] : kQuantized) {
    settings.push_back(Setting("quantized", ef_l1, ef_l0));
    settings.back().update({{"nprobe", nprobe}, {"beam_width", 16}, {"error_bound", error_bound}});
  }
  return settings;
}

}  // namespace

nlohmann::json Ladder(bool inner_product, bool codes, bool drive) {
  if (drive) return OnADrive(codes);
  nlohmann::json settings = nlohmann::json::array();
  // One ladder per mode: points of equal recall and unequal speed would only put steps
  // into the front.
  for (const int ef_l1 : {10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320})
    settings.push_back(Setting("multi-start", ef_l1, 1));
  if (inner_product) {
    for (const int ef_l0 : {10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320, 480})
      settings.push_back(Setting("graph", 1, ef_l0));
    for (const int ef_l0 : {14, 20, 28, 40, 56, 80, 112, 160})
      if (codes) settings.push_back(Setting("quantized", 16, ef_l0));
    return settings;
  }
  const auto reaching = [&](const char* mode, int ef_l1, double epsilon) {
    settings.push_back(Setting(mode, ef_l1, 400));
    settings.back()["epsilon"] = epsilon;
  };
  for (const double epsilon : {0.03, 0.05, 0.07, 0.09, 0.11, 0.13, 0.16, 0.2, 0.24, 0.3, 0.4, 0.6})
    reaching("graph", 1, epsilon);
  for (const double epsilon : {0.04, 0.07, 0.1, 0.14, 0.2, 0.25, 0.3})
    if (codes) reaching("quantized", 16, epsilon);
  return settings;
}

}  // namespace hmann::eval
