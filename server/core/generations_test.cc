// A name changes its index while it is searched. Uses the core only, without a protocol
// layer.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datasets/testing/temp_folder.h"
#include "hmann/progress.h"
#include "index/base/random.h"
#include "index/construct/pipeline.h"
#include "server/core/errors.h"
#include "server/core/file_guard.h"
#include "server/core/jobs.h"
#include "server/core/loader.h"

namespace hmann::server {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kDim = 8;
constexpr std::size_t kQueries = 24;

/// An index of vectors whose components start at `from`: 0 is near the queries, 200 is
/// far.
std::string Built(const TempFolder& folder, const char* name, std::uint8_t from) {
  std::array<std::byte, std::size_t{400} * kDim> rows;
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<std::byte>(from + Random(from, i) % 50);
  BuildOptions options;
  options.vectors = {rows.data(), DType::kU8, kDim, rows.size() / kDim, kDim};
  options.out = folder / name;
  Progress silent(Progress::Show::kNever);
  EXPECT_TRUE(BuildIndex(options, silent).ok());
  return options.out;
}

/// A protocol layer that counts the answers from the near and from the far vectors.
class Asking : public QueryRequest {
 public:
  Asking(const Serving& serving, Query query)
      : QueryRequest(
            serving, std::move(query),
            {Method::kSearchBatch, Clock::now(), std::chrono::system_clock::time_point::max()}) {}

  std::future<absl::Status> end() { return end_.get_future(); }
  std::atomic<std::size_t> near{0}, far{0};

 private:
  void Keep(std::size_t, const hmann::Answer& answer) override {
    for (const Neighbor& neighbor : answer.nearest)
      ++(neighbor.distance < kDim * 100.0F * 100.0F ? near : far);
  }
  void KeepWork(std::size_t, const Counters&) override {}
  absl::Status Reply() override { return absl::OkStatus(); }
  void End(const absl::Status& status) override {
    std::promise<absl::Status> end = std::move(end_);  // the waiting thread deletes this
    end.set_value(status);
  }

  std::promise<absl::Status> end_;
};

class GenerationsTest : public testing::Test {
 protected:
  /// Returns what was served before.
  std::weak_ptr<Generation> Serve(bool near) {
    const absl::StatusOr<Replaced> replaced = served().Load(near ? near_ : far_, {});
    EXPECT_TRUE(replaced.ok()) << replaced.status();
    return replaced.ok() ? replaced->before : nullptr;
  }
  ServedIndex& served() { return *registry_.indexes()[0]; }
  std::unique_ptr<Asking> Call(const Snapshot& index) {
    static constexpr std::array<std::byte, kQueries * kDim> kZeros{};
    return std::make_unique<Asking>(
        serving_,
        Query{index, *ResolveFor(index, {.k = 10}, nullptr, serving_.limits),
              *VectorsOf(std::span<const std::byte>(kZeros), index.info(), kQueries, "queries")});
  }
  absl::Status Answered(Asking& asking) {
    std::future<absl::Status> end = asking.end();
    serving_.pool.Start(&asking, [] { return 0; });
    return end.get();
  }

  const TempFolder folder_;
  const std::string near_ = Built(folder_, "near", 0), far_ = Built(folder_, "far", 200);
  Registry registry_{std::vector<IndexSpec>{{"name", near_}}};
  SearchPool pool_{3, {1000, 1 << 30, 1h}};
  Metrics metrics_{registry_};
  const Serving serving_{registry_, pool_, {.max_query_threads = 1}, 1h, metrics_};
};

TEST(OpeningGenerations, AFileThatIsShortenedMeanwhileIsAnError) {
  const TempFolder folder;
  const std::string path = Built(folder, "short.hmann", 0);
  const int writer = open(path.c_str(), O_RDWR | O_CLOEXEC);  // prevents a lease
  const auto guard = FileGuard::Take(path);
  ASSERT_TRUE(guard.ok()) << guard.status();
  const auto opened =
      Index::Open(path, {.fast = "mapped"}, nullptr, [&](std::span<const std::byte> bytes) {
        (*guard)->Watch(bytes);
        ASSERT_EQ(ftruncate(writer, 0), 0);
      });
  EXPECT_FALSE(opened.ok());  // and no SIGBUS has ended the process
  EXPECT_FALSE((*guard)->CheckOpened().ok());
  close(writer);
}

TEST_F(GenerationsTest, EachAnswerIsOfOneAndTheLastRequestEndsIt) {
  std::vector<std::weak_ptr<Generation>> all;
  Serve(true);
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> near{0}, far{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      while (!stop) {
        const auto asking = Call(*registry_.Get("name"));
        EXPECT_EQ(Answered(*asking), absl::OkStatus());
        EXPECT_EQ(asking->near + asking->far, kQueries * 10);
        EXPECT_TRUE(asking->near == 0 || asking->far == 0);
        ++(asking->far == 0 ? near : far);
      }
    });
  }
  for (int i = 0; i < 60 || near == 0 || far == 0; ++i) {
    all.push_back(Serve(i % 2 == 1));
    std::this_thread::sleep_for(1ms);
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_GE(all.size(), 60u);
  for (const auto& old : all) EXPECT_TRUE(old.expired());
}

TEST_F(GenerationsTest, NamesComeAndGoBesideSearchesSwapsAndReaders) {
  Serve(true);
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  others.emplace_back([&] {
    while (!stop) {
      const auto asking = Call(*registry_.Get("name"));
      EXPECT_EQ(Answered(*asking), absl::OkStatus());
      EXPECT_TRUE(asking->near == 0 || asking->far == 0);
    }
  });
  others.emplace_back([&] {
    while (!stop) {
      EXPECT_NE(metrics_.Text(pool_, {}).find("hmann_index_state"), std::string::npos);
      for (const auto& index : registry_.indexes()) index->WithdrawIfChanged();
    }
  });
  Loader loader({}, false);
  const auto load = [&](const std::shared_ptr<ServedIndex>& index, const std::string& path) {
    std::promise<absl::Status> loaded;
    loader.Load(index, path, {}, [&](const auto& now) { loaded.set_value(now.status()); });
    return loaded.get_future().get();
  };
  others.emplace_back([&] {
    for (int i = 0; !stop; ++i)
      EXPECT_EQ(load(registry_.Named("name"), i % 2 == 0 ? far_ : near_), absl::OkStatus());
  });
  std::vector<std::weak_ptr<ServedIndex>> all;
  for (int i = 0; i < 20; ++i) {
    const auto other = *registry_.Add({"other", far_});
    EXPECT_TRUE(absl::IsAlreadyExists(registry_.Add({"other", near_}).status()));
    EXPECT_EQ(ReasonOf(registry_.Get("other").status()), "INDEX_LOADING");
    EXPECT_EQ(load(other, far_), absl::OkStatus());
    const auto asking = Call(*registry_.Get("other"));
    loader.Close(registry_.Remove(*other));
    EXPECT_TRUE(absl::IsNotFound(registry_.Get("other").status()));
    EXPECT_EQ(Answered(*asking), absl::OkStatus()) << "it had started";
    EXPECT_TRUE(absl::IsAborted(load(other, near_))) << "it was removed";
    all.push_back(other);
  }
  stop = true;
  for (std::thread& other : others) other.join();
  loader.Stop();
  for (const auto& removed : all) EXPECT_TRUE(removed.expired());
  EXPECT_TRUE(absl::IsUnavailable(load(registry_.Named("name"), far_))) << "it was stopped";
}

TEST_F(GenerationsTest, ARequestKeepsWhatItBeganWith) {
  Serve(true);
  auto begun = Call(Snapshot(&served()));
  const std::weak_ptr<Generation> old = Serve(false);
  EXPECT_FALSE(old.expired());
  EXPECT_EQ(Answered(*begun), absl::OkStatus());
  EXPECT_EQ(begun->near, kQueries * 10);
  begun.reset();
  EXPECT_TRUE(old.expired());
  const auto after = Call(*registry_.Get("name"));
  EXPECT_EQ(Answered(*after), absl::OkStatus());
  EXPECT_EQ(after->far, kQueries * 10);
}

TEST_F(GenerationsTest, WhatIsFoundOfAnOldOneIsNotOfTheNew) {
  const int file = open(near_.c_str(), O_WRONLY | O_APPEND);  // so there is no lease
  Serve(true);
  const Snapshot old(&served());
  const auto begun = Call(old);
  Serve(false);
  EXPECT_FALSE(served().Withdraw(old, absl::DataLossError("the test says so")));
  EXPECT_EQ(served().state(), IndexState::kServing);
  // The file of an old generation is not watched, so each answer checks the file.
  EXPECT_EQ(write(file, "changed", 7), 7);
  close(file);
  EXPECT_FALSE(served().WithdrawIfChanged());
  EXPECT_EQ(Answered(*begun), FileChanged("name"));
}

TEST_F(GenerationsTest, ANameThatFailedServesAgain) {
  Serve(true);
  const auto begun = Call(Snapshot(&served()));
  ASSERT_TRUE(served().Withdraw(absl::DataLossError("the test says so")));
  EXPECT_EQ(ReasonOf(registry_.Get("name").status()), "INDEX_FAILED");
  Serve(false);
  const auto after = Call(*registry_.Get("name"));
  EXPECT_EQ(Answered(*after), absl::OkStatus());
  EXPECT_EQ(after->far, kQueries * 10);
  EXPECT_EQ(Answered(*begun), FileChanged("name"));
}

}  // namespace
}  // namespace hmann::server
