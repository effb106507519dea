#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>

#include "index/tiers/block_cache.h"
#include "index/tiers/testing/access_streams.h"

/// The cost of a lookup: with the cache off, for a miss in an index of the given number
/// of blocks, and for a hit. Also the hit rates of two streams with a tenth of the blocks
/// held, compared with an LFU that knows the true frequencies (`hit_rate`, `ideal`).
namespace hmann {
namespace {

constexpr std::uint32_t kBlockBytes = 4096;

std::unique_ptr<BlockCache> MakeCache(std::uint64_t blocks, std::uint32_t block_bytes,
                                      std::uint64_t held, CachePolicy policy) {
  auto cache = BlockCache::Make(blocks, block_bytes, held * block_bytes, policy);
  if (!cache.ok()) std::abort();
  return *std::move(cache);
}

void ReadRandomBlocks(benchmark::State& state, BlockCache& cache, std::uint64_t blocks) {
  std::vector<std::byte> out(kBlockBytes);
  std::uint64_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(cache.Read(RandomBelow(1, i++, blocks), 0, out));
}

void BM_RandomNumberAlone(benchmark::State& state) {
  std::uint64_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(RandomBelow(1, i++, state.range(0)));
}
BENCHMARK(BM_RandomNumberAlone)->Arg(1 << 20);

void BM_Miss(benchmark::State& state) {
  const auto cache = MakeCache(state.range(0), kBlockBytes, 64, CachePolicy::kStatic);
  ReadRandomBlocks(state, *cache, state.range(0));
}
BENCHMARK(BM_Miss)->Arg(1 << 10)->Arg(1 << 20)->Arg(1 << 25);

void BM_Hit(benchmark::State& state) {
  const auto blocks = static_cast<std::uint64_t>(state.range(0));
  const auto cache = MakeCache(blocks, kBlockBytes, blocks, CachePolicy::kStatic);
  const std::vector<std::byte> bytes(kBlockBytes);
  for (std::uint64_t block = 0; block < blocks; ++block) cache->Fill(block, bytes.data());
  ReadRandomBlocks(state, *cache, blocks);
}
BENCHMARK(BM_Hit)->Arg(4)->Arg(1 << 15);

void BM_HitRate(benchmark::State& state, AccessStream kind, CachePolicy policy) {
  constexpr std::uint32_t kBlocks = 1 << 16;
  constexpr std::uint64_t kHeld = kBlocks / 10;
  const std::vector<double> frequency = Frequencies(kind, kBlocks, 7);
  const std::vector<std::uint32_t> stream = Accesses(frequency, 1 << 20, 2);
  const auto cache = MakeCache(kBlocks, 64, kHeld, policy);
  std::array<std::byte, 64> bytes{};
  if (policy == CachePolicy::kStatic) {
    for (std::uint64_t block = 0; block < kHeld; ++block) cache->Fill(block, bytes.data());
  }
  std::uint64_t i = 0;
  for (auto _ : state) {
    const std::uint32_t block = stream[i++ % stream.size()];
    if (!cache->Read(block, 0, bytes)) cache->Offer(block, bytes.data());
  }
  const BlockCache::Stats stats = cache->stats();
  state.counters["hit_rate"] =
      static_cast<double>(stats.hits) / static_cast<double>(stats.hits + stats.misses);
  state.counters["ideal"] = IdealLfuHitRate(frequency, kHeld);
}
BENCHMARK_CAPTURE(BM_HitRate, uniform_static, AccessStream::kUniform, CachePolicy::kStatic)
    ->Iterations(1 << 20);
BENCHMARK_CAPTURE(BM_HitRate, uniform_dynamic, AccessStream::kUniform, CachePolicy::kDynamic)
    ->Iterations(1 << 20);
BENCHMARK_CAPTURE(BM_HitRate, zipf_static, AccessStream::kZipf, CachePolicy::kStatic)
    ->Iterations(1 << 20);
BENCHMARK_CAPTURE(BM_HitRate, zipf_dynamic, AccessStream::kZipf, CachePolicy::kDynamic)
    ->Iterations(1 << 20);

}  // namespace
}  // namespace hmann
