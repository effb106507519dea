#include "index/tiers/stream_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace hmann {

#if defined(__SSE2__)
namespace {
/// Less than a cache line, within one line.
void CopyAndFlush(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  if (bytes > 0) _mm_clflush(to);
}
}  // namespace

void StreamCopy(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const std::size_t head =
      std::min<std::size_t>(bytes, (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine);
  CopyAndFlush(to, from, head);
  std::size_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1),
                  c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  CopyAndFlush(to + at, from + at, bytes - at);
  _mm_sfence();
}
#else
void StreamCopy(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
#endif

}  // namespace hmann
