// How a merge shares the processor: one that begins by itself takes what searches leave,
// one that a user waits for does not.
#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "hmann/hmann.h"
#include "hmann/tuned_table.h"
#include "index/base/random.h"
#include "index/collection/manifest.h"
#include "index/collection/testing/small_collection.h"

namespace hmann {
namespace {

/// Whether some thread of this process takes only what others leave.
bool SomeThreadIsAside() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    pid_t thread = 0;
    EXPECT_TRUE(absl::SimpleAtoi(task.path().filename().string(), &thread));
    if (::sched_getscheduler(thread) == SCHED_IDLE) return true;
  }
  return false;
}

class MergeTest : public SmallCollectionTest {
 protected:
  static constexpr std::uint64_t kRows = 20'000;

  void SetUp() override {
    SmallCollectionTest::SetUp();
    Put(0, kRows);
    Compact();
    collection_.reset();
    auto opened = Collection::Open(folder_, {.merges = true});
    ASSERT_TRUE(opened.ok()) << opened.status();
    collection_ = *opened;
  }
  void Put(std::uint64_t label, std::uint64_t limit) {
    std::vector<std::uint8_t> vector(kDim);
    while (label < limit) {
      WriteBatch batch;
      for (const std::uint64_t end = label + 1000; label < end; ++label) {
        for (std::uint32_t i = 0; i < kDim; ++i)
          vector[i] = static_cast<std::uint8_t>(RandomBelow(3, label * kDim + i, 250));
        batch.Put(label, vector.data(), kDim);
      }
      ASSERT_TRUE(collection_->Write(batch).ok());
    }
  }
  /// What a search of the sealed index costs, by its calibration.
  double Distances() const {
    const std::string sealed = Manifest::Read(folder_)->Sealed(folder_);
    const IndexInfo info = *ReadInfo(sealed);
    const TunedTable table = *ReadTunedTable(sealed, info.content_hash, info.n);
    return table.calibration->curves.at(0).points.at(0).distances;
  }
  /// Whether a thread is seen aside before there are `merges`.
  bool StepsAsideBefore(std::uint64_t merges) {
    while (collection_->info().merges < merges) {
      if (SomeThreadIsAside()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // leave it the processor
    }
    return false;
  }
};

TEST_F(MergeTest, StepsAsideUnlessAUserWaits) {
  const std::uint64_t merges = collection_->info().merges;
  WriteBatch one;
  one.Delete(kRows - 1);
  ASSERT_TRUE(collection_->Write(one).ok());
  std::future<void> asked = std::async(std::launch::async, [this] { Compact(); });
  EXPECT_FALSE(StepsAsideBefore(merges + 1));
  asked.get();

  WriteBatch batch;
  for (std::uint64_t label = 0; label < kRows / 2; ++label) batch.Delete(label);
  ASSERT_TRUE(collection_->Write(batch).ok());
  EXPECT_TRUE(StepsAsideBefore(merges + 2));
}

TEST_F(MergeTest, CalibratesThoughMergesAreOff) {
  Open();
  const double before = Distances();
  Put(kRows, kRows + 2000);
  Compact();
  EXPECT_NE(Distances(), before);
}

}  // namespace
}  // namespace hmann
