/// Filters on what is not merged, whose rows are far from the query; and rows that died
/// near it.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "hmann/collection.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

/// Rows in two groups far apart, A and B, one after the other; queries near A.
class FarFilterTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kDim = 32, kK = 10, kQueries = 50;
  using Accepts = std::function<bool(std::uint64_t label)>;

  void SetUp() override {
    CreateCollection options{.dtype = DType::kF32, .dim = kDim};
    options.build.m = 8;
    options.build.ef_construction = 60;
    options.queries = folder_ / "queries.fbin";
    std::vector<float> queries;
    for (int i = 0; i < 100; ++i) {
      const std::vector<float> query = Made(false);
      queries.insert(queries.end(), query.begin(), query.end());
    }
    WriteRows(options.queries, kDim, queries);
    ASSERT_TRUE(Collection::Create(folder_ / "c", options).ok());
    Open();
  }
  void Open() {
    collection_.reset();
    collection_ = *Collection::Open(folder_ / "c", {.merges = false});
  }
  std::vector<float> Made(bool is_b) {
    std::vector<float> vector(kDim);
    const float factors[] = {normal_(random_), normal_(random_), normal_(random_),
                             normal_(random_), normal_(random_), normal_(random_)};
    for (std::uint32_t i = 0; i < kDim; ++i)
      vector[i] = factors[i % 6] + factors[i / 6] / 2 + (is_b ? 40.0F : 0.0F);
    return vector;
  }
  static bool IsB(std::uint64_t label) { return label % 2 == 1; }
  /// Appends `rows`, each with its group, its label and a note.
  void Put(std::uint64_t rows) {
    for (std::uint64_t i = 0; i < rows;) {
      WriteBatch batch;
      std::vector<std::string> notes;
      for (std::uint64_t j = 0; j < 1000; ++j) {
        const std::uint64_t label = rows_.size() + j;
        notes.push_back(absl::StrCat("{\"t\":\"", IsB(label) ? "B" : "A", "\",\"n\":", label, "}"));
      }
      const std::size_t first = rows_.size();
      for (std::uint64_t j = 0; j < 1000 && i < rows; ++j, ++i) {
        rows_.push_back(Made(IsB(first + j)));
        batch.Put(first + j, rows_.back().data(), kDim * sizeof(float), notes[j]);
      }
      ASSERT_TRUE(collection_->Write(batch).ok());
    }
    Settle();
  }
  void Settle() {
    while (collection_->info().loose_rows >= 64)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  void Compact() {
    Progress quiet(Progress::Show::kNever);
    ASSERT_TRUE(collection_->Compact(quiet).ok());
  }
  void ForAll(const std::function<void(WriteBatch&, std::uint64_t)>& change) {
    for (std::uint64_t label = 0; label < rows_.size();) {
      WriteBatch batch;
      for (const std::uint64_t end = label + 1000; label < end && label < rows_.size(); ++label)
        change(batch, label);
      ASSERT_TRUE(collection_->Write(batch).ok());
    }
    Settle();
  }

  struct Found {
    double recall = 0;
    double among = 0;             ///< recall of the true neighbors that `of` takes
    std::uint64_t distances = 0;  ///< most of a query
  };
  /// `accepts`: what the filter means.
  Found Search(
      const std::string& text, double recall, const Accepts& accepts,
      const Accepts& of = [](std::uint64_t) { return true; }) {
    std::optional<Filter> filter;
    if (!text.empty()) filter = *Filter::Parse(text);
    const auto prepared =
        Prepare(collection_->Now(), {.k = kK, .recall = recall}, filter ? &*filter : nullptr);
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    CollectionSearcher searcher;
    Found found;
    std::uint64_t right = 0, right_of = 0, all_of = 0;
    for (std::uint32_t q = 0; q < kQueries; ++q) {
      const std::vector<float> query = Made(false);
      std::vector<std::pair<float, std::uint64_t>> exact;
      for (std::uint64_t label = 0; label < rows_.size(); ++label) {
        if (!accepts(label)) continue;
        float distance = 0;
        for (std::uint32_t i = 0; i < kDim; ++i)
          distance += (rows_[label][i] - query[i]) * (rows_[label][i] - query[i]);
        exact.emplace_back(distance, label);
      }
      std::partial_sort(exact.begin(), exact.begin() + kK, exact.end());
      Answer answer;
      Counters counters;
      EXPECT_TRUE(searcher.Search(query.data(), **prepared, &answer, &counters).ok());
      EXPECT_EQ(answer.nearest.size(), kK);
      for (const Neighbor& neighbor : answer.nearest) EXPECT_TRUE(accepts(neighbor.label));
      for (std::uint32_t i = 0; i < kK; ++i) {
        const bool is_found =
            std::any_of(answer.nearest.begin(), answer.nearest.end(),
                        [&](const Neighbor& got) { return got.label == exact[i].second; });
        right += is_found ? 1 : 0;
        if (!of(exact[i].second)) continue;
        ++all_of;
        right_of += is_found ? 1 : 0;
      }
      found.distances =
          std::max(found.distances, counters.distances_fast + counters.distances_slow);
    }
    found.recall = static_cast<double>(right) / (kQueries * kK);
    found.among = all_of == 0 ? 1 : static_cast<double>(right_of) / static_cast<double>(all_of);
    return found;
  }

  SampleFolder folder_;
  std::shared_ptr<Collection> collection_;
  std::vector<std::vector<float>> rows_;
  std::mt19937 random_{7};
  std::normal_distribution<float> normal_;
};

TEST_F(FarFilterTest, BeforeAnyMerge) {
  Put(20'000);
  for (const char* text : {"t = \"B\"", "not t in (\"A\", \"C\")", "t != \"A\" and n >= 0"}) {
    for (const double recall : {0.9, 0.99}) {
      const Found found = Search(text, recall, IsB);
      EXPECT_GE(found.recall, 0.98) << text << " " << recall;
      EXPECT_LE(found.distances, 20'000u) << "a walk, then a scan of the matches";
    }
  }
  // 80 % match, but none near the query.
  const Found most = Search("n >= 4000", 0.99, [](std::uint64_t label) { return label >= 4000; });
  EXPECT_GE(most.recall, 0.98);
}

TEST_F(FarFilterTest, NextToAMergedIndex) {
  Put(8000);
  Compact();
  Put(16'000);
  const auto is_new = [](std::uint64_t label) { return label >= 8000; };
  const Found found = Search("t = \"B\"", 0.95, IsB, is_new);
  EXPECT_GE(found.recall, 0.94);
  EXPECT_GE(found.among, 0.94) << "of the new rows";
  const Found mixed = Search(
      "t = \"B\" and n >= 2000", 0.95,
      [](std::uint64_t label) { return IsB(label) && label >= 2000; }, is_new);
  EXPECT_GE(mixed.among, 0.94);
}

TEST_F(FarFilterTest, RowsThatDiedNearTheQueries) {
  Put(20'000);
  ForAll([](WriteBatch& batch, std::uint64_t label) {
    if (!IsB(label)) batch.Delete(label);
  });
  EXPECT_GE(Search("", 0.95, IsB).recall, 0.98);
  EXPECT_GE(
      Search("n < 18000", 0.95, [](std::uint64_t label) { return IsB(label) && label < 18'000; })
          .recall,
      0.98);
  Compact();
  EXPECT_GE(Search("", 0.95, IsB).recall, 0.94) << "merged";
}

TEST_F(FarFilterTest, AttributesOfAllMergedRowsChange) {
  Put(14'000);
  Compact();
  ForAll([](WriteBatch& batch, std::uint64_t label) { batch.Update(label, "{\"seen\":true}"); });
  ASSERT_EQ(collection_->info().sealed_dead, 14'000u);
  EXPECT_GE(Search("t = \"B\" and seen", 0.95, IsB).recall, 0.98);
  EXPECT_GE(Search("t = \"B\"", 0.95, IsB).recall, 0.98);
  ForAll([](WriteBatch& batch, std::uint64_t label) {
    if (IsB(label)) batch.Update(label, "{\"t\":\"C\"}");
  });
  EXPECT_GE(Search("t = \"C\"", 0.95, IsB).recall, 0.98);
}

}  // namespace
}  // namespace hmann
