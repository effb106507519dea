// A separate program, because it replaces operator new to count.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "index/search/testing/random_index.h"

namespace {

std::atomic<std::uint64_t> allocations{0};

void* Allocate(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return Allocate(bytes); }
void* operator new[](std::size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace hmann {
namespace {

constexpr std::uint64_t kQueries = 40;

/// Allocations of one pass over the queries with varying traversals and thread counts.
std::uint64_t OnePass(ParamsExecutor& runner, const std::vector<std::vector<std::byte>>& queries,
                      std::vector<Neighbor>& nearest) {
  const std::uint64_t before = allocations.load();
  for (const std::vector<std::byte>& query : queries) {
    for (const SearchParams& options :
         {SearchParams{.k = 10, .ef_l1 = 16, .ef_l0 = 64, .mode = SearchMode::kGraph},
          SearchParams{.k = 10, .ef_l1 = 300, .ef_l0 = 2000, .mode = SearchMode::kGraph},
          SearchParams{.k = 10, .ef_l1 = 40, .mode = SearchMode::kUpper},
          SearchParams{.k = 10, .ef_l1 = 40, .ef_l0 = 4, .mode = SearchMode::kMultiStart},
          SearchParams{.k = 10,
          .ef_l1 = 40,
          .ef_l0 = 4,
          .mode = SearchMode::kMultiStart,
          .query_threads = 3}}) {
      Counters counters;
      const bool counted = runner.Search(query.data(), options, &nearest, &counters, {}).ok();
      const bool plain =
          runner
              .Search(query.data(), options, &nearest, nullptr,
                      {.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1)})
              .ok();
      if (!counted || !plain) ADD_FAILURE();
    }
  }
  return allocations.load() - before;
}

TEST(MemoryExecutor, TheSteadyStateAllocatesNothing) {
  const RandomIndex index({.n = 3000, .n1 = 400, .m = 6, .dim = 8});
  ParamsExecutor runner(index.placed());
  std::vector<std::vector<std::byte>> queries;
  for (std::uint64_t i = 0; i < kQueries; ++i) queries.push_back(index.Query(i));
  std::vector<Neighbor> nearest;
  EXPECT_GT(OnePass(runner, queries, nearest), 0u) << "the first pass makes the scratch";
  OnePass(runner, queries, nearest);
  EXPECT_EQ(OnePass(runner, queries, nearest), 0u);
}

}  // namespace
}  // namespace hmann
