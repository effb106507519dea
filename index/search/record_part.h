#pragma once

#include <cstdint>

namespace hmann {

/// What a walk reads of a record at a step. kRowAndLinks: with the sketches of the links, where records have them.
enum class RecordPart : std::uint8_t { kLinks, kRow, kLabel, kRowAndLinks };

/// Bytes of a record, from its start.
struct RecordExtent {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

}  // namespace hmann
