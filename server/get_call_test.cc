// Fetches vectors by label through a real server, and checks the code of every bad
// request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using testing::HasSubstr;

constexpr std::size_t kGetDim = 128;

class GetCallTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ServerOptions options = LoopbackOptions({{"sift", SampleIndex()}, {"cosine", CosineIndex()}});
    options.limits.max_batch = 300;
    options.limits.max_reply_bytes = 250 * kGetDim;
    served_ = new Served(options);
    base_ = new VectorFile(*VectorFile::Open("datasets/sample/base.u8bin"));
  }
  static void TearDownTestSuite() {
    delete served_;
    delete base_;
  }
  static client::Client& client() { return *served_->client; }

  /// Expects the vectors of `labels`, which are row numbers of the sample.
  static void ExpectRows(const std::string& index, const std::vector<std::uint64_t>& labels) {
    const auto vectors = client().Get(index, labels);
    ASSERT_TRUE(vectors.ok()) << vectors.status();
    ASSERT_EQ(vectors->size(), labels.size() * kGetDim);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      EXPECT_TRUE(std::equal(base_->Row(labels[i]), base_->Row(labels[i]) + kGetDim,
                             vectors->begin() + static_cast<std::ptrdiff_t>(i * kGetDim)))
          << labels[i];
    }
  }
  static absl::Status Refusal(const std::string& index, const std::vector<std::uint64_t>& labels) {
    return client().Get(index, labels).status();
  }

  static inline Served* served_ = nullptr;
  static inline VectorFile* base_ = nullptr;
};

TEST_F(GetCallTest, GivesTheVectorOfEachLabel) {
  ExpectRows("sift", {0});
  ExpectRows("sift", {9999, 3, 3, 17});
  std::vector<std::uint64_t> labels(250);
  std::iota(labels.begin(), labels.end(), 750);
  ExpectRows("cosine", labels);
  ExpectRows("sift", labels);
}

TEST_F(GetCallTest, BesideSearchesEachHasItsOwn) {
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (std::uint64_t i = 0; i < 30; ++i) {
        ExpectRows("sift", {(t + i * 331) % 10000, i, t});
        const auto found = client().Search("sift", client::Vectors::Raw(SampleQueries(i, 1)), {});
        ASSERT_TRUE(found.ok()) << found.status();
        ExpectRows("sift", found->ids);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GetCallTest, WhatIsWrongIsNamed) {
  const absl::Status none = Refusal("sift", {});
  EXPECT_TRUE(absl::IsInvalidArgument(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("labels: expected one or more, found none"));
  EXPECT_TRUE(HasDetail(none, "google.rpc.BadRequest"));

  const absl::Status many = Refusal("sift", std::vector<std::uint64_t>(301));
  EXPECT_TRUE(absl::IsInvalidArgument(many)) << many;
  EXPECT_THAT(std::string(many.message()), HasSubstr("labels: expected at most 300, found 301"));

  const absl::Status large = Refusal("sift", std::vector<std::uint64_t>(251));
  EXPECT_TRUE(absl::IsInvalidArgument(large)) << large;
  EXPECT_EQ(Reason(large), "REPLY_TOO_LARGE");
  EXPECT_THAT(std::string(large.message()), HasSubstr("labels: the answers would take 32128"));

  const absl::Status missing = Refusal("sift", {3, 10000});
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("label 10000: no vector of the index has it [label 10000]"));
  EXPECT_TRUE(HasDetail(missing, "google.rpc.ResourceInfo"));
  EXPECT_TRUE(absl::IsNotFound(Refusal("cosine", {1000})));

  const absl::Status unknown = Refusal("nothing", {3});
  EXPECT_TRUE(absl::IsNotFound(unknown)) << unknown;
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("[index nothing]"));

  const std::uint64_t one = 1;
  client::Cancellation cancellation;
  cancellation.Cancel();
  EXPECT_TRUE(
      absl::IsCancelled(client().Get("sift", {&one, 1}, {.cancellation = &cancellation}).status()));
}

}  // namespace
}  // namespace hmann::server
