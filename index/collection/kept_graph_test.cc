/// The graph over what is not merged outlives the process.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "index/base/random.h"
#include "index/collection/testing/small_collection.h"

namespace hmann {
namespace {

class KeptGraphTest : public SmallCollectionTest {
 protected:
  static constexpr std::uint64_t kRows = 6000, kPiece = 1024;

  void Put(std::uint64_t first, std::uint64_t rows, std::uint64_t version = 0) {
    WriteBatch batch;
    std::vector<std::uint8_t> vector(kDim);
    for (std::uint64_t label = first; label < first + rows; ++label) {
      for (std::uint32_t c = 0; c < kDim; ++c)
        vector[c] = static_cast<std::uint8_t>(RandomBelow(label + version * 1'000'003, c, 256));
      batch.Put(label, vector.data(), kDim);
    }
    ASSERT_TRUE(collection_->Write(batch).ok());
  }
  void Settle() {
    while (collection_->info().loose_rows >= 64)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  /// Rows that are in no graph just after it was opened. It has not yet had the time to
  /// insert more than some.
  std::uint64_t LooseAfterOpening() {
    Open();
    return collection_->info().loose_rows;
  }
  std::uint64_t DistancesOfASearch() {
    const auto prepared = Prepare(collection_->Now(), {.k = 5});
    EXPECT_TRUE(prepared.ok());
    CollectionSearcher searcher;
    Counters counters;
    for (std::uint64_t q = 0; q < 20; ++q) {
      std::vector<std::uint8_t> query(kDim);
      for (std::uint32_t c = 0; c < kDim; ++c)
        query[c] = static_cast<std::uint8_t>(RandomBelow(99 + q, c, 256));
      Answer answer, exact;
      EXPECT_TRUE(searcher.Search(query.data(), **prepared, &answer, &counters).ok());
      const auto all = Prepare(collection_->Now(), {.k = 5, .mode = SearchMode::kScan});
      EXPECT_TRUE(searcher.Search(query.data(), **all, &exact).ok());
      EXPECT_EQ(answer.nearest.front().label, exact.nearest.front().label);
    }
    return counters.distances_fast;
  }
  std::string file() const { return folder_ + "/delta-graph"; }
};

TEST_F(KeptGraphTest, IsThereWhenTheCollectionOpens) {
  Put(0, kRows);
  Settle();
  const std::uint64_t distances = DistancesOfASearch();
  EXPECT_LT(distances, 20 * kRows / 2);
  EXPECT_LT(LooseAfterOpening(), kPiece);
  EXPECT_LT(DistancesOfASearch(), distances + 20 * kPiece);
  Settle();
  WriteBatch batch;
  for (std::uint64_t label = 0; label < kRows; label += 3) batch.Delete(label);
  ASSERT_TRUE(collection_->Write(batch).ok());
  Put(kRows, 2500);
  Settle();
  EXPECT_LT(LooseAfterOpening(), kPiece) << "with more rows, and dead ones";
  Open(/*read_only=*/true);
  EXPECT_LT(collection_->info().loose_rows, kPiece);
  Open();
  Compact();
  Put(100'000, 3000);
  Settle();
  EXPECT_LT(LooseAfterOpening(), kPiece) << "of the rows since a merge";
}

TEST_F(KeptGraphTest, ASuddenEndLosesHalfAtMost) {
  Put(0, kRows);
  Settle();
  while (!std::filesystem::exists(file())) std::this_thread::yield();
  const std::string copy = parent_ / "copy.live";
  std::filesystem::copy(folder_, copy, std::filesystem::copy_options::recursive);
  const auto opened = Collection::Open(copy, {.merges = false});
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_LE((*opened)->info().loose_rows, kRows / 2 + kPiece);
}

}  // namespace
}  // namespace hmann
