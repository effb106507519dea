#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "index/codes/scalar_quantizer.h"
#include "index/format/reader.h"

namespace hmann {

/// Learns scalar codes from rows spread evenly over an index of n nodes. The same index
/// gives the same codes. Errors: those of ScalarQuantizer::Learn.
absl::StatusOr<ScalarQuantizer> LearnScalarCodes(
    const Kernels& kernels, std::uint32_t bits, std::size_t n,
    const std::function<const std::byte*(NodeId)>& row);

/// Whether scalar codes may pay for an index of n such rows: floats of more than one
/// cache line. On u8 and i8 they gain nothing.
bool MayHaveScalarCodes(DType dtype, std::uint64_t n, std::uint32_t row_bytes);

/// The scalar codes with which searches of `file` read the fewest bytes. nullopt: none
/// saves enough, or the error of each is beyond the distances between neighbors. Compares
/// vectors of the file with their neighbors and the neighbors of these.
absl::StatusOr<std::optional<ScalarQuantizer>> ChooseScalarCodes(const IndexFile& file);

}  // namespace hmann
