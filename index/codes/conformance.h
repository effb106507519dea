#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/codes/kernel_table.h"

/// Checks of the code kernels and of the bytes of a code without gtest and absl, so that
/// they also run cross-compiled.
namespace hmann::code_conformance {

/// Padded dimensions to check.
std::vector<std::size_t> Dims();

/// Compares both forms for all bits with sums taken level by level, over every length of
/// a batch, with extreme and random codes that lie at odd addresses and end right before
/// an unreadable page.
std::size_t CountMismatches(const CodeKernels& kernels, std::size_t dim);

/// A fingerprint (FNV-1a) of the codes of fixed vectors, rotated and quantised, over all
/// bits and several dimensions.
std::uint64_t CodeFingerprint();
/// What it is on every CPU. It changes only together with the version of the index file.
constexpr std::uint64_t kCodeFingerprint = 0xf7df1b653caee619u;

}  // namespace hmann::code_conformance
