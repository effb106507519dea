#pragma once

#include <cstdint>

namespace hmann {

/// Internal node number. For promoted nodes, id = promotion rank, so a level needs no
/// look-up.
using NodeId = std::uint32_t;

/// Fills the unused end of a link list.
constexpr NodeId kNoNode = 0xffffffffu;

/// Beams pack (distance key, id, expanded flag) into 64 bits, so an id has 31.
constexpr std::uint64_t kMaxNodes = (std::uint64_t{1} << 31) - 1;

}  // namespace hmann
