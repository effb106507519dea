/// Attributes of rows that come and go: filters select what they say, wherever a row is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "hmann/collection.h"
#include "index/base/random.h"
#include "index/collection/testing/small_collection.h"
#include "nlohmann/json.hpp"

namespace hmann {
namespace {

using nlohmann::json;

class RowAttributesTest : public SmallCollectionTest {
 protected:
  RowAttributesTest() : SmallCollectionTest("year:int64") {}

  json Made() {
    json row = json::object();
    if (Draw(10) > 0) row["year"] = 2000 + static_cast<int>(Draw(30));
    if (Draw(3) > 0) row["tags"] = Draw(2) == 0 ? json{"cat"} : json{"cat", "dog"};
    if (Draw(2) > 0) row["sold"] = Draw(2) == 0;
    return row;
  }
  absl::Status Put(std::uint64_t label, const json& attributes) {
    std::vector<std::uint8_t> vector(kDim);
    for (std::uint8_t& c : vector) c = static_cast<std::uint8_t>(Draw(250));
    WriteBatch batch;
    batch.Put(label, vector.data(), kDim, attributes.dump());
    const absl::Status status = collection_->Write(batch).status();
    if (status.ok()) rows_[label] = attributes;
    return status;
  }
  void Write(int changes) {
    for (int i = 0; i < changes; ++i) {
      const std::uint64_t label = Draw(200), kind = Draw(8);
      WriteBatch batch;
      if (kind == 0) {
        rows_.erase(label);
        batch.Delete(label);
        ASSERT_TRUE(collection_->Write(batch).ok());
      } else if (kind < 3 && rows_.contains(label)) {
        const json patch = {{"year", nullptr}, {"sold", true}};
        rows_[label].merge_patch(patch);
        batch.Update(label, patch.dump());
        ASSERT_TRUE(collection_->Write(batch).ok());
      } else {
        ASSERT_TRUE(Put(label, Made()).ok());
      }
    }
  }

  std::set<std::uint64_t> Found(const std::string& text) {
    std::set<std::uint64_t> labels;
    const auto filter = Filter::Parse(text);
    EXPECT_TRUE(filter.ok()) << filter.status();
    const auto prepared =
        Prepare(collection_->Now(), {.k = 1000, .mode = SearchMode::kScan}, &*filter);
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    if (!prepared.ok()) return labels;
    Answer answer;
    CollectionSearcher searcher;
    const std::vector<std::uint8_t> query(kDim, 100);
    EXPECT_TRUE(searcher.Search(query.data(), **prepared, &answer).ok());
    EXPECT_EQ(answer.nearest.size(), MatchingRows(**prepared));
    for (const Neighbor& neighbor : answer.nearest) labels.insert(neighbor.label);
    return labels;
  }
  std::set<std::uint64_t> Expected(const std::function<bool(const json&)>& holds) const {
    std::set<std::uint64_t> labels;
    for (const auto& [label, row] : rows_)
      if (holds(row)) labels.insert(label);
    return labels;
  }
  static bool HasTag(const json& row, const char* tag) {
    const json tags = row.value("tags", json::array());
    return std::find(tags.begin(), tags.end(), tag) != tags.end();
  }
  void Check() {
    EXPECT_EQ(Found("year >= 2015"),
              Expected([](const json& row) { return row.value("year", 0) >= 2015; }));
    EXPECT_EQ(Found("tags = \"dog\" and not sold"), Expected([](const json& row) {
                return HasTag(row, "dog") && !row.value("sold", false);
              }));
    EXPECT_EQ(Found("year is null or sold"), Expected([](const json& row) {
                return !row.contains("year") || row.value("sold", false);
              }));
    CollectionSearcher reader;
    std::vector<std::uint8_t> vector(kDim);
    for (const auto& [label, row] : rows_) {
      std::vector<std::string> attributes;
      const absl::Status status =
          reader.Get(*collection_->Now(), {&label, 1}, vector.data(), &attributes);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(json::parse(attributes[0]), row) << label;
    }
  }

  std::uint64_t Draw(std::uint64_t bound) { return RandomBelow(11, drawn_++, bound); }

  std::map<std::uint64_t, json> rows_;
  std::uint64_t drawn_ = 0;
};

TEST_F(RowAttributesTest, FiltersSelectWhatTheySay) {
  Write(300);
  Check();
  Open();
  Check();
  Compact();
  Check();
  Write(300);
  Check();
  Compact();
  Open();
  Check();
}

/// The sealed index has no such field yet.
TEST_F(RowAttributesTest, AFieldMayComeLater) {
  Write(100);
  Compact();
  EXPECT_THAT(Filter::Parse("price > 3").status().message(), "");
  ASSERT_TRUE(Put(1000, {{"price", 4.5}}).ok());
  ASSERT_TRUE(Put(1001, {{"price", 2.5}, {"year", 2020}}).ok());
  EXPECT_EQ(Found("price > 3"), (std::set<std::uint64_t>{1000}));
  EXPECT_EQ(Found("price is null").size(), rows_.size() - 2);
  Open();
  EXPECT_EQ(Found("price > 3"), (std::set<std::uint64_t>{1000}));
  Compact();
  EXPECT_EQ(Found("price > 3"), (std::set<std::uint64_t>{1000}));
  EXPECT_EQ(Found("price is null").size(), rows_.size() - 2);
}

/// Neither null nor an empty list tells a type.
TEST_F(RowAttributesTest, AFieldMayBeginWithNothing) {
  for (const char* nothing : {"null", "[]"}) {
    ASSERT_TRUE(Put(1, {{"price", json::parse(nothing)}, {"year", 2020}}).ok()) << nothing;
    EXPECT_EQ(Found("year = 2020"), (std::set<std::uint64_t>{1}));
  }
  ASSERT_TRUE(Put(2, {{"price", 4.5}}).ok());
  EXPECT_EQ(Found("price > 3"), (std::set<std::uint64_t>{2}));
  EXPECT_EQ(Found("price is null"), (std::set<std::uint64_t>{1}));
  ASSERT_TRUE(Put(2, {{"price", nullptr}}).ok());
  EXPECT_EQ(Found("price is null"), (std::set<std::uint64_t>{1, 2}));
}

TEST_F(RowAttributesTest, AMessageNamesTheLabelAndNoRow) {
  const std::string message(Put(7, {{"year", "old"}}).message());
  EXPECT_THAT(message, testing::HasSubstr("label 7: attributes: year: expected"));
}

TEST_F(RowAttributesTest, WhatAFilterSelectsIsDeleted) {
  Write(200);
  Compact();
  Write(100);
  const auto filter = Filter::Parse("year >= 2015");
  const std::set<std::uint64_t> gone =
      Expected([](const json& row) { return row.value("year", 0) >= 2015; });
  const auto written = collection_->Delete(*filter);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->rows, gone.size());
  for (const std::uint64_t label : gone) rows_.erase(label);
  Check();
  Open();
  Check();
}

TEST_F(RowAttributesTest, WrongAttributesAreNamed) {
  ASSERT_TRUE(Put(1, {{"year", 2020}, {"tags", {"cat"}}}).ok());
  const auto why = [&](const json& row) { return std::string(Put(2, row).message()); };
  EXPECT_THAT(why({{"year", "soon"}}), testing::HasSubstr("year"));
  EXPECT_THAT(why({{"tags", {{"of", "what"}}}}), testing::HasSubstr("tags"));
  EXPECT_THAT(why(json::array()), testing::HasSubstr("object"));
  WriteBatch batch;
  batch.Update(7, "{\"year\": 1}");
  EXPECT_EQ(collection_->Write(batch).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(collection_->info().live, 1u);
  const auto filter = Filter::Parse("colour = \"red\"");
  const auto prepared = Prepare(collection_->Now(), {}, &*filter);
  EXPECT_THAT(std::string(prepared.status().message()), testing::HasSubstr("colour"));
}

}  // namespace
}  // namespace hmann
