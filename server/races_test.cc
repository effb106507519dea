// Runs everything that server threads share without gRPC at once: pool, registry, meters,
// metrics, tokens, file guard and scrubber. Meant mainly for TSan (gRPC itself is not
// instrumented).
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "datasets/testing/temp_folder.h"
#include "server/core/metrics.h"
#include "server/core/scrubber.h"
#include "server/core/search_pool.h"
#include "server/core/tokens.h"
#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using namespace std::chrono_literals;
using Clock = QueuedRequest::Clock;

constexpr std::size_t kQueries = 40;

// printf %s kept | sha256sum; likewise for "other".
const char kKept[] = "79f076abdd19a752db7267bfff2f9022161d120dea919fdaca2ffdfc24ca8c96";
const char kOther[] = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa";

using Labels = std::vector<std::uint64_t>;

Labels LabelsOf(const Answer& answer) {
  Labels labels;
  for (const auto& one : answer.nearest) labels.push_back(one.label);
  return labels;
}

/// A request like those of the service: it searches, counts, and records how it ended.
class RunningRequest : public QueuedRequest {
 public:
  RunningRequest(ServedIndex* index, const ResolvedParams& params, std::size_t queries,
                 Metrics* metrics)
      : QueuedRequest(index, queries, EffortOf(params, {}), 1000, Clock::now() + 1h),
        found(queries),
        index_(*index),
        params_(params),
        metrics_(*metrics) {}

  std::future<absl::Status> done() { return done_.get_future(); }
  std::vector<Labels> found;

 protected:
  absl::Status Answer(std::size_t i, std::size_t, AnySearcher& searcher,
                      const SearchLimits& limits) override {
    hmann::Answer answer;
    Counters counters;
    const absl::Status status =
        searcher.index->Search(SampleQueries(i, 1).data(), params_, &answer, &counters, limits);
    metrics_.Worked(index_, counters);
    found[i] = LabelsOf(answer);
    return status;
  }
  void Complete(const absl::Status& status) override {
    metrics_.Ended(Method::kSearchBatch, &index_, status, 1us, found.size());
    done_.set_value(status);
  }

 private:
  const ServedIndex& index_;
  const ResolvedParams params_;
  Metrics& metrics_;
  std::promise<absl::Status> done_;
};

/// Repeats `work` until destroyed.
class Repeated {
 public:
  explicit Repeated(std::function<void()> work)
      : thread_([this, work = std::move(work)] {
          while (!stop_) work();
        }) {}
  ~Repeated() {
    stop_ = true;
    thread_.join();
  }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class RacesTest : public testing::Test {
 protected:
  RacesTest()
      : copy_(folder_.Write("copy.hmann", ReadAll(SampleIndex()))),
        registry_({{"sift", SampleIndex()}, {"copy", copy_}}),
        metrics_(registry_) {
    OpenOptions open;
    open.slow = "mapped";
    for (const auto& index : registry_.indexes())
      EXPECT_TRUE(index->Load(index->spec().path, open).ok());
    const Index& index = *sift().Get()->index();
    params_ = index.Resolve({})->params;
    Searcher searcher(*Index::Open(SampleIndex()));
    for (std::size_t i = 0; i < kQueries; ++i) {
      Answer answer;
      EXPECT_TRUE(searcher.Search(SampleQueries(i, 1).data(), params_, &answer).ok());
      expected_.push_back(LabelsOf(answer));
    }
  }

  ServedIndex& sift() { return *registry_.indexes()[0]; }
  ServedIndex& copy() { return *registry_.indexes()[1]; }

  /// Keeps a job until the test ends, since a thread may still be leaving its Complete.
  RunningRequest& Keep(ServedIndex* index, std::size_t queries) {
    auto job = std::make_unique<RunningRequest>(index, params_, queries, &metrics_);
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    return *jobs_.back();
  }

  /// Runs the calls of one caller in sequence and returns how many were answered. Each
  /// answer must be right. A job that is cancelled, or whose index is withdrawn, ends
  /// with an error.
  int Call(SearchPool& pool, std::uint64_t caller, int jobs) {
    int answered = 0;
    for (int i = 0; i < jobs; ++i) {
      ServedIndex& index = i % 4 == 3 ? copy() : sift();
      const std::size_t queries = i % 3 == 0 ? 1 : 1 + static_cast<std::size_t>(i) % kQueries;
      RunningRequest& job = Keep(&index, queries);
      std::future<absl::Status> done = job.done();
      if (queries > 1 || !pool.TryRunHere(&job)) {
        // The pool refuses nothing: its limits are wide.
        EXPECT_EQ(pool.Submit(&job, caller), absl::OkStatus());
        if (i % 7 == 0) job.Cancel();
      }
      const absl::Status ended = done.get();
      if (ended.ok()) {
        ++answered;
        for (std::size_t q = 0; q < queries; ++q) EXPECT_EQ(job.found[q], expected_[q]);
      } else {
        EXPECT_TRUE(absl::IsCancelled(ended) || &index == &copy()) << ended;
      }
    }
    return answered;
  }

  const TempFolder folder_;
  const std::string copy_;
  Registry registry_;
  Metrics metrics_;
  ResolvedParams params_;
  std::vector<Labels> expected_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<RunningRequest>> jobs_;  // guarded by mutex_
};

TEST_F(RacesTest, CallersOperatorsAndWhatRunsInTheBackground) {
  constexpr int kCallers = 4, kJobs = 60;
  const std::string both = absl::StrCat(kKept, " read\n", kOther, " admin\n"),
                    one = absl::StrCat(kKept, " admin\n");
  const std::string tokens_file = folder_.Write("tokens", both);
  const auto tokens = *TokenFile::Open(tokens_file);
  SearchPool pool(2, {1000, 1 << 30, 1h});
  Scrubber scrubber(registry_, 1 << 30, [](const ServedIndex& index) {
    ADD_FAILURE() << index.name() << " is damaged: " << index.failure();
  });
  std::atomic<int> answered{0};
  {
    const Repeated scrapes(
        [&] { EXPECT_TRUE(absl::StrContains(metrics_.Text(pool, {}), "hmann_index_state")); });
    const Repeated places(
        [&] { EXPECT_FALSE(sift().Get()->generation().Placements(true).empty()); });
    const Repeated watches([&] {
      for (const auto& index : registry_.indexes()) index->WithdrawIfChanged();
      std::this_thread::sleep_for(1ms);
    });
    int turn = 0;
    const Repeated reloads([&] {
      folder_.Write("tokens.new", ++turn % 2 == 0 ? both : one);
      std::filesystem::rename(folder_.path() + "/tokens.new", tokens_file);
      EXPECT_TRUE(tokens->Reload().ok());
    });
    Access kept(tokens.get(), "Bearer kept");  // as of a stream
    const Repeated authorizes([&] {
      EXPECT_EQ(kept.Check(Role::kRead, "sift"), absl::OkStatus());
      EXPECT_EQ(Access(tokens.get(), "Bearer none").Check(Role::kRead).code(),
                absl::StatusCode::kUnauthenticated);
    });
    std::vector<std::thread> callers;
    callers.reserve(kCallers);
    for (std::uint64_t caller = 0; caller < kCallers; ++caller)
      callers.emplace_back([&, caller] { answered += Call(pool, caller, kJobs); });
    // After some answers from it, one index is withdrawn while the others are in use.
    while (sift().scrub().passes == 0) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(copy().Withdraw(absl::DataLossError("the test says so")));
    for (std::thread& caller : callers) caller.join();
  }
  EXPECT_GE(answered, kCallers * kJobs / 2);
  while (pool.load().bytes > 0 || pool.load().quick.busy + pool.load().bulk.busy > 0)
    std::this_thread::sleep_for(1ms);
  scrubber.Stop();
  // Every call was counted once.
  const std::string text = metrics_.Text(pool, {});
  int counted = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    int value = 0;
    const bool calls = absl::StartsWith(line, "hmann_request_seconds_count") ||
                       absl::StartsWith(line, "hmann_failed_requests_total");
    if (calls && absl::SimpleAtoi(line.substr(line.rfind(' ') + 1), &value)) counted += value;
  }
  EXPECT_EQ(counted, kCallers * kJobs);
}

}  // namespace
}  // namespace hmann::server
