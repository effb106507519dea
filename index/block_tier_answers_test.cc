// Answers of an index on a device. They are the same for any record placement and while
// it is slow. When it fails there are errors and never wrong answers; when it stalls,
// searches end in time.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>
#include <tuple>

#include "hmann/hmann.h"
#include "index/testing/tier_sample.h"

namespace hmann {
namespace {

using std::chrono::steady_clock;

TEST(BlockTier, HoldsRecordsOfManyBlocksAndEveryKindOfVector) {
  for (const auto& [dtype, metric, dim] :
       {std::tuple(DType::kF32, Metric::kL2, 1536u), std::tuple(DType::kF32, Metric::kCosine, 784u),
        std::tuple(DType::kF32, Metric::kCosine, 300u), std::tuple(DType::kF16, Metric::kL2, 1100u),
        std::tuple(DType::kI8, Metric::kInnerProduct, 33u),
        std::tuple(DType::kU8, Metric::kCosine, 7u)}) {
    const TierSample made(dtype, metric, dim, 700);
    SCOPED_TRACE(dim);
    const auto dram = made.Open("dram"), nvme = made.Open("nvme"),
               cached = made.Open("nvme", {.cache = CachePolicy::kDynamic, .cache_bytes = 1 << 20});
    for (const SearchParams& options : ManyTierParams()) {
      if (options.epsilon.has_value() && metric == Metric::kInnerProduct) continue;
      const TierAnswers expected = made.Search(dram, options);
      ASSERT_NO_FATAL_FAILURE(ExpectSameAnswers(made.Search(nvme, options), expected));
      ASSERT_NO_FATAL_FAILURE(ExpectSameAnswers(made.Search(cached, options), expected));
    }
  }
}

TEST(BlockTier, FewFramesMeanMoreReadsAndTheSameAnswer) {
  for (const std::uint32_t dim : {24u, 784u}) {  // packed from 300 or so
    const TierSample made(DType::kU8, Metric::kL2, dim, 4000);
    const SearchParams options{.k = 100, .ef_l0 = 1200, .mode = SearchMode::kGraph};
    const TierAnswers expected = made.Search(made.Open("dram"), options);
    const TierAnswers roomy = made.Search(made.Open("nvme"), options, 1);
    const TierAnswers narrow =
        made.Search(made.Open("nvme", {.read_buffer_bytes = 4096}), options, 7);
    ASSERT_NO_FATAL_FAILURE(ExpectSameAnswers(roomy, expected));
    ASSERT_NO_FATAL_FAILURE(ExpectSameAnswers(narrow, expected));
    EXPECT_GT(narrow.total.io_reads, roomy.total.io_reads);
  }
}

TEST(BlockTier, PackedRecordsTakeFewBytesAndThoseOfACellOneRead) {
  const TierSample made(DType::kF32, Metric::kCosine, 300, 4000);
  const SearchParams options{.k = 40, .ef_l0 = 200, .mode = SearchMode::kQuantized};
  const TierAnswers found = made.Search(made.Open("nvme"), options, 1);
  ASSERT_NO_FATAL_FAILURE(ExpectSameAnswers(found, made.Search(made.Open("dram"), options)));
  EXPECT_LT(found.total.io_reads, found.total.node_accesses) << "some lie side by side";
  EXPECT_LT(found.total.io_bytes, found.total.io_reads * 4096);
}

TEST(BlockTier, AFailingReadIsAnErrorAndNeverAWrongAnswer) {
  const TierSample made(DType::kU8, Metric::kL2, 24);
  const TierAnswers expected = made.Search(made.Open("dram"), kTierParams);
  for (const char* spec : {"fail:every=200+nvme", "fail:every=41+nvme", "fail:every=1+nvme"}) {
    const auto index = made.Open(spec);
    ASSERT_TRUE(index != nullptr);
    for (const std::uint32_t in_flight : {1u, 6u}) {
      const TierAnswers found = made.Search(index, kTierParams, in_flight);
      int failed = 0;
      for (std::size_t query = 0; query < kTierQueries; ++query) {
        if (!found.status[query].ok()) {
          ++failed;
          EXPECT_EQ(found.status[query].code(), absl::StatusCode::kDataLoss) << found.status[query];
          continue;
        }
        ASSERT_EQ(found.nearest[query].size(), 10u);
        for (std::size_t i = 0; i < 10; ++i)
          ASSERT_EQ(found.nearest[query][i].label, expected.nearest[query][i].label);
      }
      EXPECT_GT(failed, 0) << spec;
      if (std::string_view(spec).starts_with("fail:every=200+")) {
        EXPECT_LT(failed, static_cast<int>(kTierQueries));
      }
    }
  }
}

TEST(BlockTier, AStalledDeviceEndsInTimeAndFramesComeBackWhenItDoes) {
  const TierSample made(DType::kU8, Metric::kL2, 24);
  const auto index = made.Open("stall:after=30+nvme");
  ASSERT_TRUE(index != nullptr);
  for (const std::uint32_t in_flight : {1u, 5u}) {
    const auto begin = steady_clock::now();
    const TierAnswers found = made.Search(index, kTierParams, in_flight,
                                          {.deadline = begin + std::chrono::milliseconds(150)});
    EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(20)) << "it ended";
    for (std::size_t query = 0; query < kTierQueries; ++query) {
      EXPECT_TRUE(found.status[query].ok() || absl::IsDeadlineExceeded(found.status[query]))
          << found.status[query];
    }
    EXPECT_TRUE(absl::IsDeadlineExceeded(found.status.back()));
  }
  // Cancelled from outside, by a client that went away.
  std::atomic<bool> cancelled{false};
  std::thread client([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    cancelled = true;
  });
  const TierAnswers found = made.Search(index, kTierParams, 3, {.cancelled = &cancelled});
  client.join();
  EXPECT_TRUE(absl::IsCancelled(found.status.back())) << found.status.back();
}

TEST(BlockTier, ASearcherGoesOnAfterADeadline) {
  const TierSample made(DType::kU8, Metric::kL2, 24);
  const auto slow = made.Open("delay:3ms+nvme");
  const TierAnswers expected = made.Search(made.Open("dram"), kTierParams);
  Searcher searcher(slow);
  Answer answer;
  const ResolvedParams params = slow->Resolve(kTierParams)->params;
  for (int i = 0; i < 5; ++i) {
    const absl::Status late =
        searcher.Search(made.queries.Row(0), params, &answer, nullptr,
                        {.deadline = steady_clock::now() + std::chrono::milliseconds(4)});
    EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
    ASSERT_TRUE(searcher.Search(made.queries.Row(0), params, &answer).ok());
    ASSERT_EQ(answer.nearest.size(), 10u);
    for (std::size_t k = 0; k < 10; ++k)
      EXPECT_EQ(answer.nearest[k].label, expected.nearest[0][k].label);
  }
}

}  // namespace
}  // namespace hmann
