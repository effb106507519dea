#include "eval/scale_structure.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_format.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {

std::uint64_t StructureBytesOf(const PlacementPlan& plan) {
  std::uint64_t bytes = 0;
  for (const PlacedBytes& part : plan.bytes) {
    if (part.structure != "l0" && part.structure != "migration and scratch") bytes += part.bytes;
  }
  return bytes;
}

absl::StatusOr<PlacementPlan> PlanForBytes(const PlanShape& shape, const std::string& slow,
                                           double bytes_a_vector,
                                           std::optional<std::uint32_t> bits) {
  PlanRequest request;
  request.bits = bits;
  request.shape = shape;
  request.slow = slow;
  const auto budget = static_cast<std::uint64_t>(bytes_a_vector * static_cast<double>(shape.n));
  // Reserve and whole pages come on top: of a small index they would be most of it.
  std::uint64_t low = budget, high = budget + budget / 40 + 16_MiB;
  const std::uint64_t near = std::max<std::uint64_t>(budget / 400, 4_KiB);
  std::optional<PlacementPlan> best;
  while (high - low > near) {
    request.fast_bytes = low + (high - low) / 2;
    absl::StatusOr<PlacementPlan> plan = PlanPlacement(request);
    if (!plan.ok() && plan.status().code() != absl::StatusCode::kResourceExhausted)
      return plan.status();
    const bool fits = !plan.ok() || (plan->l0_tier != "dram" && StructureBytesOf(*plan) <= budget);
    if (plan.ok() && fits &&
        (!best.has_value() || StructureBytesOf(*plan) > StructureBytesOf(*best)))
      best = *std::move(plan);
    (fits ? low : high) = request.fast_bytes;
  }
  if (!best.has_value()) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "%g bytes of fast memory a vector: expected as many as an index of %d vectors takes at "
        "the least, found too few",
        bytes_a_vector, shape.n));
  }
  return *std::move(best);
}

absl::StatusOr<std::optional<PlacementPlan>> PlanCodesForBytes(const PlanShape& shape,
                                                               const std::string& slow,
                                                               double bytes_a_vector) {
  HMANN_ASSIGN_OR_RETURN(const PlacementPlan drive, PlanForBytes(shape, "nvme", bytes_a_vector));
  if (drive.structure.bits == 0) return std::nullopt;
  HMANN_ASSIGN_OR_RETURN(PlacementPlan plan,
                         PlanForBytes(shape, slow, bytes_a_vector, drive.structure.bits));
  return plan;
}

Json BuildSettingsOf(const PlanShape& shape, const PlacementPlan& plan) {
  return {{"promote", ShareOf(shape, plan.structure.n1)},
          {"bits", plan.structure.bits},
          {"replicas", plan.structure.replicas}};
}

Json CacheSettingsOf(const PlacementPlan& plan) {
  if (plan.cache_bytes == 0) return Json::object();
  return {{"cache", "static"}, {"cache_bytes", plan.cache_bytes}};
}

}  // namespace hmann
