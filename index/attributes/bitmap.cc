#include "index/attributes/bitmap.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "index/base/bits.h"
#include "index/base/errors.h"

namespace hmann {
namespace {

/// Reads the portable format of Roaring, of which nothing is believed.
class BitmapChecker {
 public:
  /// Sets the bits of ids in `words`, unless it is empty.
  BitmapChecker(std::span<const std::byte> bytes, std::uint64_t n,
                std::span<std::uint64_t> words = {})
      : bytes_(bytes), n_(n), words_(words) {}

  const char* Fault() {
    constexpr const char* kShort = "it is cut short";
    std::uint32_t cookie = 0, size = 0;
    if (!Take(&cookie)) return kShort;
    std::vector<std::uint8_t> runs;
    if ((cookie & 0xffff) == kWithRuns) {
      size = (cookie >> 16) + 1;
      runs.resize((size + 7) / 8);
      if (!TakeBytes(runs.data(), runs.size())) return kShort;
    } else if (cookie != kWithoutRuns || !Take(&size) || size > 1u << 16) {
      return "it has no header";
    }
    std::vector<std::uint16_t> heads(std::size_t{size} * 2);  // key, cardinality - 1
    if (!TakeBytes(heads.data(), heads.size() * 2)) return kShort;
    if (runs.empty() || size >= kOffsetsFrom) at_ += std::uint64_t{size} * 4;
    for (std::uint32_t i = 0; i < size; ++i) {
      const std::uint16_t key = heads[std::size_t{i} * 2];
      if (i > 0 && key <= heads[std::size_t{i} * 2 - 2]) return "its containers are not in order";
      const bool is_run = !runs.empty() && (runs[i / 8] >> i % 8 & 1) != 0;
      const char* fault = is_run ? RunFault(key, heads[std::size_t{i} * 2 + 1] + 1u)
                                 : ContainerFault(key, heads[std::size_t{i} * 2 + 1] + 1u);
      if (fault != nullptr) return fault;
    }
    return at_ == bytes_.size() ? nullptr : "it is longer than its containers";
  }

 private:
  static constexpr std::uint32_t kWithRuns = 12347, kWithoutRuns = 12346, kOffsetsFrom = 4;
  static constexpr std::uint32_t kMostOfArray = 4096, kBitsetWords = 1024;

  bool TakeBytes(void* to, std::size_t count) {
    if (at_ > bytes_.size() || count > bytes_.size() - at_) return false;
    if (count > 0) std::memcpy(to, bytes_.data() + at_, count);
    at_ += count;
    return true;
  }
  template <typename T>
  bool Take(T* value) {
    return TakeBytes(value, sizeof(T));
  }
  void Set(std::uint16_t key, std::uint32_t low) {
    words_[(std::size_t{key} << 10) + low / 64] |= std::uint64_t{1} << low % 64;
  }
  const char* InRange(std::uint16_t key, std::uint32_t low) const {
    return (std::uint64_t{key} << 16 | low) < n_ ? nullptr : "it has an id that is no vector";
  }

  const char* RunFault(std::uint16_t key, std::uint32_t cardinality) {
    std::uint16_t count = 0;
    if (!Take(&count)) return "it is cut short";
    std::uint32_t next = 0, total = 0;  // the least start of the next run
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint16_t run[2];  // start, length - 1
      if (!Take(&run)) return "it is cut short";
      const std::uint32_t last = std::uint32_t{run[0]} + run[1];
      if (last > 0xffff) return "a run leaves its container";
      if (i > 0 && run[0] <= next) return "its runs are not in order";
      next = last + 1;
      total += run[1] + 1u;
      if (const char* fault = InRange(key, last); fault != nullptr) return fault;
      for (std::uint32_t id = run[0]; !words_.empty() && id <= last; ++id) Set(key, id);
    }
    return total == cardinality ? nullptr : "a container has not its number of ids";
  }

  const char* ContainerFault(std::uint16_t key, std::uint32_t cardinality) {
    if (cardinality <= kMostOfArray) {
      std::vector<std::uint16_t> ids(cardinality);
      if (!TakeBytes(ids.data(), ids.size() * 2)) return "it is cut short";
      if (std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) != ids.end())
        return "its ids are not in order";
      const char* fault = InRange(key, ids.back());
      if (fault == nullptr && !words_.empty()) {
        for (const std::uint16_t id : ids) Set(key, id);
      }
      return fault;
    }
    std::vector<std::uint64_t> words(kBitsetWords);
    if (!TakeBytes(words.data(), words.size() * 8)) return "it is cut short";
    std::uint32_t total = 0, last = 0;
    for (std::uint32_t w = 0; w < kBitsetWords; ++w) {
      total += CountBits(words[w]);
      if (words[w] != 0) last = w * 64 + static_cast<std::uint32_t>(std::bit_width(words[w])) - 1;
    }
    if (total != cardinality) return "a container has not its number of ids";
    const char* fault = InRange(key, last);
    if (fault == nullptr && !words_.empty())
      std::copy_n(words.begin(), last / 64 + 1, words_.begin() + (std::ptrdiff_t{key} << 10));
    return fault;
  }

  std::span<const std::byte> bytes_;
  std::uint64_t n_, at_ = 0;
  std::span<std::uint64_t> words_;
};

std::vector<std::byte> PlainBytes(const roaring_bitmap_t& bitmap) {
  std::vector<std::byte> bytes(roaring_bitmap_portable_size_in_bytes(&bitmap));
  roaring_bitmap_portable_serialize(&bitmap, reinterpret_cast<char*>(bytes.data()));
  return bytes;
}

}  // namespace

const char* BitmapFault(std::span<const std::byte> bytes, std::uint64_t n) {
  return BitmapChecker(bytes, n).Fault();
}

absl::StatusOr<Roaring> ReadBitmap(std::span<const std::byte> bytes, std::uint64_t n) {
  if (const char* fault = BitmapFault(bytes, n); fault != nullptr) return DataLoss(fault);
  Roaring bitmap(roaring_bitmap_portable_deserialize_safe(
      reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  if (bitmap == nullptr) return DataLoss("it cannot be read");
  return bitmap;
}

Roaring BitmapOfWords(std::span<const std::uint64_t> words) {
  constexpr std::size_t kWords = 1024;  // of a container
  Roaring bitmap(roaring_bitmap_create());
  std::vector<std::uint32_t> ids;
  for (std::size_t first = 0; first < words.size(); first += kWords) {
    ids.clear();
    for (std::size_t i = first; i < std::min(first + kWords, words.size()); ++i) {
      for (std::uint64_t word = words[i]; word != 0; word &= word - 1)
        ids.push_back(static_cast<std::uint32_t>(i * 64) +
                      static_cast<std::uint32_t>(std::countr_zero(word)));
    }
    roaring_bitmap_add_many(bitmap.get(), ids.size(), ids.data());
  }
  return bitmap;
}

std::vector<std::byte> BitmapBytes(roaring_bitmap_t& bitmap) {
  roaring_bitmap_run_optimize(&bitmap);
  return PlainBytes(bitmap);
}

IdSet IdSet::Of(std::uint64_t n, std::vector<std::uint32_t> ids) {
  // Setting bits is cheaper than sorting, unless the words are many. A guess.
  constexpr std::uint64_t kSparse = 1024;
  if (ids.size() < n / kSparse) {
    std::sort(ids.begin(), ids.end());
    return {n, Roaring(roaring_bitmap_of_ptr(ids.size(), ids.data()))};
  }
  std::vector<std::uint64_t> words((n + 63) / 64);
  for (const std::uint32_t id : ids) words[id / 64] |= std::uint64_t{1} << id % 64;
  return {n, std::move(words)};
}

std::uint64_t IdSet::MostIds() const {
  return is_dense() ? n_ : roaring_bitmap_get_cardinality(bitmap_.get());
}

std::vector<std::uint32_t> IdSet::Ids() const {
  std::vector<std::uint32_t> ids(is_dense() ? 0 : MostIds());
  if (!ids.empty()) roaring_bitmap_to_uint32_array(bitmap_.get(), ids.data());
  return ids;
}

void IdSet::MakeDense() {
  if (is_dense()) return;
  words_.assign((n_ + 63) / 64, 0);
  // Its bytes are read faster than its iterator tells the ids.
  const std::vector<std::byte> bytes = PlainBytes(*bitmap_);
  BitmapChecker(bytes, n_, words_).Fault();
  bitmap_ = nullptr;
}

void IdSet::Combine(IdSet other, void (*compressed)(roaring_bitmap_t*, const roaring_bitmap_t*),
                    std::uint64_t (*word)(std::uint64_t, std::uint64_t)) {
  if (!is_dense() && !other.is_dense()) return compressed(bitmap_.get(), other.bitmap_.get());
  MakeDense();
  other.MakeDense();
  std::transform(words_.begin(), words_.end(), other.words_.begin(), words_.begin(), word);
}

void IdSet::And(IdSet other) {
  Combine(std::move(other), roaring_bitmap_and_inplace,
          [](std::uint64_t a, std::uint64_t b) { return a & b; });
}

void IdSet::Or(IdSet other) {
  Combine(std::move(other), roaring_bitmap_or_inplace,
          [](std::uint64_t a, std::uint64_t b) { return a | b; });
}

void IdSet::Not() {
  MakeDense();
  for (std::uint64_t& word : words_) word = ~word;
}

std::vector<std::uint64_t> IdSet::TakeWords() && {
  MakeDense();
  return std::move(words_);
}

}  // namespace hmann
