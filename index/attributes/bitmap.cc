#include "index/attributes/bitmap.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "index/base/bits.h"
#include "index/base/errors.h"

namespace hmann {
namespace {

constexpr std::uint32_t kWithRuns = 12347, kWithoutRuns = 12346, kOffsetsFrom = 4;
constexpr std::uint32_t kMostOfArray = 4096, kBitsetWords = 1024;

std::vector<std::byte> PlainBytes(const roaring_bitmap_t& bitmap) {
  std::vector<std::byte> bytes(roaring_bitmap_portable_size_in_bytes(&bitmap));
  roaring_bitmap_portable_serialize(&bitmap, reinterpret_cast<char*>(bytes.data()));
  return bytes;
}

/// Reads all containers.
const char* ReadWords(std::span<const std::byte> bytes, std::uint64_t n,
                      std::span<std::uint64_t> words) {
  BitmapReader reader(bytes, n);
  const char* fault = reader.Start();
  while (fault == nullptr && !reader.Done()) fault = reader.Read(words, nullptr);
  return fault;
}

constexpr const char* kCutShort = "it is cut short";
constexpr const char* kNoVector = "it has an id that is no vector";
constexpr const char* kOtherNumber = "a container has not its number of ids";

}  // namespace

const char* BitmapReader::Start() {
  std::uint32_t cookie = 0;
  if (!Take(&cookie)) return kCutShort;
  if ((cookie & 0xffff) == kWithRuns) {
    size_ = (cookie >> 16) + 1;
    runs_at_ = static_cast<std::uint32_t>(at_);
    at_ += (size_ + 7) / 8;
  } else if (cookie != kWithoutRuns || !Take(&size_) || size_ > kContainer) {
    return "it has no header";
  }
  heads_at_ = static_cast<std::uint32_t>(at_);
  at_ += std::uint64_t{size_} * 4;
  if (at_ > bytes_.size()) return kCutShort;
  if (runs_at_ == 0 || size_ >= kOffsetsFrom) at_ += std::uint64_t{size_} * 4;
  return size_ == 0 ? AtEnd() : nullptr;
}

bool BitmapReader::TakeBytes(void* to, std::size_t count) {
  if (at_ > bytes_.size() || count > bytes_.size() - at_) return false;
  if (count > 0) std::memcpy(to, bytes_.data() + at_, count);
  at_ += count;
  return true;
}

std::uint16_t BitmapReader::Head(std::uint32_t container, std::uint32_t part) const {
  std::uint16_t value = 0;
  std::memcpy(&value, bytes_.data() + heads_at_ + container * 4 + part * 2, sizeof(value));
  return value;
}

bool BitmapReader::IsRun() const {
  return runs_at_ != 0 &&
         (static_cast<unsigned>(bytes_[runs_at_ + next_ / 8]) >> next_ % 8 & 1) != 0;
}

bool BitmapReader::InRange(std::uint32_t low) const {
  return (std::uint64_t{key()} << 16 | low) < n_;
}

const char* BitmapReader::Read(std::span<std::uint64_t> words, std::vector<std::uint16_t>* ids) {
  if (!words.empty()) words = words.subspan(std::min(words.size(), std::size_t{key()} << 10));
  const char* fault = IsRun() ? ReadRuns(words, ids) : ReadIds(words, ids);
  return fault != nullptr ? fault : Advance();
}

const char* BitmapReader::Skip() {
  const std::uint32_t cardinality = Head(next_, 1) + 1u;
  std::uint16_t runs = 0;
  if (IsRun() && !Take(&runs)) return kCutShort;
  at_ += IsRun() ? runs * 4u : cardinality <= kMostOfArray ? cardinality * 2 : kBitsetWords * 8;
  return Advance();
}

const char* BitmapReader::Advance() {
  if (++next_ == size_) return AtEnd();
  return Head(next_ - 1, 0) < key() ? nullptr : "its containers are not in order";
}

const char* BitmapReader::AtEnd() const {
  if (at_ > bytes_.size()) return kCutShort;
  return at_ == bytes_.size() ? nullptr : "it is longer than its containers";
}

const char* BitmapReader::ReadRuns(std::span<std::uint64_t> words,
                                   std::vector<std::uint16_t>* ids) {
  std::uint16_t count = 0;
  if (!Take(&count)) return kCutShort;
  std::uint32_t next = 0, total = 0;  // the least start of the next run
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint16_t run[2];  // start, length - 1
    if (!Take(&run)) return kCutShort;
    const std::uint32_t last = std::uint32_t{run[0]} + run[1];
    if (last > 0xffff) return "a run leaves its container";
    if (i > 0 && run[0] <= next) return "its runs are not in order";
    next = last + 1;
    total += run[1] + 1u;
    if (!InRange(last)) return kNoVector;
    for (std::uint32_t id = run[0]; !words.empty() && id <= last; ++id)
      words[id / 64] |= std::uint64_t{1} << id % 64;
    for (std::uint32_t id = run[0]; ids != nullptr && id <= last; ++id)
      ids->push_back(static_cast<std::uint16_t>(id));
  }
  return total == Head(next_, 1) + 1u ? nullptr : kOtherNumber;
}

const char* BitmapReader::ReadIds(std::span<std::uint64_t> words, std::vector<std::uint16_t>* ids) {
  const std::uint32_t cardinality = Head(next_, 1) + 1u;
  if (cardinality <= kMostOfArray) {
    std::vector<std::uint16_t> all(cardinality);
    if (!TakeBytes(all.data(), all.size() * 2)) return kCutShort;
    if (std::adjacent_find(all.begin(), all.end(), std::greater_equal<>()) != all.end())
      return "its ids are not in order";
    if (!InRange(all.back())) return kNoVector;
    for (const std::uint16_t id : all) {
      if (!words.empty()) words[id / 64] |= std::uint64_t{1} << id % 64;
    }
    if (ids != nullptr) ids->insert(ids->end(), all.begin(), all.end());
    return nullptr;
  }
  std::vector<std::uint64_t> all(kBitsetWords);
  if (!TakeBytes(all.data(), all.size() * 8)) return kCutShort;
  std::uint32_t total = 0, last = 0;
  for (std::uint32_t w = 0; w < kBitsetWords; ++w) {
    total += CountBits(all[w]);
    if (all[w] != 0) last = w * 64 + static_cast<std::uint32_t>(std::bit_width(all[w])) - 1;
    for (std::uint64_t bits = ids != nullptr ? all[w] : 0; bits != 0; bits &= bits - 1)
      ids->push_back(
          static_cast<std::uint16_t>(w * 64 + static_cast<unsigned>(std::countr_zero(bits))));
  }
  if (total != cardinality) return kOtherNumber;
  if (!InRange(last)) return kNoVector;
  if (!words.empty()) std::copy_n(all.begin(), last / 64 + 1, words.begin());
  return nullptr;
}

const char* BitmapFault(std::span<const std::byte> bytes, std::uint64_t n) {
  return ReadWords(bytes, n, {});
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
  ReadWords(bytes, n_, words_);
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
