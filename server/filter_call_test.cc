// Filters over the wire: the answers are the engine's, and each error has its code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/base/check.h"
#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using testing::HasSubstr;

/// The sample with its attributes, and without.
class FilterCallTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    path_ = new std::string(absl::StrCat(testing::TempDir(), "filter_", ::getpid(), ".hmann"));
    std::filesystem::copy_file(SampleIndex(), *path_,
                               std::filesystem::copy_options::overwrite_existing);
    Progress quiet(Progress::Show::kNever);
    HMANN_CHECK(
        MakeAttributes(*path_, {.from = "datasets/sample/attributes.csv", .types = ""}, quiet)
            .ok());
    served_ = new Served(LoopbackOptions({{"attrs", *path_}, {"bare", SampleIndex()}}));
  }
  static void TearDownTestSuite() {
    delete served_;
    std::filesystem::remove(*path_);
    std::filesystem::remove(Attributes::PathOf(*path_));
    delete path_;
  }
  static absl::Status Error(const std::string& filter, const std::string& index = "attrs") {
    return served_->client
        ->Search(index, client::Vectors::Raw(SampleQueries(0, 1)), {.k = 10}, {.filter = filter})
        .status();
  }

  static inline Served* served_ = nullptr;
  static inline std::string* path_ = nullptr;
};

TEST_F(FilterCallTest, AnswersAreThoseOfTheEngine) {
  const auto index = *Index::Open(*path_);
  Searcher searcher(index);
  for (const char* text : {"direction = 'N'", "strength > 3000 and not direction in ('E', 'W')",
                           "strength > 5200", "strength < 0", "direction is not null"}) {
    SCOPED_TRACE(text);
    const auto matches = index->Filtered(*Filter::Parse(text));
    ASSERT_TRUE(matches.ok()) << matches.status();
    const client::CallOptions call{.filter = text};
    const auto batch = served_->client->SearchBatch(
        "attrs", client::Vectors::Raw(SampleQueries(0, 20), SampleQueries(0, 20).size() / 128),
        {.k = 10}, call);
    ASSERT_TRUE(batch.ok()) << batch.status();
    std::size_t at = 0;
    for (std::size_t i = 0; i < 20; ++i) {
      Answer expected;
      const SearchParams params{.k = 10, .matches = matches->get()};
      ASSERT_TRUE(searcher.Search(SampleQueries(i, 1).data(), params, &expected).ok());
      const auto answer = served_->client->Search(
          "attrs", client::Vectors::Raw(SampleQueries(i, 1)), {.k = 10}, call);
      ASSERT_TRUE(answer.ok()) << answer.status();
      ASSERT_EQ(answer->ids.size(), expected.nearest.size());
      ASSERT_EQ(batch->counts[i], expected.nearest.size());
      for (const Neighbor& neighbor : expected.nearest) {
        EXPECT_EQ(answer->ids[static_cast<std::size_t>(&neighbor - expected.nearest.data())],
                  neighbor.label);
        EXPECT_EQ(batch->ids[at++], neighbor.label);
      }
    }
  }
}

TEST_F(FilterCallTest, ABlankFilterIsRefused) {
  const client::Vectors query = client::Vectors::Raw(SampleQueries(0, 1));
  for (const std::string blank : {"", " ", "\t\n"}) {
    const client::CallOptions call{.filter = blank};
    EXPECT_EQ(Error(blank).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Error(blank, "bare").code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(served_->client->SearchBatch("attrs", query, {}, call).status().code(),
              absl::StatusCode::kInvalidArgument);
    client::SearchStream stream = served_->client->OpenStream("attrs", {.k = 5}, call);
    ASSERT_TRUE(stream.Send(1, query).ok() && stream.DoneSending().ok());
    const auto received = stream.Receive();
    EXPECT_FALSE(received.ok() && received->has_value() && (*received)->answer.ok());
  }
  EXPECT_TRUE(served_->client->Search("attrs", query, {}, {}).ok());
}

TEST_F(FilterCallTest, AnswersAreTheSameOnAnyNumberOfThreads) {
  const std::string text = "strength > 3000";
  const auto index = *Index::Open(*path_);
  const auto matches = *index->Filtered(*Filter::Parse(text));
  for (const SearchMode mode : {SearchMode::kGraph, SearchMode::kMultiStart, SearchMode::kScan}) {
    const SearchParams params{.k = 10, .mode = mode};
    SearchParams local = params;
    local.matches = matches.get();
    std::vector<Answer> expected(20);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_TRUE(Searcher(index).Search(SampleQueries(i, 1).data(), local, &expected[i]).ok());
    }
    for (const int threads : {1, 2, 7}) {
      SCOPED_TRACE(absl::StrCat(Name(mode).data(), " ", threads));
      ServerOptions options = LoopbackOptions({{"attrs", *path_}});
      options.threads = threads;
      const Served served(options);
      std::vector<std::jthread> callers;
      for (int caller = 0; caller < 7; ++caller) {
        callers.emplace_back([&] {
          for (std::size_t i = 0; i < expected.size(); ++i) {
            const auto answer = served.client->Search(
                "attrs", client::Vectors::Raw(SampleQueries(i, 1)), params, {.filter = text});
            ASSERT_TRUE(answer.ok()) << answer.status();
            ASSERT_EQ(answer->ids.size(), expected[i].nearest.size());
            EXPECT_EQ(answer->matches, matches->size());
            for (std::size_t j = 0; j < answer->ids.size(); ++j) {
              EXPECT_EQ(answer->ids[j], expected[i].nearest[j].label);
              EXPECT_EQ(answer->distances[j], expected[i].nearest[j].distance);
            }
          }
        });
      }
    }
  }
}

TEST_F(FilterCallTest, WhatIsServedKeepsItsAttributes) {
  const std::string path = *path_ + ".replaced", rows = path + ".ndjson";
  std::filesystem::copy_file(*path_, path);
  const auto make = [&](std::uint64_t from) {
    std::ofstream out(rows);
    for (std::uint64_t i = 0; i < 10'000; ++i)
      out << R"({"new": )" << (i >= from ? "true" : "false") << "}\n";
    out.close();
    Progress quiet(Progress::Show::kNever);
    HMANN_CHECK(MakeAttributes(path, {.from = rows, .types = ""}, quiet).ok());
  };
  const auto matching = [](const Served& served, const std::string& filter) {
    const auto answer = served.client->Search("it", client::Vectors::Raw(SampleQueries(0, 1)),
                                              {.k = 10}, {.filter = filter});
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->matches : std::nullopt;
  };
  make(1000);
  const Served before(LoopbackOptions({{"it", path}}));
  EXPECT_EQ(matching(before, "new"), 9000u);
  make(4000);
  EXPECT_EQ(matching(before, "new"), 9000u);
  EXPECT_EQ(matching(before, "not new"), 1000u) << "a filter that was not evaluated before";
  EXPECT_EQ(matching(Served(LoopbackOptions({{"it", path}})), "new"), 6000u);
  for (const std::string& file : {path, rows, Attributes::PathOf(path)})
    std::filesystem::remove(file);
}

TEST_F(FilterCallTest, ArgumentsAreTyped) {
  const auto search = [&](const client::CallOptions& call) {
    return served_->client->Search("attrs", client::Vectors::Raw(SampleQueries(0, 1)), {.k = 10},
                                   call);
  };
  const auto pasted = search({.filter = "strength > 3000 and direction in ('E', 'W')"});
  ASSERT_TRUE(pasted.ok()) << pasted.status();
  EXPECT_GT(pasted->matches, 10u);
  for (const FilterValue& least : std::vector<FilterValue>{std::int64_t{3000}, 3000.0}) {
    const auto given = search({.filter = "strength > $least and direction in $some",
                               .filter_arguments = {{"least", {least}}, {"some", {"E", "W"}}}});
    ASSERT_TRUE(given.ok()) << given.status();
    EXPECT_EQ(given->ids, pasted->ids);
    EXPECT_EQ(given->matches, pasted->matches);
  }
  EXPECT_EQ(search({})->matches, std::nullopt);
  const auto error = [&](const client::CallOptions& call) {
    const absl::Status status = search(call).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error({.filter = "direction = $it"}), HasSubstr("$it"));
  EXPECT_THAT(error({.filter = "direction = 'N'", .filter_arguments = {{"it", {true}}}}),
              HasSubstr("it"));
  EXPECT_THAT(error({.filter_arguments = {{"it", {"N"}}}}), HasSubstr("filter_arguments"));
}

TEST_F(FilterCallTest, AStreamKeepsItsFilter) {
  const std::string text = "direction = 'N'";
  client::SearchStream stream = served_->client->OpenStream("attrs", {.k = 5}, {.filter = text});
  for (std::uint64_t i = 0; i < 30; ++i)
    ASSERT_TRUE(stream.Send(i, client::Vectors::Raw(SampleQueries(i, 1))).ok());
  ASSERT_TRUE(stream.DoneSending().ok());
  const auto index = *Index::Open(*path_);
  const auto matches = *index->Filtered(*Filter::Parse(text));
  Searcher searcher(index);
  for (std::uint64_t received = 0; received < 30; ++received) {
    const auto next = stream.Receive();
    ASSERT_TRUE(next.ok() && next->has_value()) << next.status();
    ASSERT_TRUE((*next)->answer.ok()) << (*next)->answer.status();
    Answer expected;
    const SearchParams params{.k = 5, .matches = matches.get()};
    ASSERT_TRUE(searcher.Search(SampleQueries((*next)->id, 1).data(), params, &expected).ok());
    ASSERT_EQ((*next)->answer->ids.size(), expected.nearest.size());
    for (std::size_t j = 0; j < expected.nearest.size(); ++j)
      EXPECT_EQ((*next)->answer->ids[j], expected.nearest[j].label);
  }
}

TEST_F(FilterCallTest, WhatCannotBeIsNamed) {
  for (const auto& [filter, words] : {
           std::pair(std::string("direction ="), "column 12: expected a value"),
           std::pair(std::string("color = 1"), "there is no field color"),
           std::pair(std::string("strength = 'x'"), "strength is int64"),
           std::pair("direction = '" + std::string(1 << 20, 'x') + "'", "1048576"),
       }) {
    const absl::Status status = Error(filter);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("field options.filter"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
    EXPECT_TRUE(HasDetail(status, "google.rpc.BadRequest"));
  }
  const absl::Status bare = Error("direction = 'N'", "bare");
  EXPECT_EQ(bare.code(), absl::StatusCode::kFailedPrecondition) << bare;
  EXPECT_EQ(Reason(bare), "NO_ATTRIBUTES");
}

}  // namespace
}  // namespace hmann::server
