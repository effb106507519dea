/// Labels that are strings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "hmann/collection.h"
#include "index/base/file.h"
#include "index/base/random.h"
#include "index/collection/testing/small_collection.h"

namespace hmann {
namespace {

using NamedVector = std::vector<std::uint8_t>;

class NamesTest : public SmallCollectionTest {
 protected:
  static NamedVector Some(std::uint64_t seed) {
    NamedVector vector(kDim);
    for (std::size_t i = 0; i < kDim; ++i)
      vector[i] = static_cast<std::uint8_t>(Random(seed, i) % 250);
    return vector;
  }
  absl::Status Put(const VectorLabel& label, std::uint64_t seed) {
    WriteBatch batch;
    batch.Put(label, Some(seed).data(), kDim);
    return collection_->Write(batch).status();
  }
  absl::Status Delete(const VectorLabel& label) {
    WriteBatch batch;
    batch.Delete(label);
    return collection_->Write(batch).status();
  }
  /// The vectors of all labels, numbers in words.
  std::map<std::string, NamedVector> All() {
    std::map<std::string, NamedVector> all;
    const auto prepared = Prepare(collection_->Now(), {.k = 10'000, .mode = SearchMode::kScan});
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    CollectionSearcher searcher;
    Answer answer;
    EXPECT_TRUE(searcher.Search(Some(0).data(), **prepared, &answer).ok());
    for (const Neighbor& neighbor : answer.nearest) {
      NamedVector vector(kDim);
      EXPECT_TRUE(searcher.Get(*collection_->Now(), {&neighbor.label, 1}, vector.data()).ok());
      const auto names = collection_->Names({&neighbor.label, 1});
      EXPECT_TRUE(names.ok()) << names.status();
      all[(*names)[0].empty() ? absl::StrCat(neighbor.label) : (*names)[0]] = vector;
    }
    return all;
  }
  bool IsInAFile(const std::string& text) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      const auto file = MappedFile::Open(entry.path());
      if (!file.ok()) continue;
      const std::string_view bytes(reinterpret_cast<const char*>(file->bytes().data()),
                                   file->bytes().size());
      if (bytes.find(text) != bytes.npos) return true;
    }
    return false;
  }
};

TEST_F(NamesTest, ComeBackFromSearchesWhereverTheVectorIs) {
  std::map<std::string, NamedVector> expected;
  for (int i = 0; i < 600; ++i) {
    const std::string name = absl::StrCat("käse/", i % 400, "\n\"");
    ASSERT_TRUE(Put(name, static_cast<std::uint64_t>(i)).ok());
    expected[name] = Some(static_cast<std::uint64_t>(i));
    if (i % 50 == 0) {
      ASSERT_TRUE(Put(i, 1000).ok());
      expected[absl::StrCat(i)] = Some(1000);
    }
    if (i == 300) Compact();
  }
  EXPECT_EQ(All(), expected);
  Open();
  EXPECT_EQ(All(), expected);
  ASSERT_TRUE(Delete("käse/7\n\"").ok());
  expected.erase("käse/7\n\"");
  Compact();
  EXPECT_EQ(All(), expected);
  Open(true);
  EXPECT_EQ(All(), expected);
}

TEST_F(NamesTest, AreErasedWithTheirVectors) {
  for (const char* name : {"a secret name", "another name", "a third name"})
    ASSERT_TRUE(Put(name, 1).ok());
  Compact();
  ASSERT_TRUE(Delete("a secret name").ok());
  ASSERT_TRUE(Delete("another name").ok());
  EXPECT_TRUE(IsInAFile("a secret name"));
  ASSERT_TRUE(Put("another name", 2).ok());
  Compact();
  EXPECT_FALSE(IsInAFile("a secret name"));
  EXPECT_TRUE(IsInAFile("another name"));
  EXPECT_EQ(All(), (std::map<std::string, NamedVector>{{"another name", Some(2)},
                                                       {"a third name", Some(1)}}));
  ASSERT_TRUE(Put("a secret name", 3).ok());
  EXPECT_EQ(All().at("a secret name"), Some(3));
}

TEST_F(NamesTest, StandForNumbersThatAreTheSameEverywhere) {
  EXPECT_EQ(VectorLabel("photo-17").number(), VectorLabel(std::string("photo-17")).number());
  EXPECT_GE(VectorLabel("").number(), std::uint64_t{1} << 63);
  EXPECT_LT(VectorLabel("x").number(), ~std::uint64_t{0});
  EXPECT_EQ(VectorLabel("photo-17").number(), 10353524598303093730U);
}

TEST_F(NamesTest, AreRefusedAndUpdatedByName) {
  EXPECT_THAT(Put("", 1).message(), testing::HasSubstr("0 bytes: expected 1 to 1024"));
  EXPECT_THAT(Put(std::string(1025, 'x'), 1).message(), testing::HasSubstr("1025 bytes"));
  EXPECT_THAT(Put("\xff", 1).message(), testing::HasSubstr("UTF-8"));
  ASSERT_TRUE(Put(std::string(1024, 'x'), 1).ok());
  WriteBatch batch;
  batch.Update("nobody", R"({"a":1})");
  EXPECT_EQ(collection_->Write(batch).status().code(), absl::StatusCode::kNotFound);
  batch = {};
  batch.Update(std::string(1024, 'x'), R"({"a":1})");
  ASSERT_TRUE(collection_->Write(batch).ok());
  const std::uint64_t label = VectorLabel(std::string(1024, 'x')).number();
  NamedVector vector(kDim);
  std::vector<std::string> attributes;
  ASSERT_TRUE(
      CollectionSearcher().Get(*collection_->Now(), {&label, 1}, vector.data(), &attributes).ok());
  EXPECT_EQ(attributes[0], R"({"a":1})");
  EXPECT_EQ(vector, Some(1));
}

TEST_F(NamesTest, DamageIsFound) {
  ASSERT_TRUE(Put("photo", 1).ok());
  collection_.reset();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((folder_ + "/journal.sqlite").c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "UPDATE names SET name = 'phota'", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(db);
  Open();
  const std::uint64_t label = VectorLabel("photo").number();
  EXPECT_EQ(collection_->Names({&label, 1}).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace hmann
