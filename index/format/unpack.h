#pragma once

#include <cstddef>
#include <cstdint>

namespace hmann {

/// Bytes after a list that the functions below may read.
constexpr std::uint32_t kListSlackBytes = 16;

/// Writes the `count` numbers of `bits` bits (1 to 32) at `list` to `links`.
using UnpackList = void (*)(const std::byte* list, std::uint32_t bits, std::uint32_t count,
                            std::uint32_t* links);

void UnpackScalar(const std::byte* list, std::uint32_t bits, std::uint32_t count,
                  std::uint32_t* links);
/// Only for CPUs with AVX2.
void UnpackAvx2(const std::byte* list, std::uint32_t bits, std::uint32_t count,
                std::uint32_t* links);

}  // namespace hmann
