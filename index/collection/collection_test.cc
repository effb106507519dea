#include "hmann/collection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <map>
#include <mutex>
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
  const std::uint64_t rounds = IsSoak() ? 40 : 2;  // of 2,500 writes
  const SampleFolder folder;
  Ledger ledger(folder / "c.live");
  ledger.Create({});
  ledger.Open();
  for (std::uint64_t round = 0; round < rounds; ++round) {
    ledger.RandomWrites(2500, 1000 * (rounds + round));  // over the sealed rows, and others
    ledger.Check();
    ledger.Compact();
    ledger.Check();
  }
  for (const int threads : {1, 2, 7})
    EXPECT_EQ(ledger.SealedHash(), ledger.HashOfBuild(folder / "built.hmann", threads)) << threads;
  ledger.Reopen();
  ledger.Check();
  EXPECT_EQ(ledger.info().delta_rows, 0u);
  EXPECT_EQ(ledger.info().covered, ledger.info().sequence);
}

/// A merge that began elsewhere is not continued, and does not prevent another one.
TEST(CollectionTest, AFolderIsCopiedAfterAnInterruptedMerge) {
  const SampleFolder folder;
  const std::string from = folder / "c.live", to = folder / "copy.live";
  Ledger ledger(from);
  ledger.Create({});
  ledger.Open();
  ledger.RandomWrites(2500, 2000);
  std::atomic<bool> cancelled = false;
  absl::Status status;
  std::thread merger([&] {
    Progress quiet(Progress::Show::kNever);
    status = ledger.collection().Compact(quiet, &cancelled);
  });
  while (!std::filesystem::exists(from + "/merge/work/manifest.json")) std::this_thread::yield();
  cancelled = true;
  merger.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_TRUE(std::filesystem::exists(from + "/merge/work/manifest.json"));
  ledger.OpenCopy(to);
  ledger.Check();
  ledger.Compact();
  ledger.Check();
  EXPECT_EQ(ledger.SealedHash(), ledger.HashOfBuild(folder / "built.hmann", 1));
}

TEST(CollectionTest, DeletedInsertedCompactedIsThere) {
  const SampleFolder folder;
  Ledger ledger(folder / "c.live");
  ledger.Create({});
  ledger.Open();
  ledger.RandomWrites(600, 600);
  ledger.Compact();
  for (std::uint64_t label = 10; label < (IsSoak() ? 310u : 11u); label += 3) {
    ledger.Delete({label, label + 1, label + 2});
    ledger.Put({label + 1});
    ledger.Compact();
    ledger.Check();
  }
}

/// What a search saw, or what a write left: by triple the distance from the query, -1:
/// none.
constexpr std::uint64_t kTriples = 100, kFirstTriple = 100'000;
using Distances = std::array<float, kTriples>;
struct DoneWrite {
  std::uint64_t sequence, triple;
  float distance;
};
struct SeenMoment {
  std::uint64_t sequence;
  Distances distances;
};

/// Writers put three labels at once, always the same vector in all of them, while others
/// search and merges run: a moment in which the three differ was none.
class TriplesUnderLoad {
 public:
  explicit TriplesUnderLoad(Collection& collection) : collection_(collection) {}

  void Write(std::uint64_t writer) {
    std::mt19937_64 random(writer);
    while (!stop_) {
      const std::uint64_t triple = random() % (kTriples / 2) * 2 + writer;
      const Ledger::Vector vector(Ledger::kDim, static_cast<std::uint8_t>(random() % 256));
      const bool deletes = vector[0] % 5 == 0;
      WriteBatch batch;
      for (std::uint64_t label = kFirstTriple + triple * 3, i = 0; i < 3; ++i, ++label)
        deletes ? batch.Delete(label) : batch.Put(label, vector.data(), Ledger::kDim);
      const auto written = collection_.Write(batch);
      ASSERT_TRUE(written.ok()) << written.status();
      if (written->rows == 0) continue;
      const float off = static_cast<float>(vector[0]) - kQuery;
      const std::scoped_lock lock(mutex_);
      done_.push_back({written->sequence, triple, deletes ? -1 : Ledger::kDim * off * off});
    }
  }

  void Search() {
    CollectionSearcher searcher;
    const Ledger::Vector query(Ledger::kDim, kQuery);
    while (!stop_) {
      Answer answer;
      const auto now = collection_.Now();
      const auto prepared = Prepare(now, {.k = 40'000, .mode = SearchMode::kScan});
      ASSERT_TRUE(prepared.ok() && searcher.Search(query.data(), **prepared, &answer).ok());
      ASSERT_EQ(answer.nearest.size(), LiveRows(*now));
      std::map<std::uint64_t, std::vector<float>> found;
      for (const Neighbor& neighbor : answer.nearest)
        if (neighbor.label >= kFirstTriple)
          found[(neighbor.label - kFirstTriple) / 3].push_back(neighbor.distance);
      SeenMoment seen{SequenceOf(*now), {}};
      seen.distances.fill(-1);
      for (const auto& [triple, distances] : found) {
        ASSERT_THAT(distances, testing::ElementsAre(distances[0], distances[0], distances[0]));
        seen.distances[triple] = distances[0];
      }
      const std::scoped_lock lock(mutex_);
      seen_.push_back(seen);
    }
  }

  void Stop() { stop_ = true; }
  std::size_t answers() {
    const std::scoped_lock lock(mutex_);
    return seen_.size();
  }

  /// Each answer is what the writes up to its sequence number left.
  void Check() {
    const auto earlier = [](const auto& a, const auto& b) { return a.sequence < b.sequence; };
    std::sort(done_.begin(), done_.end(), earlier);
    std::stable_sort(seen_.begin(), seen_.end(), earlier);
    Distances state;
    state.fill(-1);
    std::size_t next = 0;
    for (const SeenMoment& seen : seen_) {
      for (; next < done_.size() && done_[next].sequence <= seen.sequence; ++next)
        state[done_[next].triple] = done_[next].distance;
      ASSERT_EQ(seen.distances, state) << "write " << seen.sequence;
    }
    std::cout << seen_.size() << " answers, " << done_.size() << " writes" << std::endl;
  }

 private:
  static constexpr std::uint8_t kQuery = 7;
  Collection& collection_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;  ///< guards these
  std::vector<DoneWrite> done_;
  std::vector<SeenMoment> seen_;
};

TEST(CollectionTest, EachAnswerIsOfOneMoment) {
  const std::uint64_t merges = IsSoak() ? 20 : 3;
  const SampleFolder folder;
  Ledger ledger(folder / "c.live");
  ledger.Create({});
  ledger.Open();
  ledger.RandomWrites(1000 * merges, 2000 * merges);
  TriplesUnderLoad load(ledger.collection());
  std::vector<std::thread> threads;
  for (const std::uint64_t writer : {0, 1}) {
    threads.emplace_back([&, writer] { load.Write(writer); });
    threads.emplace_back([&] { load.Search(); });
  }
  for (std::uint64_t merge = 0; merge < merges; ++merge) ledger.Compact();
  while (load.answers() < 50) std::this_thread::yield();
  load.Stop();
  for (std::thread& thread : threads) thread.join();
  load.Check();
  EXPECT_EQ(ledger.info().last_error, "");
  EXPECT_GE(ledger.info().merges, merges);
}

}  // namespace
}  // namespace hmann
