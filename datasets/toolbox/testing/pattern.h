/// For tests: contents of files.
#pragma once

#include <cstddef>
#include <string>

namespace hmann {

/// Returns bytes that differ from place to place and from seed to seed.
inline std::string Pattern(std::size_t bytes, char seed = 0) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i)
    text[i] = static_cast<char>(static_cast<char>(i * 131 + i / 251) + seed);
  return text;
}

}  // namespace hmann
