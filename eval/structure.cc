#include "eval/structure.h"

#include "absl/strings/str_format.h"
#include "index/base/status_macros.h"
#include "index/format/info.h"

namespace hmann {

std::uint32_t BitsForBytes(const PlanShape& shape, double bytes_a_vector) {
  constexpr double kMostOfBytes = 6.0 / 7;
  for (const std::uint32_t bits : {4u, 2u, 1u})
    if (CodeBytes(shape.dim, bits) <= kMostOfBytes * bytes_a_vector) return bits;
  return 0;
}

absl::StatusOr<std::uint64_t> FastBytesOf(const PlanShape& shape, const PlanStructure& structure) {
  HMANN_ASSIGN_OR_RETURN(const Header header, HeaderOf(shape, structure));
  return FastBytes(FastShapeOf(header), structure.n1);
}

absl::StatusOr<PlanStructure> StructureForBytes(const PlanShape& shape, double bytes_a_vector,
                                                std::uint32_t bits) {
  const double budget = bytes_a_vector * static_cast<double>(shape.n);
  PlanStructure structure;
  structure.bits = bits;
  NodeId low = 1, high = static_cast<NodeId>(shape.n);  // low is known to fit, or too few as it is
  while (high - low > 1) {
    structure.n1 = low + (high - low) / 2;
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t bytes, FastBytesOf(shape, structure));
    (static_cast<double>(bytes) <= budget ? low : high) = structure.n1;
  }
  structure.n1 = low;
  HMANN_ASSIGN_OR_RETURN(const std::uint64_t bytes, FastBytesOf(shape, structure));
  if (static_cast<double>(bytes) <= budget) return structure;
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%g bytes of fast memory a vector: expected as many as an index of %d vectors takes at "
      "the least, found too few",
      bytes_a_vector, shape.n));
}

Json BuildSettingsOf(const PlanShape& shape, const PlanStructure& structure) {
  return {{"promote", ShareOf(shape, structure.n1)}, {"bits", structure.bits}};
}

}  // namespace hmann
