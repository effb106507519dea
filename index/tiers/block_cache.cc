#include "index/tiers/block_cache.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "index/base/buffer.h"
#include "index/base/check.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {

namespace {

constexpr std::uint64_t kPageBlocks = 64;
constexpr std::uint64_t kLeastPages = 8;
constexpr CachePolicy kPolicies[] = {CachePolicy::kNone, CachePolicy::kStatic,
                                     CachePolicy::kDynamic};

/// One thread's counts. The first kOwnTallies threads of the process each have their own
/// and need no atomic addition; the others share the last.
struct alignas(64) Tally {
  std::atomic<std::uint64_t> hits{0};
  std::atomic<std::uint64_t> misses{0};
};
constexpr std::uint32_t kOwnTallies = 64;

std::uint32_t ThreadNumber() {
  static std::atomic<std::uint32_t> next{0};
  thread_local const std::uint32_t number =
      std::min(next.fetch_add(1, std::memory_order_relaxed), kOwnTallies);
  return number;
}

/// Blocks that are flushed together. `pins`: readers that are copying from it.
struct alignas(64) Page {
  std::atomic<std::uint32_t> pins{0};
  std::uint32_t used = 0;
};

}  // namespace

std::string_view Name(CachePolicy policy) {
  constexpr std::string_view kNames[] = {"none", "static", "dynamic"};
  return kNames[static_cast<std::size_t>(policy)];
}

absl::StatusOr<CachePolicy> ParseCachePolicy(std::string_view name) {
  for (CachePolicy policy : kPolicies) {
    if (name == Name(policy)) return policy;
  }
  return InvalidArgument("cache policy: expected none, static or dynamic, found '",
                         absl::string_view(name.data(), name.size()), "'");
}

/// Pages are filled cyclically in numerical order: page `current + 1` is the oldest.
///
/// A reader adds its pin and then reads the entry again. The flusher clears the entries
/// of a page and then reads its pins by a read-modify-write. These two operations on one
/// atomic are ordered. Either the flusher sees the pin and leaves the page alone, or the
/// reader sees a miss. The entry that it sees is cleared, or is a newer one of the same
/// block in the same place.
struct BlockCache::Impl {
  std::uint64_t blocks = 0;
  std::uint32_t block_bytes = 0;
  std::uint64_t slots = 0;
  std::uint64_t page_blocks = 0;  ///< a power of two
  int page_shift = 0;             ///< its logarithm
  Buffer copies;                  ///< slots x block_bytes
  Buffer entries;                 ///< by block, u32: 0, or 1 + its slot
  Buffer marks;                   ///< one bit a block: it may have an entry. A thirty-second of the
                                  ///< entries: a miss stays in L2
  std::vector<std::uint64_t> owner;  ///< by slot: its block
  std::vector<Page> pages;
  Buffer met;         ///< u32, a power of two of them: 1 + the last block asked about here
  int met_shift = 0;  ///< from a hash of 64 bits to a place in `met`
  CachePolicy policy = CachePolicy::kNone;
  std::array<Tally, kOwnTallies + 1> tallies;

  std::mutex filling;  ///< guards `current`, Page::used, `owner`, writes of entries and copies
  std::uint64_t current = 0;
  std::atomic<std::uint64_t> filled{0}, flushed{0}, declined{0};

  std::atomic_ref<std::uint32_t> Entry(std::uint64_t block) {
    HMANN_CHECK(block < blocks);
    return std::atomic_ref(reinterpret_cast<std::uint32_t*>(entries.data())[block]);
  }
  std::atomic_ref<std::uint64_t> Mark(std::uint64_t block) {
    HMANN_CHECK(block < blocks);
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(marks.data())[block / 64]);
  }
  static std::uint64_t Bit(std::uint64_t block) { return std::uint64_t{1} << block % 64; }
  std::byte* Copy(std::uint64_t slot) { return copies.data() + slot * block_bytes; }
  std::uint64_t Room(std::uint64_t page) const {
    return std::min(page_blocks, slots - page * page_blocks) - pages[page].used;
  }

  void Count(std::atomic<std::uint64_t> Tally::*which) {
    const std::uint32_t thread = ThreadNumber();
    std::atomic<std::uint64_t>& count = tallies[thread].*which;
    if (thread < kOwnTallies) {
      count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    } else {
      count.fetch_add(1, std::memory_order_relaxed);
    }
  }

  void Flush(std::uint64_t number) {
    Page& page = pages[number];
    for (std::uint64_t i = 0; i < page.used; ++i) {
      const std::uint64_t block = owner[number * page_blocks + i];
      Entry(block).store(0, std::memory_order_relaxed);
      Mark(block).fetch_and(~Bit(block), std::memory_order_relaxed);
    }
    flushed.fetch_add(page.used, std::memory_order_relaxed);
    page.used = 0;
  }

  enum class Outcome { kTaken, kFull, kPinned };
  Outcome Take(std::uint64_t block, const std::byte* bytes, bool may_flush) {
    if (Entry(block).load(std::memory_order_relaxed) != 0) return Outcome::kTaken;
    if (Room(current) == 0) {
      const std::uint64_t next = (current + 1) % pages.size();
      if (pages[next].used != 0) {
        if (!may_flush) return Outcome::kFull;
        Flush(next);
      }
      if (pages[next].pins.fetch_add(0, std::memory_order_acq_rel) != 0) return Outcome::kPinned;
      current = next;
    }
    const std::uint64_t slot = current * page_blocks + pages[current].used++;
    std::memcpy(Copy(slot), bytes, block_bytes);
    owner[slot] = block;
    Entry(block).store(static_cast<std::uint32_t>(slot + 1), std::memory_order_release);
    Mark(block).fetch_or(Bit(block), std::memory_order_relaxed);
    filled.fetch_add(1, std::memory_order_relaxed);
    return Outcome::kTaken;
  }
};

BlockCache::BlockCache(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BlockCache::~BlockCache() = default;

absl::StatusOr<std::unique_ptr<BlockCache>> BlockCache::Make(std::uint64_t blocks,
                                                             std::uint32_t block_bytes,
                                                             std::uint64_t capacity_bytes,
                                                             CachePolicy policy) {
  if (blocks == 0 || block_bytes == 0 || policy == CachePolicy::kNone)
    return InvalidArgument("cache: no blocks to hold, or no policy");
  if (capacity_bytes < block_bytes) {
    return InvalidArgument("cache: expected room for a block of ", block_bytes, " bytes, found ",
                           capacity_bytes, " bytes");
  }
  const std::uint64_t slots = std::min(blocks, capacity_bytes / block_bytes);
  if (slots >= std::numeric_limits<std::uint32_t>::max() ||
      blocks > std::numeric_limits<std::uint64_t>::max() / sizeof(std::uint32_t)) {
    return InvalidArgument("cache: expected fewer than 2^32 copies, found ", blocks, " blocks of ",
                           block_bytes, " bytes in ", FormatSize(capacity_bytes));
  }
  auto impl = std::make_unique<Impl>();
  impl->blocks = blocks;
  impl->block_bytes = block_bytes;
  impl->slots = slots;
  impl->page_blocks =
      std::bit_floor(std::clamp<std::uint64_t>(slots / kLeastPages, 1, kPageBlocks));
  impl->page_shift = std::countr_zero(impl->page_blocks);
  HMANN_ASSIGN_OR_RETURN(impl->copies, Buffer::Allocate(slots * block_bytes));
  HMANN_ASSIGN_OR_RETURN(impl->entries, Buffer::Allocate(blocks * sizeof(std::uint32_t)));
  HMANN_ASSIGN_OR_RETURN(impl->marks, Buffer::Allocate((blocks + 63) / 64 * sizeof(std::uint64_t)));
  impl->owner.resize(slots);
  impl->pages = std::vector<Page>((slots + impl->page_blocks - 1) / impl->page_blocks);
  if (policy == CachePolicy::kDynamic) {
    const std::uint64_t places = std::bit_ceil(2 * slots);  // twice is a guess
    HMANN_ASSIGN_OR_RETURN(impl->met, Buffer::Allocate(places * sizeof(std::uint32_t)));
    impl->met_shift = 64 - std::countr_zero(places);
  }
  impl->policy = policy;
  return std::unique_ptr<BlockCache>(new BlockCache(std::move(impl)));
}

CachePolicy BlockCache::policy() const { return impl_->policy; }

bool BlockCache::Read(std::uint64_t block, std::uint32_t offset, std::span<std::byte> out) {
  Impl& impl = *impl_;
  if ((impl.Mark(block).load(std::memory_order_relaxed) & Impl::Bit(block)) == 0) {
    impl.Count(&Tally::misses);
    return false;
  }
  const auto entry = impl.Entry(block);
  const std::uint32_t found = entry.load(std::memory_order_relaxed);
  if (found == 0) {
    impl.Count(&Tally::misses);
    return false;
  }
  HMANN_CHECK(offset <= impl.block_bytes && out.size() <= impl.block_bytes - offset);
  const std::uint64_t slot = found - 1;
  Page& page = impl.pages[slot >> impl.page_shift];
  page.pins.fetch_add(1, std::memory_order_acq_rel);
  const bool here = entry.load(std::memory_order_acquire) == found;
  if (here && !out.empty()) std::memcpy(out.data(), impl.Copy(slot) + offset, out.size());
  page.pins.fetch_sub(1, std::memory_order_release);
  impl.Count(here ? &Tally::hits : &Tally::misses);
  return here;
}

bool BlockCache::Wants(std::uint64_t block) {
  if (policy() != CachePolicy::kDynamic) return false;
  if (impl_->filled.load(std::memory_order_relaxed) < impl_->slots) return true;
  const std::uint64_t place = block * 0x9e3779b97f4a7c15 >> impl_->met_shift;
  const std::atomic_ref met(reinterpret_cast<std::uint32_t*>(impl_->met.data())[place]);
  const auto number = static_cast<std::uint32_t>(block + 1);
  if (met.load(std::memory_order_relaxed) == number) return true;
  met.store(number, std::memory_order_relaxed);
  return false;
}

void BlockCache::Offer(std::uint64_t block, const std::byte* bytes) {
  if (policy() != CachePolicy::kDynamic) return;
  std::unique_lock lock(impl_->filling, std::try_to_lock);
  if (!lock || impl_->Take(block, bytes, /*may_flush=*/true) == Impl::Outcome::kPinned) {
    impl_->declined.fetch_add(1, std::memory_order_relaxed);
  }
}

bool BlockCache::Fill(std::uint64_t block, const std::byte* bytes) {
  const std::lock_guard lock(impl_->filling);
  Impl::Outcome outcome;
  while ((outcome = impl_->Take(block, bytes, /*may_flush=*/false)) == Impl::Outcome::kPinned)
    std::this_thread::yield();
  return outcome == Impl::Outcome::kTaken;
}

BlockCache::Stats BlockCache::stats() const {
  const Impl& impl = *impl_;
  Stats stats;
  for (const Tally& tally : impl.tallies) {
    stats.hits += tally.hits.load(std::memory_order_relaxed);
    stats.misses += tally.misses.load(std::memory_order_relaxed);
  }
  stats.flushed = impl.flushed.load(std::memory_order_relaxed);
  stats.filled = impl.filled.load(std::memory_order_relaxed);
  stats.declined = impl.declined.load(std::memory_order_relaxed);
  stats.capacity_bytes = impl.slots * impl.block_bytes;
  stats.used_bytes = (std::max(stats.filled, stats.flushed) - stats.flushed) * impl.block_bytes;
  stats.index_bytes = impl.entries.size() + impl.marks.size() + impl.met.size() +
                      impl.owner.size() * sizeof(impl.owner[0]) + impl.pages.size() * sizeof(Page) +
                      sizeof(impl.tallies);
  return stats;
}

std::vector<std::uint64_t> MostUsedBlocks(std::span<const std::uint32_t> uses,
                                          std::uint64_t limit) {
  std::vector<std::uint64_t> order;
  for (std::uint64_t block = 0; block < uses.size(); ++block) {
    if (uses[block] != 0) order.push_back(block);
  }
  const auto better = [&](std::uint64_t a, std::uint64_t b) {
    return uses[a] != uses[b] ? uses[a] > uses[b] : a < b;
  };
  const auto end =
      order.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(limit, order.size()));
  std::partial_sort(order.begin(), end, order.end(), better);
  order.erase(end, order.end());
  return order;
}

}  // namespace hmann
