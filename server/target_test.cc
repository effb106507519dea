// Targets and budgets over the wire: the tuned table chooses, the reply reports the
// choice, and an impossible target gives a named error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "hmann/tuned_table.h"
#include "index/base/check.h"
#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

/// The sample, tuned as the test needs it.
class TargetTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    path_ = new std::string(absl::StrCat(testing::TempDir(), "target_", ::getpid(), ".hmann"));
    std::filesystem::copy_file(SampleIndex(), *path_,
                               std::filesystem::copy_options::overwrite_existing);
    TunedEntry entry{.placement = {"dram", "mapped", "none"},
                     .k = 10,
                     .queries = 100,
                     .origin = "test",
                     .cpu = "",
                     .simd = "",
                     .settings = {}};
    for (const std::uint32_t ef_l0 : {20u, 80u, 320u}) {
      TunedSetting setting;
      setting.params.k = 10;
      setting.params.ef_l1 = 4;
      setting.params.ef_l0 = ef_l0;
      setting.recall = 1 - 1.0 / static_cast<double>(ef_l0);
      setting.recall_low = setting.recall - 0.001;
      setting.mean_us = static_cast<double>(ef_l0);
      entry.settings.push_back(setting);
    }
    TunedTable table{.content_hash = ReadInfo(*path_)->content_hash, .entries = {}};
    table.Put(entry);
    HMANN_CHECK(WriteTunedTable(*path_, table).ok());
    served_ = new Served(LoopbackOptions({{"tuned", *path_}, {"untuned", SampleIndex()}}));
  }
  static void TearDownTestSuite() {
    delete served_;
    std::filesystem::remove(*path_);
    std::filesystem::remove(TunedPath(*path_));
    delete path_;
  }

  static absl::StatusOr<client::Answer> Search(const client::SearchParams& options,
                                               const std::string& index = "tuned") {
    return served_->client->Search(index, client::Vectors::Raw(SampleQueries(0, 1)), options);
  }

  static inline std::string* path_ = nullptr;
  static inline Served* served_ = nullptr;
};

TEST_F(TargetTest, ARecallChoosesTheParamsAndTheReplySaysWhich) {
  const auto answer = Search({.recall = 0.98});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->params.ef_l0, 51u) << "between 20, of 0.95, and 80, of 0.9875";
  EXPECT_EQ(answer->params.mode, SearchMode::kGraph);
  ASSERT_TRUE(answer->predicted.has_value());
  EXPECT_DOUBLE_EQ(answer->predicted->recall, 0.98);
  EXPECT_NEAR(*answer->predicted->mean_us, 50.3, 0.1);
  EXPECT_EQ(answer->predicted->predicted_for, "queries like test");
  EXPECT_FALSE(answer->cut_short);
  const auto by_hand = Search({.ef_l1 = 4, .ef_l0 = 51, .mode = SearchMode::kGraph});
  EXPECT_EQ(answer->ids, by_hand->ids);
  EXPECT_FALSE(by_hand->predicted.has_value());
}

TEST_F(TargetTest, ALatencyChoosesTheBestRecallThatKeepsIt) {
  EXPECT_EQ(Search({.latency = 100us})->params.ef_l0, 98u) << "with 3 % to spare";
  EXPECT_EQ(Search({.latency = 1ms})->params.ef_l0, 320u);
  const auto batch = served_->client->SearchBatch(
      "tuned", client::Vectors::Raw(SampleQueries(0, 9), SampleQueries(0, 9).size() / 128),
      {.recall = 0.9, .latency = 1ms});
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->params.ef_l0, 20u);
  EXPECT_DOUBLE_EQ(*batch->predicted->mean_us, 20);
}

TEST_F(TargetTest, WhatCannotBeIsNamed) {
  const auto expect = [](const client::SearchParams& options, const std::string& field,
                         const std::string& words) {
    const absl::Status status = Search(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("field " + field));
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  };
  expect({.recall = 0.9999}, "options.recall", "cannot be met");
  expect({.recall = 0.9999}, "options.recall", "the best is recall 0.9969");
  expect({.latency = 1us}, "options.latency_us", "cannot be met");
  expect({.recall = 1.5}, "options.recall", "(0, 1]");
  expect({.latency = 0us}, "options.latency_us", "at least 1");
  expect({.ef_l1 = 5, .recall = 0.9}, "options.recall",
         "a target or parameters, found both: ef_l1");
  expect({.epsilon = 0.2f, .recall = 0.9}, "options.recall",
         "a target or parameters, found both: epsilon");
  expect({.budget = 2h}, "options.budget_us", "at most");
}

TEST_F(TargetTest, AnIndexThatIsNotTunedForItIsAPrecondition) {
  for (const auto& [index, k] : {std::pair("untuned", 10u), std::pair("tuned", 7u)}) {
    const absl::Status status = Search({.k = k, .recall = 0.9}, index).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_EQ(Reason(status), "NOT_TUNED");
    EXPECT_THAT(std::string(status.message()), HasSubstr("hmann tune"));
    EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("/")));
  }
}

TEST_F(TargetTest, ABudgetCutsALongSearchShortAndSaysSo) {
  client::SearchParams slow = SlowParams();
  slow.budget = 100us;
  const auto cut = Search(slow);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_TRUE(cut->cut_short);
  EXPECT_GE(cut->ids.size(), 1u);
  EXPECT_TRUE(std::is_sorted(cut->distances.begin(), cut->distances.end()));
  const auto batch = served_->client->SearchBatch(
      "tuned", client::Vectors::Raw(SampleQueries(0, 5), SampleQueries(0, 5).size() / 128), slow);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->cut_short, 5u);
  EXPECT_EQ(batch->counts.size(), 5u);
  const auto free = Search({.budget = 10min});
  ASSERT_TRUE(free.ok()) << free.status();
  EXPECT_FALSE(free->cut_short);
  EXPECT_EQ(free->ids.size(), 10u);
}

}  // namespace
}  // namespace hmann::server
