#pragma once

#include <roaring/roaring.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace hmann {

struct FreeRoaring {
  void operator()(roaring_bitmap_t* bitmap) const { roaring_bitmap_free(bitmap); }
};
/// A compressed set of ids.
using Roaring = std::unique_ptr<roaring_bitmap_t, FreeRoaring>;

/// Reads a bitmap in the portable format of Roaring, of which nothing is believed. Its
/// containers have the ids of a range of 65,536 each. Functions return the fault;
/// nullptr: none.
class BitmapReader {
 public:
  static constexpr std::uint32_t kContainer = 1 << 16;

  /// The ids must be below n.
  BitmapReader(std::span<const std::byte> bytes, std::uint64_t n) : bytes_(bytes), n_(n) {}
  /// Call it first.
  const char* Start();
  bool Done() const { return next_ == size_; }
  /// The ids of the next container are this times kContainer, and above.
  std::uint16_t key() const { return Head(next_, 0); }
  /// Reads the next container. Sets the bits of its ids in `words`, which are those of
  /// all n ids, and appends the ids, less their range's first, to `ids`. Either may be
  /// empty or nullptr.
  const char* Read(std::span<std::uint64_t> words, std::vector<std::uint16_t>* ids);
  const char* Skip();

 private:
  bool TakeBytes(void* to, std::size_t count);
  template <typename T>
  bool Take(T* value) {
    return TakeBytes(value, sizeof(T));
  }
  std::uint16_t Head(std::uint32_t container, std::uint32_t part) const;
  bool IsRun() const;
  bool InRange(std::uint32_t low) const;
  const char* ReadRuns(std::span<std::uint64_t> words, std::vector<std::uint16_t>* ids);
  const char* ReadIds(std::span<std::uint64_t> words, std::vector<std::uint16_t>* ids);
  const char* Advance();
  const char* AtEnd() const;

  std::span<const std::byte> bytes_;
  std::uint64_t n_, at_ = 0;
  std::uint32_t size_ = 0, next_ = 0;         ///< containers
  std::uint32_t runs_at_ = 0, heads_at_ = 0;  ///< places; no runs: 0
};

/// The fault of the bytes of a bitmap in the portable format: containers out of order,
/// ids from n on, sizes that do not agree. nullptr: none.
const char* BitmapFault(std::span<const std::byte> bytes, std::uint64_t n);
/// Reads a bitmap whose ids must be below n. Errors: DATA_LOSS with its fault.
absl::StatusOr<Roaring> ReadBitmap(std::span<const std::byte> bytes, std::uint64_t n);
/// The ids of a bitset's words, 64 ids each.
Roaring BitmapOfWords(std::span<const std::uint64_t> words);
/// The bytes of a bitmap in the portable format. It gets run containers where these are
/// smaller.
std::vector<std::byte> BitmapBytes(roaring_bitmap_t& bitmap);

/// A set of ids below n that a filter selects: compressed, or a bit for each id.
class IdSet {
 public:
  IdSet(std::uint64_t n, Roaring bitmap) : n_(n), bitmap_(std::move(bitmap)) {}
  IdSet(std::uint64_t n, std::vector<std::uint64_t> words) : n_(n), words_(std::move(words)) {}
  /// The set of `ids`, in any order, each below n.
  static IdSet Of(std::uint64_t n, std::vector<std::uint32_t> ids);

  /// An upper limit of the number of ids.
  std::uint64_t MostIds() const;
  /// The ids of a compressed set, which MostIds counts; none of a dense one.
  std::vector<std::uint32_t> Ids() const;
  void And(IdSet other);
  void Or(IdSet other);
  void Not();
  /// A bit for each id: (n + 63) / 64 words; bits from n on are undefined.
  std::vector<std::uint64_t> TakeWords() &&;

 private:
  bool is_dense() const { return bitmap_ == nullptr; }
  void MakeDense();
  void Combine(IdSet other, void (*compressed)(roaring_bitmap_t*, const roaring_bitmap_t*),
               std::uint64_t (*word)(std::uint64_t, std::uint64_t));

  std::uint64_t n_;
  Roaring bitmap_;                    ///< or else
  std::vector<std::uint64_t> words_;  ///< by id
};

}  // namespace hmann
