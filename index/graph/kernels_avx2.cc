#include <immintrin.h>

#include "index/graph/link_packing.h"

namespace hmann {
namespace {

/// Eight numbers take exactly `bits` bytes, so the constants serve all eights. Each half
/// of a register gets the 16 bytes from the first byte of its four numbers on; a number
/// and the bits before it must lie in four bytes.
constexpr std::uint32_t kMostBits = 25;

}  // namespace

void UnpackAvx2(const std::byte* list, std::uint32_t bits, std::uint32_t count,
                std::uint32_t* links) {
  if (bits > kMostBits) return UnpackScalar(list, bits, count, links);
  const std::uint32_t upper = bits * 4 / 8;
  const int low = 0, high = static_cast<int>(upper * 8);
  const __m256i bit =
      _mm256_sub_epi32(_mm256_mullo_epi32(_mm256_set1_epi32(static_cast<int>(bits)),
                                          _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
                       _mm256_setr_epi32(low, low, low, low, high, high, high, high));
  const __m256i byte = _mm256_mullo_epi32(_mm256_srli_epi32(bit, 3), _mm256_set1_epi32(0x01010101)),
                from = _mm256_add_epi32(byte, _mm256_set1_epi32(0x03020100)),
                shift = _mm256_and_si256(bit, _mm256_set1_epi32(7)),
                mask = _mm256_set1_epi32(static_cast<int>(~std::uint32_t{0} >> (32 - bits)));
  std::uint32_t done = 0;
  for (; done + 8 <= count; done += 8, list += bits) {
    const __m256i raw = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(list))),
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(list + upper)), 1);
    const __m256i numbers =
        _mm256_and_si256(_mm256_srlv_epi32(_mm256_shuffle_epi8(raw, from), shift), mask);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(links + done), numbers);
  }
  UnpackScalar(list, bits, count - done, links + done);
}

}  // namespace hmann
