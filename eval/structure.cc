#include "eval/structure.h"

#include <algorithm>
#include <ranges>

#include "absl/strings/str_format.h"
#include "hmann/info.h"
#include "index/base/status_macros.h"

namespace hmann::eval {

std::uint32_t BitsForBytes(const PlanShape& shape, double bytes_a_vector) {
  constexpr double kMostOfBytes = 6.0 / 7;
  for (const std::uint32_t bits : {4u, 2u, 1u})
    if (CodeBytes(shape.dim, bits) <= kMostOfBytes * bytes_a_vector) return bits;
  return 0;
}

absl::StatusOr<PlanStructure> StructureForBytes(const PlanShape& shape, double bytes_a_vector,
                                                std::uint32_t bits) {
  HMANN_ASSIGN_OR_RETURN(const Header header, HeaderOf(shape, {.n1 = 1, .bits = bits}));
  const FastShape fast = FastShapeOf(header);
  const double budget = bytes_a_vector * static_cast<double>(shape.n);
  const auto promoted = std::views::iota(NodeId{1}, static_cast<NodeId>(shape.n));
  const auto too_many = std::ranges::partition_point(
      promoted, [&](NodeId n1) { return static_cast<double>(FastBytes(fast, n1)) <= budget; });
  if (too_many != promoted.begin()) return PlanStructure{.n1 = *too_many - 1, .bits = bits};
  return ResourceExhausted(absl::StrFormat(
      "%g bytes of fast memory a vector: expected as many as an index of %d vectors takes at "
      "the least, found too few",
      bytes_a_vector, shape.n));
}

Json BuildSettingsOf(const PlanShape& shape, const PlanStructure& structure) {
  return {{"promote", ShareOf(shape, structure.n1)}, {"bits", structure.bits}};
}

}  // namespace hmann::eval
