#include "hmann/collection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "index/collection/testing/ledger.h"

namespace hmann {
namespace {

TEST(CollectionTest, ChangesAreSeenAndOutliveTheProcess) {
  const SampleFolder folder;
  Ledger ledger(folder / "c.live");
  ledger.Create({});
  ledger.Open();
  for (std::uint64_t label = 0; label < 40; ++label) ledger.Put({label});
  ledger.Put({3, 7, 39});
  ledger.Delete({5, 6, 1000});
  ledger.Check();
  ledger.Reopen();
  ledger.Check();
  ledger.Delete({0, 1, 2});
  ledger.Put({5});
  ledger.Reopen();
  ledger.Check();
}

TEST(CollectionTest, ACompactedCollectionHasTheBytesOfABuild) {
  const SampleFolder folder;
  Ledger ledger(folder / "c.live");
  ledger.Create({});
  ledger.Open();
  ledger.RandomWrites(3000, 2000);
  ledger.Compact();
  ledger.Check();
  EXPECT_EQ(ledger.SealedHash(), ledger.HashOfBuild(folder / "built.hmann", 2));
  ledger.RandomWrites(1500, 2500);  // over the sealed rows, and others
  ledger.Check();
  ledger.Compact();
  ledger.Check();
  EXPECT_EQ(ledger.SealedHash(), ledger.HashOfBuild(folder / "built.hmann", 1));
  ledger.Reopen();
  ledger.Check();
  EXPECT_EQ(ledger.info().delta_rows, 0u);
}

TEST(CollectionTest, DeletedInsertedCompactedIsThere) {
  const SampleFolder folder;
  Ledger ledger(folder / "c.live");
  ledger.Create({});
  ledger.Open();
  ledger.RandomWrites(600, 600);
  ledger.Compact();
  ledger.Delete({10, 11, 12});
  ledger.Put({11});
  ledger.Compact();
  ledger.Check();
}

/// Writers put three labels at once, always the same vector in all of them, while others
/// search and merges run: a moment in which the three differ was none.
TEST(CollectionTest, EachAnswerIsOfOneMoment) {
  const SampleFolder folder;
  Ledger ledger(folder / "c.live");
  ledger.Create({});
  ledger.Open();
  ledger.RandomWrites(2000, 4000);
  constexpr std::uint64_t kTriples = 50, kFirst = 10'000;
  std::atomic<bool> stop = false;
  std::atomic<int> answers = 0;
  const auto write = [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    while (!stop) {
      const std::uint64_t triple = seed * kTriples + random() % kTriples;
      const Ledger::Vector vector(Ledger::kDim, static_cast<std::uint8_t>(random() % 256));
      WriteBatch batch;
      for (const std::uint64_t i : {0, 1, 2}) {
        const std::uint64_t label = kFirst + triple * 3 + i;
        vector[0] % 5 == 0 ? batch.Delete(label) : batch.Put(label, vector.data(), Ledger::kDim);
      }
      ASSERT_TRUE(ledger.collection().Write(batch).ok());
    }
  };
  const auto search = [&] {
    CollectionSearcher searcher;
    const Ledger::Vector query(Ledger::kDim, 7);
    while (!stop) {
      Answer answer;
      const auto now = ledger.collection().Now();
      const auto prepared = Prepare(now, {.k = 20'000, .mode = SearchMode::kScan});
      ASSERT_TRUE(prepared.ok() && searcher.Search(query.data(), **prepared, &answer).ok());
      ASSERT_EQ(answer.nearest.size(), LiveRows(*now));
      std::map<std::uint64_t, std::vector<float>> found;
      for (const Neighbor& neighbor : answer.nearest)
        if (neighbor.label >= kFirst)
          found[(neighbor.label - kFirst) / 3].push_back(neighbor.distance);
      for (const auto& [triple, distances] : found)
        ASSERT_THAT(distances, testing::ElementsAre(distances[0], distances[0], distances[0]));
      ++answers;
    }
  };
  std::vector<std::thread> threads;
  for (const std::uint64_t seed : {0, 1}) threads.emplace_back(write, seed);
  for (int i = 0; i < 2; ++i) threads.emplace_back(search);
  for (int merges = 0; merges < 3; ++merges) ledger.Compact();
  while (answers < 50) std::this_thread::yield();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ledger.info().last_error, "");
  EXPECT_GE(ledger.info().merges, 3u);
}

}  // namespace
}  // namespace hmann
