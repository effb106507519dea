#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hmann {

/// Appends a number in groups of seven bits, one per byte, the lowest first.
inline void PutVarint(std::uint32_t value, std::vector<std::byte>* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<std::byte>(value | 0x80));
  out->push_back(static_cast<std::byte>(value));
}

/// Reads numbers that PutVarint wrote, from bytes that may be damaged.
class VarintReader {
 public:
  VarintReader(const std::byte* begin, const std::byte* end) : at_(begin), end_(end) {}
  bool AtEnd() const { return at_ == end_; }
  /// Returns whether there was a valid number.
  bool Next(std::uint32_t* value) {
    std::uint64_t read = 0;
    for (unsigned shift = 0; at_ != end_ && shift < 35; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(*at_++);
      read |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte >= 0x80) continue;
      *value = static_cast<std::uint32_t>(read);
      return read <= 0xffffffff;
    }
    return false;
  }

 private:
  const std::byte* at_;
  const std::byte* end_;
};

}  // namespace hmann
