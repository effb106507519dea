/// Attributes of rows that come and go: filters select what they say, wherever a row is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
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

TEST_F(RowAttributesTest, AMessageNamesRowAndLabel) {
  const std::string message(Put(7, {{"year", "old"}}).message());
  EXPECT_THAT(message, testing::HasSubstr("row 0 (label 7): attributes: year: expected"));
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

/// Nothing descends with the levels of what clients write, and the row is named.
TEST_F(RowAttributesTest, DeepNestingIsRefused) {
  const std::string lists = std::string(100'000, '[') + std::string(100'000, ']');
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  const std::string closed = objects + "1" + std::string(100'000, '}');
  ASSERT_TRUE(Put(1, {{"year", 2020}}).ok());
  for (const std::string& text : {R"({"a":)" + lists + "}", closed, objects, lists,
                                  R"({"year":)" + lists + "}", R"({"a":[1,)" + lists + "]}"}) {
    const std::vector<std::uint8_t> vector(kDim, 7);
    WriteBatch put, update;
    put.Put(5, vector.data(), kDim, "{}");
    put.Put(6, vector.data(), kDim, text);
    update.Update(1, text);
    const absl::Status no_put = collection_->Write(put).status();
    EXPECT_EQ(no_put.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(no_put.message()),
                testing::AllOf(testing::HasSubstr("row 1 (label 6): attributes: "),
                               testing::SizeIs(testing::Lt(300))));
    EXPECT_EQ(collection_->Write(update).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Found("year = 2020"), (std::set<std::uint64_t>{1}));
}

TEST_F(RowAttributesTest, ANestedObjectIsNamedByItsField) {
  for (const char* text : {R"({"a":{"b":1}})", R"({"b":1,"a":{}})", R"({"a":[{"year":1}]})"}) {
    const std::string message(Put(1, json::parse(text)).message());
    EXPECT_THAT(message, testing::AllOf(testing::HasSubstr("attributes: a: expected"),
                                        testing::HasSubstr("objects within one are no attribute")))
        << text;
  }
}

/// A collection has at most 1,000 fields, "year" among them; what is refused adds none.
TEST_F(RowAttributesTest, FieldsAreCounted) {
  const auto with = [](int first, int count, const json& value) {
    json row = json::object();
    for (int i = first; i < first + count; ++i) row[absl::StrCat("f", i)] = value;
    return row;
  };
  EXPECT_THAT(std::string(Put(1, with(0, 40'000, 1)).message()),
              testing::HasSubstr("row 0 (label 1): attributes: f10"));
  const std::vector<std::uint8_t> vector(kDim, 7);
  WriteBatch each;
  for (std::uint64_t i = 0; i < 1024; ++i)
    each.Put(i, vector.data(), kDim, with(static_cast<int>(i), 1, 1).dump());
  const auto refused = collection_->Write(each);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              testing::HasSubstr("row 999 (label 999): attributes: f999: expected at most 1000"));
  ASSERT_TRUE(Put(1, with(0, 999, "x")).ok());
  EXPECT_FALSE(Put(2, with(999, 1, 1)).ok());
  EXPECT_FALSE(Put(2, {{std::string(257, 'n'), 1}}).ok());
  ASSERT_TRUE(Put(2, with(3, 5, "x")).ok());
  Open();
  EXPECT_EQ(Found("f7 = \"x\" and f998 is null"), (std::set<std::uint64_t>{2}));
}

/// Fields that others add meanwhile have their places; a type is that of the first.
TEST_F(RowAttributesTest, ManyWritersAddFieldsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> put = 0, refused = 0;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<std::uint8_t> vector(kDim, 7);
      for (std::uint64_t i = 0; i < 50; ++i) {
        WriteBatch batch;
        batch.Put(t * 50 + i, vector.data(), kDim,
                  absl::StrCat("{\"own", t, "\":", i, ",\"both", i,
                               "\":", t == 0 ? "\"text\"" : "7", ",\"all\":", t, "}"));
        (collection_->Write(batch).ok() ? put : refused)++;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(put + refused, 200);
  const auto check = [&] {
    std::size_t found = 0;
    for (int t = 0; t < 4; ++t) {
      const std::size_t own = Found(absl::StrCat("own", t, " >= 0")).size();
      EXPECT_EQ(own, Found(absl::StrCat("all = ", t)).size());
      found += own;
    }
    EXPECT_EQ(found, static_cast<std::size_t>(put));
  };
  check();
  Open();
  check();
}

/// What a row may have bounds it however it came to it, so that it can be read again.
TEST_F(RowAttributesTest, ARowThatGrowsByUpdatesIsBounded) {
  ASSERT_TRUE(Put(1, {{"year", 2020}}).ok());
  std::vector<std::uint8_t> vector(kDim, 7);
  json row = {{"year", 2020}};
  int updates = 0;
  absl::Status status;
  for (; updates < 40 && status.ok(); ++updates) {
    const json patch = {{absl::StrCat("t", updates), {std::string(60'000, 'x')}}};
    WriteBatch batch;
    batch.Update(1, patch.dump());
    status = collection_->Write(batch).status();
    if (status.ok()) row.merge_patch(patch);
  }
  EXPECT_EQ(updates, 18);  // of 60,008 bytes, in 1,048,576
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("row 0 (label 1): attributes: expected at most 1048576 bytes"));
  json numbers = json::array();
  for (int i = 0; i < 40'000; ++i) numbers.push_back(i);
  ASSERT_TRUE(Put(2, {{"a", numbers}}).ok());
  WriteBatch more;
  more.Update(2, json{{"b", numbers}}.dump());
  EXPECT_THAT(std::string(collection_->Write(more).status().message()),
              testing::HasSubstr("at most 65536 tags"));
  // A row may be longer as it is written than as it was given.
  std::string longer = R"({"year":1)";
  for (int i = 0; i < 940; ++i) absl::StrAppend(&longer, ",\"f", i, "\":1e9");
  for (int i = 0; i < 18; ++i)
    absl::StrAppend(
        &longer, ",\"x", i, "\":\"",
        std::string(std::min<std::size_t>(60'000, (1 << 20) - 2'000 - longer.size()), 'x'), "\"");
  longer += '}';
  EXPECT_LT(longer.size(), 1u << 20);
  WriteBatch grows;
  grows.Put(3, vector.data(), kDim, longer);
  EXPECT_THAT(std::string(collection_->Write(grows).status().message()),
              testing::HasSubstr("expected at most 1048576 bytes as JSON, found 105"));
  rows_ = {{1, row}, {2, {{"a", numbers}}}};
  Open();
  CollectionSearcher reader;
  for (const auto& [label, expected] : rows_) {
    std::vector<std::string> attributes;
    ASSERT_TRUE(reader.Get(*collection_->Now(), {&label, 1}, vector.data(), &attributes).ok());
    EXPECT_TRUE(json::parse(attributes[0]) == expected) << label;
  }
}

/// A text with date, time and zone is a time; so ranges hold. Others are tags.
TEST_F(RowAttributesTest, TimesAreTimes) {
  ASSERT_TRUE(Put(1, {{"made", "2026-05-01T12:00:00Z"}, {"day", "2026-05-01"}}).ok());
  ASSERT_TRUE(Put(2, {{"made", "2026-05-02T00:00:00.5+02:00"}}).ok());
  ASSERT_TRUE(Put(3, {{"made", nullptr}, {"words", {"2026-05-02T00:00:00Z"}}}).ok());
  EXPECT_EQ(Found("made > \"2026-05-01T13:00:00Z\""), (std::set<std::uint64_t>{2}));
  EXPECT_EQ(Found("made >= \"2026-05-01\" and day = \"2026-05-01\""), (std::set<std::uint64_t>{1}));
  EXPECT_EQ(Found("words = \"2026-05-02T00:00:00Z\""), (std::set<std::uint64_t>{3}));
  EXPECT_THAT(std::string(Put(4, {{"made", "soon"}}).message()), testing::HasSubstr("made"));
}

TEST_F(RowAttributesTest, AFilterWithoutAttributesSaysSo) {
  ASSERT_TRUE(Put(1, {{"year", 2020}}).ok());
  EXPECT_EQ(Found("year = 2020"), (std::set<std::uint64_t>{1}));
  const auto filter = Filter::Parse("colour = \"red\"");
  const auto of_other = Prepare(collection_->Now(), {}, &*filter);
  EXPECT_THAT(std::string(of_other.status().message()),
              testing::HasSubstr("there is no field colour, only year"));
}

}  // namespace
}  // namespace hmann
