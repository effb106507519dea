#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/codes/kernel_table.h"

/// Checks of the code kernels and of code bytes. They need neither gtest nor absl, so
/// that they also run cross-compiled.
namespace hmann::code_conformance {

/// Padded dimensions to check.
std::vector<std::size_t> Dims();

/// Compares both kernel forms, for all bits, with sums taken level by level. It covers
/// every batch length, with extreme and random codes that lie at odd addresses and end
/// right before an unreadable page.
std::size_t CountMismatches(const CodeKernels& kernels, std::size_t dim);

/// A fingerprint (FNV-1a) of the codes of fixed vectors, rotated and quantized, over all
/// bits and several dimensions.
std::uint64_t CodeFingerprint();
/// The fingerprint on every CPU. It changes only together with the version of the index
/// file.
constexpr std::uint64_t kCodeFingerprint = 0xf7df1b653caee619u;

}  // namespace hmann::code_conformance
