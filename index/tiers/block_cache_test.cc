#include "index/tiers/block_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <limits>
#include <numeric>
#include <set>
#include <thread>

#include "absl/strings/str_format.h"
#include "index/base/random.h"
#include "index/base/units.h"
#include "index/tiers/testing/access_streams.h"

namespace hmann {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Bytes = std::vector<std::byte>;

#if defined(__SANITIZE_THREAD__)
constexpr int kRounds = 20'000;
#else
constexpr int kRounds = 600'000;
#endif

/// The content of block `block`; no two blocks are alike.
Bytes Content(std::uint64_t block, std::size_t bytes) {
  Bytes content(bytes);
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = Random(block, i);
    std::memcpy(content.data() + i, &word, std::min<std::size_t>(8, bytes - i));
  }
  return content;
}

std::unique_ptr<BlockCache> MakeCache(std::uint64_t blocks, std::uint32_t block_bytes,
                                      std::uint64_t held, CachePolicy policy) {
  auto cache = BlockCache::Make(blocks, block_bytes, held * block_bytes, policy);
  EXPECT_TRUE(cache.ok()) << cache.status();
  return *std::move(cache);
}

/// 1: a hit with exactly the block's bytes; 0: a miss that changed nothing; -1: anything
/// else.
int Look(BlockCache& cache, std::uint64_t block, std::uint32_t block_bytes, std::uint32_t offset,
         std::size_t bytes) {
  Bytes out(bytes, std::byte{0xa5});
  if (!cache.Read(block, offset, out)) return out == Bytes(bytes, std::byte{0xa5}) ? 0 : -1;
  const Bytes content = Content(block, block_bytes);
  return std::equal(out.begin(), out.end(), content.begin() + offset) ? 1 : -1;
}

/// A simple model of the cache: the content of each page, in the order of filling.
class Model {
 public:
  Model(std::uint64_t held, std::uint64_t page_blocks) : held_(held), page_blocks_(page_blocks) {}

  bool Has(std::uint64_t block) const {
    return std::any_of(pages_.begin(), pages_.end(),
                       [&](const auto& page) { return page.blocks.contains(block); });
  }
  std::uint64_t used() const {
    std::uint64_t sum = 0;
    for (const auto& page : pages_) sum += page.blocks.size();
    return sum;
  }
  /// False: there is no room, and none may be made.
  bool Take(std::uint64_t block, bool may_flush) {
    if (Has(block)) return true;
    if (pages_.empty() || pages_.back().blocks.size() == pages_.back().capacity) {
      if (reserved_ == held_) {
        if (!may_flush) return false;
        reserved_ -= pages_.front().capacity;
        const std::uint64_t capacity = pages_.front().capacity;
        pages_.pop_front();
        pages_.push_back({capacity, {}});
      } else {
        pages_.push_back({std::min(page_blocks_, held_ - reserved_), {}});
      }
      reserved_ += pages_.back().capacity;
    }
    pages_.back().blocks.insert(block);
    return true;
  }

 private:
  struct Page {
    std::uint64_t capacity;
    std::set<std::uint64_t> blocks;
  };
  std::uint64_t held_, page_blocks_, reserved_ = 0;
  std::deque<Page> pages_;
};

struct Shape {
  std::uint64_t blocks;
  std::uint32_t block_bytes;
  std::uint64_t held;
  std::uint64_t page_blocks;
};

void CompareWithModel(const Shape& shape, std::uint64_t seed) {
  const auto cache = MakeCache(shape.blocks, shape.block_bytes, shape.held, CachePolicy::kDynamic);
  Model model(shape.held, shape.page_blocks);
  for (std::uint64_t step = 0; step < 20'000; ++step) {
    SCOPED_TRACE(absl::StrFormat("seed %d step %d", seed, step));
    const std::uint64_t block = RandomBelow(seed, 4 * step, shape.blocks);
    const std::uint64_t action = RandomBelow(seed, 4 * step + 1, 1000);
    if (action < 300) {
      cache->Offer(block, Content(block, shape.block_bytes).data());
      model.Take(block, true);
    } else if (action < 400) {
      ASSERT_EQ(cache->Fill(block, Content(block, shape.block_bytes).data()),
                model.Take(block, false));
    } else {
      const auto offset =
          static_cast<std::uint32_t>(RandomBelow(seed, 4 * step + 2, shape.block_bytes + 1));
      const std::uint64_t bytes = RandomBelow(seed, 4 * step + 3, shape.block_bytes - offset + 1);
      ASSERT_EQ(Look(*cache, block, shape.block_bytes, offset, bytes), model.Has(block));
    }
    ASSERT_EQ(cache->stats().used_bytes, model.used() * shape.block_bytes);
  }
  for (std::uint64_t block = 0; block < shape.blocks; ++block) {
    ASSERT_EQ(Look(*cache, block, shape.block_bytes, 0, shape.block_bytes), model.Has(block))
        << block << " seed " << seed;
  }
  const BlockCache::Stats stats = cache->stats();
  EXPECT_EQ(stats.filled - stats.flushed, model.used());
  EXPECT_LE(stats.used_bytes, stats.capacity_bytes);
  EXPECT_EQ(stats.declined, 0u);
}

TEST(BlockCache, HoldsExactlyWhatAPlainModelHolds) {
  for (const Shape& shape :
       {Shape{40, 24, 1, 1}, Shape{40, 64, 7, 1}, Shape{100, 13, 20, 2}, Shape{300, 8, 100, 8},
        Shape{3000, 64, 1111, 64}, Shape{50, 16, 50, 4}}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed)
      ASSERT_NO_FATAL_FAILURE(CompareWithModel(shape, seed)) << shape.held;
  }
}

TEST(BlockCache, PagesAreFlushedWholeAndOldestFirst) {
  constexpr std::uint64_t kHeld = 1024, kPage = 64;
  const auto cache = MakeCache(1 << 20, 8, kHeld, CachePolicy::kDynamic);
  for (std::uint64_t block = 0; block < 5 * kHeld; ++block) {
    cache->Offer(block, Content(block, 8).data());
    const std::uint64_t oldest = block < kHeld ? 0 : (block / kPage + 1) * kPage - kHeld;
    ASSERT_EQ(Look(*cache, oldest, 8, 0, 8), 1) << block;
    if (oldest != 0) {
      ASSERT_EQ(Look(*cache, oldest - 1, 8, 0, 8), 0) << block;
    }
    ASSERT_EQ(cache->stats().used_bytes, (block + 1 - oldest) * 8);
  }
  EXPECT_EQ(cache->stats().flushed, 4 * kHeld);
}

TEST(BlockCache, OnceItIsFullItWantsWhatComesAgainSoon) {
  constexpr std::uint64_t kHeld = 64;
  const auto cache = MakeCache(10'000, 8, kHeld, CachePolicy::kDynamic);
  for (std::uint64_t block = 0; block < kHeld; ++block) {
    EXPECT_TRUE(cache->Wants(block)) << "there is room";
    cache->Offer(block, Content(block, 8).data());
  }
  EXPECT_FALSE(cache->Wants(1000));
  EXPECT_TRUE(cache->Wants(1000));
  for (std::uint64_t block = 2000; block < 2000 + 100 * kHeld; ++block) cache->Wants(block);
  EXPECT_FALSE(cache->Wants(1000)) << "too many others came since";
  EXPECT_FALSE(MakeCache(100, 8, 10, CachePolicy::kStatic)->Wants(1));
}

TEST(BlockCache, AStaticCacheIsFilledOnceAndNeverChanges) {
  const auto cache = MakeCache(100, 32, 10, CachePolicy::kStatic);
  for (std::uint64_t block = 0; block < 100; ++block) {
    EXPECT_EQ(cache->Fill(block, Content(block, 32).data()), block < 10);
    cache->Offer(block, Content(block, 32).data());
  }
  EXPECT_TRUE(cache->Fill(3, Content(3, 32).data())) << "is here already";
  for (std::uint64_t block = 0; block < 100; ++block)
    EXPECT_EQ(Look(*cache, block, 32, 0, 32), block < 10);
  const BlockCache::Stats stats = cache->stats();
  EXPECT_EQ(stats.hits, 10u);
  EXPECT_EQ(stats.misses, 90u);
  EXPECT_EQ(stats.filled, 10u);
  EXPECT_EQ(stats.flushed, 0u);
  EXPECT_EQ(stats.used_bytes, stats.capacity_bytes);
  EXPECT_GE(stats.index_bytes, 100 * 4u);
}

TEST(BlockCache, RefusesWhatCannotBe) {
  EXPECT_EQ(BlockCache::Make(0, 64, 4096, CachePolicy::kStatic).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BlockCache::Make(10, 0, 4096, CachePolicy::kStatic).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BlockCache::Make(10, 64, 4096, CachePolicy::kNone).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BlockCache::Make(10, 64, 63, CachePolicy::kStatic).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BlockCache::Make(1ull << 40, 1, 1ull << 40, CachePolicy::kStatic).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BlockCache::Make(std::numeric_limits<std::uint64_t>::max() / 4, 64, 4096,
                             CachePolicy::kStatic)
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(MakeCache(10, 64, 1000, CachePolicy::kStatic)->stats().capacity_bytes, 640u)
      << "no more than there are blocks";
  for (CachePolicy policy : {CachePolicy::kNone, CachePolicy::kStatic, CachePolicy::kDynamic}) {
    EXPECT_EQ(*ParseCachePolicy(Name(policy)), policy);
  }
  EXPECT_EQ(ParseCachePolicy("lru").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BlockCache, ThreadsReadOnlyWhatWasOfferedWhilePagesAreFlushed) {
  constexpr std::uint64_t kBlocks = 512;
  constexpr std::uint32_t kBytes = 600;
  constexpr int kReaders = 3;
  std::vector<Bytes> contents;
  for (std::uint64_t block = 0; block < kBlocks; ++block)
    contents.push_back(Content(block, kBytes));
  const auto cache = MakeCache(kBlocks, kBytes, 32, CachePolicy::kDynamic);
  std::atomic<std::uint64_t> looks{0}, hits{0}, wrong{0};
  std::atomic<int> reading{kReaders};
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < kReaders; ++thread) {
    threads.emplace_back([&, thread] {
      Bytes out(kBytes);
      for (std::uint64_t i = 0; i < kRounds; ++i) {
        // Half of the accesses go to a sixteenth of the blocks, so that there are hits.
        const std::uint64_t block =
            RandomBelow(thread, 2 * i, Random(thread, 2 * i + 1) % 2 == 0 ? kBlocks / 16 : kBlocks);
        if (cache->Read(block, 0, out)) {
          hits.fetch_add(1);
          if (out != contents[block]) wrong.fetch_add(1);
        } else {
          cache->Offer(block, contents[block].data());
        }
      }
      looks.fetch_add(kRounds);
      reading.fetch_sub(1);
    });
  }
  threads.emplace_back([&] {
    for (std::uint64_t i = 0; reading.load() != 0; ++i) {
      cache->Fill(i % kBlocks, contents[i % kBlocks].data());
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(hits.load(), 0u);
  const BlockCache::Stats stats = cache->stats();
  EXPECT_EQ(stats.hits, hits.load());
  EXPECT_EQ(stats.hits + stats.misses, looks.load());
  EXPECT_GT(stats.flushed, 0u);
  EXPECT_LE(stats.used_bytes, stats.capacity_bytes);
  std::uint64_t held = 0;
  for (std::uint64_t block = 0; block < kBlocks; ++block) {
    const int here = Look(*cache, block, kBytes, 0, kBytes);
    ASSERT_GE(here, 0) << block;
    held += here;
  }
  EXPECT_EQ(held * kBytes, stats.used_bytes);
}

TEST(BlockCache, CountsAreExactWithMoreThreadsThanTallies) {
  constexpr int kThreads = 80, kReads = 1000;
  const auto cache = MakeCache(2, 8, 1, CachePolicy::kStatic);
  ASSERT_TRUE(cache->Fill(0, Content(0, 8).data()));
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      Bytes out(8);
      for (int read = 0; read < kReads; ++read) cache->Read(read % 2, 0, out);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache->stats().hits, kThreads * kReads / 2);
  EXPECT_EQ(cache->stats().misses, kThreads * kReads / 2);
}

TEST(MostUsedBlocks, RanksByUseThenByNumber) {
  const std::vector<std::uint32_t> uses = {3, 0, 7, 3, 1, 7, 0};
  EXPECT_THAT(MostUsedBlocks(uses, 100), ElementsAre(2, 5, 0, 3, 4));
  EXPECT_THAT(MostUsedBlocks(uses, 3), ElementsAre(2, 5, 0));
  EXPECT_THAT(MostUsedBlocks(uses, 0), IsEmpty());
  EXPECT_THAT(MostUsedBlocks({}, 5), IsEmpty());
}

constexpr std::uint32_t kStreamBlocks = 16384;
constexpr std::uint64_t kStreamHeld = kStreamBlocks / 10;

double HitRate(BlockCache& cache, const std::vector<std::uint32_t>& stream) {
  std::uint64_t bytes = 0;
  std::array<std::byte, 8> out;
  for (const std::uint64_t block : stream) {
    std::memcpy(&bytes, &block, 8);
    if (cache.Read(block, 0, out)) {
      EXPECT_EQ(std::memcmp(out.data(), &block, 8), 0);
    } else {
      cache.Offer(block, reinterpret_cast<const std::byte*>(&bytes));
    }
  }
  return static_cast<double>(cache.stats().hits) / static_cast<double>(stream.size());
}

struct HitRates {
  double dynamic_policy, static_by_number, static_by_profile, ideal;
};

/// The static orders: by number, which is unrelated to the stream, and by the counts of
/// another part of it.
HitRates Compare(AccessStream kind) {
  const std::vector<double> frequency = Frequencies(kind, kStreamBlocks, 7);
  const std::vector<std::uint32_t> past = Accesses(frequency, 500'000, 1);
  const std::vector<std::uint32_t> stream = Accesses(frequency, 500'000, 2);
  std::vector<std::uint32_t> uses(kStreamBlocks);
  for (const std::uint32_t block : past) ++uses[block];
  std::vector<std::uint64_t> by_number(kStreamHeld);
  std::iota(by_number.begin(), by_number.end(), 0u);
  const auto static_rate = [&](const std::vector<std::uint64_t>& order) {
    const auto cache = MakeCache(kStreamBlocks, 8, kStreamHeld, CachePolicy::kStatic);
    for (const std::uint64_t block : order)
      EXPECT_TRUE(cache->Fill(block, reinterpret_cast<const std::byte*>(&block)));
    return HitRate(*cache, stream);
  };
  return {HitRate(*MakeCache(kStreamBlocks, 8, kStreamHeld, CachePolicy::kDynamic), stream),
          static_rate(by_number), static_rate(MostUsedBlocks(uses, kStreamHeld)),
          IdealLfuHitRate(frequency, kStreamHeld)};
}

void Print(const char* stream, const HitRates& rates) {
  absl::PrintF(
      "%-8s stream, %d of %d blocks held: dynamic %.4f, static %.4f, static by profile %.4f, ideal "
      "LFU %.4f\n",
      stream, kStreamHeld, kStreamBlocks, rates.dynamic_policy, rates.static_by_number,
      rates.static_by_profile, rates.ideal);
}

TEST(BlockCacheHitRates, OnAUniformStreamStaticIsAtLeastAsGoodAsDynamic) {
  const HitRates rates = Compare(AccessStream::kUniform);
  Print("uniform", rates);
  EXPECT_GE(rates.static_by_number, rates.dynamic_policy);
  EXPECT_NEAR(rates.static_by_number, rates.ideal, 0.002);
  EXPECT_GT(rates.dynamic_policy, 0.95 * rates.ideal);
}

TEST(BlockCacheHitRates, OnAZipfStreamWhoseHotSetIsUnknownDynamicIsBetter) {
  const HitRates rates = Compare(AccessStream::kZipf);
  Print("Zipf", rates);
  EXPECT_GT(rates.dynamic_policy, 2 * rates.static_by_number);
  EXPECT_GT(rates.static_by_profile, rates.dynamic_policy)
      << "who knows the hot set does better still";
  EXPECT_NEAR(rates.static_by_profile, rates.ideal, 0.01);
}

}  // namespace
}  // namespace hmann
