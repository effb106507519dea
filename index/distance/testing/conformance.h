#pragma once

#include <cstddef>
#include <vector>

#include "index/distance/simd_level.h"

/// Checks of the kernel tables that need neither gtest nor absl, so that a cross build
/// can run them under an emulator. Each returns the number of mismatches and prints the
/// first few to stderr.
namespace hmann::conformance {

/// 1 to 72, and the dims of common data sets.
std::vector<std::size_t> Dims();

/// Checks every dtype and metric of one level at `dim`. It compares with the reference in
/// double precision (exactly, or within its stated bound). It compares `many` with `one`
/// bit for bit for 0 to 9 and 33 rows. It checks that `out` is not written past its end.
/// Rows hold random and extreme values, start at any address and end where an unreadable
/// page begins.
std::size_t CountMismatches(const SimdLevel& level, std::size_t dim);

/// The number of u8 and i8 keys that differ between any two supported levels, at `dim`.
std::size_t CountDisagreements(std::size_t dim);

}  // namespace hmann::conformance
