#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "index/base/checksum.h"
#include "index/base/chunked_checksum.h"
#include "index/format/header.h"

namespace hmann {

/// Byte offsets of header fields from FORMAT.md, for tests that write hostile files.
namespace header_offset {
constexpr std::size_t kMajor = 8, kMinor = 10, kEndianTag = 16, kHeaderSize = 20, kFileBytes = 40,
                      kContentHash = 48, kChecksum = 56, kN = 64, kN1 = 72, kDim = 80,
                      kRowBytes = 84, kM = 88, kDType = 96, kMetric = 97, kLabelBytes = 98,
                      kCodePlace = 99, kLayerCount = 100, kSectionCount = 112, kBits = 116,
                      kScalarBits = 768, kAlpha = 124, kLayers = 128, kSections = 1024;
}  // namespace header_offset

template <class T>
T Peek(std::span<const std::byte> file, std::size_t offset) {
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(value));
  return value;
}
template <class T>
void Poke(std::span<std::byte> file, std::size_t offset, T value) {
  std::memcpy(file.data() + offset, &value, sizeof(value));
}

/// Makes the header of a changed file (at least as long as a header) consistent: content
/// hash of the section table, header checksum. So tests and the fuzzer get past the
/// checksums to the later checks.
inline void ResealHeader(std::span<std::byte> file) {
  using namespace header_offset;
  const std::uint32_t count = std::min(Peek<std::uint32_t>(file, kSectionCount), kMaxSections);
  std::uint64_t words[4 * kMaxSections];
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto section = Peek<Section>(file, kSections + i * sizeof(Section));
    const std::uint64_t entry[] = {static_cast<std::uint64_t>(section.kind), section.layer,
                                   section.bytes, section.checksum};
    std::memcpy(words + std::size_t{4} * i, entry, sizeof(entry));
  }
  Poke(file, kContentHash, Checksum(words, std::size_t{32} * count));
  Poke(file, kChecksum, std::uint64_t{0});
  Poke(file, kChecksum, Checksum(file.data(), kBlockBytes));
}

/// The same, after resealing the checksums of all sections that lie inside the file.
inline void Reseal(std::span<std::byte> file) {
  using namespace header_offset;
  const std::uint32_t count = std::min(Peek<std::uint32_t>(file, kSectionCount), kMaxSections);
  for (std::uint32_t i = 0; i < count; ++i) {
    auto section = Peek<Section>(file, kSections + i * sizeof(Section));
    if (section.offset > file.size() || section.bytes > file.size() - section.offset) continue;
    ChunkedChecksum checksum;
    checksum.Append(file.data() + section.offset, section.bytes);
    section.checksum = checksum.Digest();
    Poke(file, kSections + i * sizeof(Section), section);
  }
  ResealHeader(file);
}

}  // namespace hmann
