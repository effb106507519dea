#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/cache_policy.h"

namespace hmann {

/// Copies of slow blocks in fast memory, for all queries: the paper's migration space,
/// and the pointer-tag cache of CachedEmbeddings (Hildebrand's dissertation, ch. 5).
/// Indexed by block; takes four bytes a block of the slow structure. Thread-safe; Read
/// and Offer do not block each other.
///
/// static: filled once, by degree or by a profile, then never changed. dynamic: filled by
/// use. Space is allocated by page in FIFO order (a page is 64 blocks, fewer in a cache
/// of less than 512). A page is flushed as a whole when its turn comes.
///
/// A miss costs a relaxed load of a bit. A hit pins its page while it copies. Offer never
/// waits for a pin: it declines the block.
class BlockCache {
 public:
  struct Stats {
    std::uint64_t hits = 0, misses = 0;  ///< of Read
    std::uint64_t filled = 0;            ///< copies made, by Fill or Offer
    std::uint64_t flushed = 0;           ///< copies dropped
    std::uint64_t declined = 0;          ///< another offer in flight, or page being read
    std::uint64_t capacity_bytes = 0, used_bytes = 0;
    std::uint64_t index_bytes = 0;  ///< beyond the capacity: entries, owners, pages
  };

  /// `blocks` blocks of `block_bytes` bytes are cacheable. Copies take at most
  /// `capacity_bytes`, in addition to the index. Errors: INVALID_ARGUMENT (no block,
  /// capacity below one block or of 2^32 blocks and more, no policy), RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<BlockCache>> Make(std::uint64_t blocks,
                                                          std::uint32_t block_bytes,
                                                          std::uint64_t capacity_bytes,
                                                          CachePolicy policy);
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  CachePolicy policy() const;

  /// Copies bytes [offset, offset + out.size()) of the block if it is here; otherwise
  /// leaves `out` unchanged and returns false.
  bool Read(std::uint64_t block, std::uint32_t offset, std::span<std::byte> out);
  /// Whether a copy of this block is worth making, which Offer does not ask. dynamic: as
  /// long as no page had to be flushed, always; then if it was asked about before, and
  /// fewer than about twice as many others as there is room for since. Others: never.
  bool Wants(std::uint64_t block);
  /// Offers a block that was just read from the slow tier (all block_bytes of it).
  /// dynamic: makes a copy. Other policies: ignores it.
  void Offer(std::uint64_t block, const std::byte* bytes);
  /// Makes a copy while there is room, under every policy; replaces nothing. True: the
  /// block is here now; false: there is no room.
  bool Fill(std::uint64_t block, const std::byte* bytes);

  Stats stats() const;

 private:
  struct Impl;
  explicit BlockCache(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The best order in which to fill a static cache: the `limit` blocks with the highest
/// counts, most used first, ties by number. `uses`: by block, a profile's count of reads,
/// or another measure (the in-degree of its nodes). Blocks with count 0 are left out.
std::vector<std::uint64_t> MostUsedBlocks(std::span<const std::uint32_t> uses, std::uint64_t limit);

}  // namespace hmann
