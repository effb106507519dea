#include "index/label_filter.h"

#include <cstddef>
#include <utility>

#include "index/base/prefetch.h"
#include "index/base/random.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr std::uint64_t kBitsPerLabel = 10, kBlockBits = 512, kBitsSet = 7, kSeed = 1;

/// The block of a label, and which of its bits the label sets.
struct LabelBits {
  LabelBits(std::uint64_t label, std::uint64_t blocks)
      : block(RandomBelow(kSeed, label, blocks)), places(Random(kSeed + 1, label)) {}
  /// Calls use(word, bit) for each.
  template <typename Use>
  void ForEach(const Use& use) const {
    for (std::uint64_t i = 0, left = places; i < kBitsSet; ++i, left /= kBlockBits)
      use(block * 8 + left % kBlockBits / 64, std::uint64_t{1} << left % 64);
  }
  std::uint64_t block, places;
};

}  // namespace

absl::StatusOr<LabelFilter> LabelFilter::Build(std::span<const std::uint64_t> labels) {
  const std::uint64_t blocks = labels.size() * kBitsPerLabel / kBlockBits + 1;
  HMANN_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(blocks * kBlockBits / 8));
  auto* const words = reinterpret_cast<std::uint64_t*>(buffer.data());
  // Blocks are prefetched some labels before their turn.
  constexpr std::size_t kAhead = 16;
  for (std::size_t i = 0; i < labels.size() + kAhead; ++i) {
    if (i < labels.size())
      PrefetchLines(words + LabelBits(labels[i], blocks).block * 8, kCacheLineBytes);
    if (i < kAhead) continue;
    LabelBits(labels[i - kAhead], blocks).ForEach([&](std::uint64_t at, std::uint64_t bit) {
      words[at] |= bit;
    });
  }
  return LabelFilter(std::move(buffer));
}

bool LabelFilter::MayHave(std::uint64_t label) const {
  const auto* const words = reinterpret_cast<const std::uint64_t*>(words_.data());
  bool all = true;
  LabelBits(label, words_.size() * 8 / kBlockBits)
      .ForEach([&](std::uint64_t at, std::uint64_t bit) { all = all && (words[at] & bit) != 0; });
  return all;
}

}  // namespace hmann
