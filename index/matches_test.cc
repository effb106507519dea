// Searches restricted to some vectors: Index::Matching, SearchParams::matches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "datasets/vector_file.h"
#include "hmann/hmann.h"
#include "index/construct/testing/build_samples.h"
#include "index/index_impl.h"
#include "index/make_attributes.h"

namespace hmann {
namespace {

using Found = std::vector<std::pair<std::uint64_t, float>>;

/// 10,000 SIFT vectors and their queries; built once.
class MatchesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new SampleFolder;
    BuildOptions options;
    options.base = "datasets/sample/base.u8bin";
    options.out = *folder_ / "sample.hmann";
    MustBuild(options);
    queries_ = new VectorFile(*VectorFile::Open("datasets/sample/query.u8bin"));
    base_ = new VectorFile(*VectorFile::Open("datasets/sample/base.u8bin"));
    index_ = *Index::Open(options.out, {.slow = "dram"});
  }
  static void TearDownTestSuite() {
    index_.reset();
    delete base_;
    delete queries_;
    delete folder_;
  }

  /// About one label in `of`, in no particular order.
  static auto Every(std::uint64_t of) {
    return [of](std::uint64_t label) { return (label * 2654435761u >> 7) % of == 0; };
  }
  template <typename Accepts>
  static Matches MustMatch(const Index& index, const Accepts& accepts) {
    auto matches = index.Matching(accepts);
    EXPECT_TRUE(matches.ok()) << matches.status();
    return *std::move(matches);
  }

  static std::vector<Found> Search(const std::shared_ptr<const Index>& index,
                                   const SearchParams& options, std::uint32_t in_flight = 1,
                                   Counters* counters = nullptr, const SearchLimits& limits = {},
                                   std::size_t* cut_short = nullptr) {
    std::vector<Found> found(queries_->n());
    const auto resolved = index->Resolve(options);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    const auto done = [&](std::size_t i, const absl::Status& status, Answer& answer) {
      EXPECT_TRUE(status.ok()) << status;
      for (const Neighbor& near : answer.nearest) found[i].emplace_back(near.label, near.distance);
      if (cut_short != nullptr) *cut_short += answer.cut_short ? 1 : 0;
    };
    EXPECT_TRUE(Searcher(index)
                    .SearchMany(
                        queries_->n(), [](std::size_t i) { return queries_->Row(i); },
                        resolved->params, in_flight, done, counters, limits)
                    .ok());
    return found;
  }

  /// The answers of threads with a searcher each, which take turns.
  static std::vector<Found> SearchOnThreads(const std::shared_ptr<const Index>& index,
                                            const SearchParams& options, std::size_t threads) {
    std::vector<Found> found(queries_->n());
    const auto resolved = index->Resolve(options);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    std::vector<std::jthread> working;
    for (std::size_t thread = 0; thread < threads; ++thread) {
      working.emplace_back([&, thread] {
        Searcher searcher(index);
        Answer answer;
        for (std::size_t i = thread; i < found.size(); i += threads) {
          EXPECT_TRUE(searcher.Search(queries_->Row(i), resolved->params, &answer).ok());
          for (const Neighbor& near : answer.nearest)
            found[i].emplace_back(near.label, near.distance);
        }
      });
    }
    working.clear();  // joins them
    return found;
  }

  /// The nearest of the matching labels, by brute force.
  template <typename Accepts>
  static Found Exact(std::uint64_t query, std::uint32_t k, const Accepts& accepts) {
    const Kernels& kernels = index_->kernels();
    std::vector<std::byte> stored(kernels.row_bytes);
    EXPECT_TRUE(EncodeRow(kernels, queries_->Row(query), stored.data()).ok());
    Found all;
    for (std::uint64_t label = 0; label < base_->n(); ++label) {
      if (!accepts(label)) continue;
      const DistanceKey key = kernels.one(
          stored.data(), reinterpret_cast<const std::byte*>(base_->Row(label)), kernels.dim);
      all.emplace_back(label, kernels.ToDistance(key));
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.second < b.second; });
    all.resize(std::min<std::size_t>(all.size(), k));
    return all;
  }

  /// Recall of the answers. Each answer must match and appear once, and there must be as
  /// many as possible.
  template <typename Accepts>
  static double Recall(const std::vector<Found>& found, std::uint32_t k, const Accepts& accepts) {
    double hits = 0, wanted = 0;
    for (std::uint64_t query = 0; query < found.size(); ++query) {
      const Found exact = Exact(query, k, accepts);
      EXPECT_EQ(found[query].size(), exact.size()) << "query " << query;
      std::set<std::uint64_t> labels;
      for (const auto& [label, distance] : found[query]) {
        EXPECT_TRUE(accepts(label)) << label;
        EXPECT_TRUE(labels.insert(label).second) << label << " twice";
        hits += !exact.empty() && distance <= exact.back().second ? 1 : 0;
      }
      wanted += static_cast<double>(exact.size());
    }
    return wanted == 0 ? 1 : hits / wanted;
  }

  static inline SampleFolder* folder_ = nullptr;
  static inline VectorFile* queries_ = nullptr;
  static inline VectorFile* base_ = nullptr;
  static inline std::shared_ptr<const Index> index_;
};

TEST_F(MatchesTest, EveryWalkFindsTheNearestThatMatch) {
  for (const SearchMode mode :
       {SearchMode::kGraph, SearchMode::kMultiStart, SearchMode::kQuantized}) {
    for (const std::uint64_t of : {1, 2, 5, 20, 100, 3000}) {
      SCOPED_TRACE(absl::StrCat("mode ", static_cast<int>(mode), ", one in ", of));
      const Matches matches = MustMatch(*index_, Every(of));
      const auto found = Search(index_, {.k = 10, .mode = mode, .matches = &matches});
      EXPECT_GE(Recall(found, 10, Every(of)), 0.93);
    }
  }
}

TEST_F(MatchesTest, AllThatMatchAreFoundWhereTheyAreFewerThanK) {
  const auto three = [](std::uint64_t label) { return label == 7 || label == 77 || label == 777; };
  const Matches matches = MustMatch(*index_, three);
  EXPECT_EQ(matches.size(), 3u);
  EXPECT_EQ(Recall(Search(index_, {.k = 10, .matches = &matches}), 10, three), 1.0);
  const auto none = [](std::uint64_t) { return false; };
  const Matches nothing = MustMatch(*index_, none);
  for (const Found& found : Search(index_, {.k = 10, .matches = &nothing}))
    EXPECT_TRUE(found.empty());
}

/// A traversal stays near the query, while the matches are elsewhere.
TEST_F(MatchesTest, WhatIsFarFromTheQueryIsFoundByAScan) {
  std::set<std::uint64_t> near;
  for (const auto& [label, distance] : Exact(0, 9000, [](std::uint64_t) { return true; }))
    near.insert(label);
  const auto far = [&near](std::uint64_t label) { return !near.contains(label); };
  const Matches matches = MustMatch(*index_, far);
  const auto found = Search(index_, {.k = 10, .ef_l1 = 1, .ef_l0 = 10, .matches = &matches});
  for (std::size_t query = 0; query < found.size(); ++query) {
    ASSERT_EQ(found[query].size(), 10u);
    for (const auto& [label, distance] : found[query]) EXPECT_TRUE(far(label));
  }
  EXPECT_EQ(found[0], Exact(0, 10, far));

  // Errors of codes are larger than the differences of these distances.
  const auto device = *Index::Open(*folder_ / "sample.hmann", {.slow = "nvme"});
  const Found exact = Exact(0, 10, far);
  const Found read = Search(device, {.k = 10, .matches = &matches})[0];
  EXPECT_GE(std::count_if(read.begin(), read.end(),
                          [&](const auto& one) { return one.second <= exact.back().second; }),
            9);
}

/// A search whose parameters are named gives way, too, unless its mode is.
TEST_F(MatchesTest, ANamedEpsilonGivesWayToAScan) {
  std::set<std::uint64_t> near;
  for (const auto& [label, distance] : Exact(0, 8000, [](std::uint64_t) { return true; }))
    near.insert(label);
  const auto far = [&near](std::uint64_t label) { return !near.contains(label); };
  const Matches matches = MustMatch(*index_, far);
  const auto distances = [&](const SearchParams& options) {
    const auto resolved = index_->Resolve(options);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    Answer answer;
    Counters counters;
    EXPECT_TRUE(
        Searcher(index_).Search(queries_->Row(0), resolved->params, &answer, &counters).ok());
    Found found;
    for (const Neighbor& neighbor : answer.nearest)
      found.emplace_back(neighbor.label, neighbor.distance);
    if (options.mode != SearchMode::kGraph) {
      EXPECT_EQ(found, Exact(0, 10, far));
    }
    return counters.distances_fast + counters.distances_slow;
  };
  const std::uint64_t named = distances({.k = 10, .epsilon = 5.0f, .matches = &matches});
  EXPECT_LT(named, 3 * matches.size());
  EXPECT_GT(distances({.k = 10, .mode = SearchMode::kGraph, .epsilon = 5.0f, .matches = &matches}),
            named);
}

/// Matches around the query are dense there, whatever their share of the index is.
TEST_F(MatchesTest, WhatIsNearTheQueryIsFoundByAWalk) {
  constexpr std::uint64_t kSome = 40;
  std::uint64_t walked = 0, of_matches = 0;
  std::size_t hits_of_graph = 0, hits_of_codes = 0;
  for (std::uint64_t query = 0; query < kSome; ++query) {
    std::set<std::uint64_t> near;
    for (const auto& [label, distance] : Exact(query, 1500, [](std::uint64_t) { return true; }))
      near.insert(label);
    const auto accepts = [&near](std::uint64_t label) { return near.contains(label); };
    const Matches matches = MustMatch(*index_, accepts);
    const Found exact = Exact(query, 10, accepts);
    for (const SearchMode mode : {SearchMode::kGraph, SearchMode::kQuantized}) {
      SCOPED_TRACE(absl::StrCat("query ", query, ", mode ", static_cast<int>(mode)));
      const auto resolved = index_->Resolve({.k = 10, .mode = mode, .matches = &matches});
      ASSERT_TRUE(resolved.ok()) << resolved.status();
      Answer answer;
      Counters counters;
      ASSERT_TRUE(
          Searcher(index_).Search(queries_->Row(query), resolved->params, &answer, &counters).ok());
      for (const Neighbor& found : answer.nearest)
        (mode == SearchMode::kGraph ? hits_of_graph : hits_of_codes) +=
            found.distance <= exact.back().second ? 1 : 0;
      if (mode != SearchMode::kGraph) continue;
      walked += counters.distances_fast + counters.distances_slow;
      of_matches += matches.size();
    }
  }
  // With the epsilon of a search for k / share the graph finds 389.
  EXPECT_GE(hits_of_graph, 395u);
  EXPECT_GE(hits_of_codes, 395u);
  EXPECT_LT(walked, of_matches) << "no scan";
}

/// A few matches are kept as ids, which no search can tell from bits.
TEST_F(MatchesTest, IdsAreAsGoodAsBits) {
  const Matches bits = MustMatch(*index_, Every(100));
  std::vector<std::uint32_t> few(bits.size());
  ASSERT_EQ(bits.Next(0, few), few.size());
  const Matches ids(bits.n(), bits.content_hash(), few);
  EXPECT_EQ(ids.size(), bits.size());
  EXPECT_LT(ids.bytes(), bits.bytes());
  for (std::uint32_t id = 0; id < bits.n(); ++id) {
    ASSERT_EQ(ids.Has(id), bits.Has(id)) << id;
    ASSERT_EQ(ids.Next(id), bits.Next(id)) << id;
    std::uint32_t of_ids[3] = {}, of_bits[3] = {};
    ASSERT_EQ(ids.Next(id, of_ids), bits.Next(id, of_bits)) << id;
    ASSERT_TRUE(std::equal(of_ids, of_ids + 3, of_bits)) << id;
  }
  for (const SearchMode mode :
       {SearchMode::kGraph, SearchMode::kMultiStart, SearchMode::kQuantized, SearchMode::kScan})
    EXPECT_EQ(Search(index_, {.k = 2, .mode = mode, .matches = &ids}),
              Search(index_, {.k = 2, .mode = mode, .matches = &bits}));
}

/// All within a distance, at most k: in every mode and on a device, with a filter or
/// without, for less work than k of them would take.
TEST_F(MatchesTest, ADistanceBoundsTheAnswersAndTheWork) {
  const auto all = [](std::uint64_t) { return true; };
  const Matches half = MustMatch(*index_, Every(2));
  const auto device = *Index::Open(*folder_ / "sample.hmann", {.slow = "nvme"});
  const auto check = [&](const std::shared_ptr<const Index>& index, const SearchParams& options,
                         const auto& accepts) {
    SCOPED_TRACE(absl::StrCat("mode ", static_cast<int>(options.mode.value_or(SearchMode::kGraph)),
                              " within ", *options.max_distance));
    const auto found = Search(index, options);
    std::size_t hits = 0, wanted = 0;
    for (std::uint64_t query = 0; query < found.size(); ++query) {
      Found exact = Exact(query, options.k, accepts);
      std::erase_if(exact, [&](const auto& one) { return one.second > *options.max_distance; });
      std::set<std::uint64_t> labels;
      for (const auto& [label, distance] : found[query]) {
        EXPECT_TRUE(accepts(label) && distance <= *options.max_distance) << label;
        hits += labels.insert(label).second ? 1 : 0;
      }
      EXPECT_LE(found[query].size(), exact.size());
      wanted += exact.size();
    }
    EXPECT_GT(wanted, 0u);
    EXPECT_GE(static_cast<double>(hits), 0.97 * static_cast<double>(wanted));
  };
  for (const float most : {30'000.0f, 60'000.0f, 100'000.0f}) {
    for (const SearchMode mode :
         {SearchMode::kGraph, SearchMode::kMultiStart, SearchMode::kQuantized, SearchMode::kScan}) {
      check(index_, {.k = 200, .mode = mode, .max_distance = most}, all);
      check(index_, {.k = 200, .mode = mode, .matches = &half, .max_distance = most}, Every(2));
    }
    check(device, {.k = 200, .max_distance = most}, all);
    check(device, {.k = 200, .matches = &half, .max_distance = most}, Every(2));
  }
  Counters bounded, unbounded;
  Search(index_, {.k = 200, .mode = SearchMode::kGraph, .max_distance = 60'000}, 1, &bounded);
  Search(index_, {.k = 200, .mode = SearchMode::kGraph}, 1, &unbounded);
  EXPECT_LT(2 * bounded.expanded_l0, unbounded.expanded_l0);
  for (const Found& found : Search(index_, {.k = 10, .max_distance = -1}))
    EXPECT_TRUE(found.empty());
  EXPECT_EQ(index_->Resolve({.max_distance = std::nanf("")}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(MatchesTest, AnswersAreTheSameOnEachTierAndBesideEachOther) {
  const Matches third = MustMatch(*index_, Every(3)), few = MustMatch(*index_, Every(2000));
  for (const SearchParams& options : std::vector<SearchParams>{
           {.k = 10, .mode = SearchMode::kGraph, .matches = &third},
           {.k = 10, .mode = SearchMode::kGraph, .matches = &few},
           {.k = 10, .ef_l1 = 40, .ef_l0 = 2, .mode = SearchMode::kMultiStart, .matches = &third},
           {.k = 10,
           .ef_l1 = 64,
           .ef_l0 = 0,
           .mode = SearchMode::kQuantized,
           .nprobe = 256,
           .beam_width = 8,
           .matches = &third},
           {.k = 10, .mode = SearchMode::kScan, .matches = &few}}) {
    SCOPED_TRACE(absl::StrCat(Name(*options.mode).data(), ", ", options.matches->size()));
    const auto expected = Search(index_, options);
    const auto accepts = [&](std::uint64_t label) {
      return options.matches == &third ? Every(3)(label) : Every(2000)(label);
    };
    EXPECT_GE(Recall(expected, 10, accepts), 0.8);
    for (const char* slow : {"dram", "mapped", "emulated:lat=1ns", "nvme"}) {
      const auto other = Index::Open(*folder_ / "sample.hmann", {.slow = slow});
      ASSERT_TRUE(other.ok()) << other.status();
      EXPECT_EQ(Search(*other, options, 4), expected) << slow;
      for (const std::size_t threads : {1, 2, 7})
        EXPECT_EQ(SearchOnThreads(*other, options, threads), expected) << slow << " " << threads;
    }
  }
  for (const std::uint64_t of : {3, 2000}) {
    const SearchParams options{
        .k = 10, .mode = SearchMode::kGraph, .matches = of == 3 ? &third : &few};
    const auto coded = Index::Open(*folder_ / "sample.hmann", {.slow = "dram", .sq_bits = 8});
    EXPECT_GE(Recall(Search(*coded, options, 3), 10, Every(of)), 0.93);
  }
}

TEST_F(MatchesTest, OnADeviceAPredicateReadsHardlyMore) {
  const auto device = Index::Open(*folder_ / "sample.hmann", {.slow = "nvme"});
  ASSERT_TRUE(device.ok()) << device.status();
  Counters all, tenth;
  Search(*device, {.k = 10}, 1, &all);
  const Matches matches = MustMatch(**device, Every(10));
  const auto found = Search(*device, {.k = 10, .matches = &matches}, 1, &tenth);
  EXPECT_GE(Recall(found, 10, Every(10)), 0.93);
  EXPECT_LE(tenth.distances_slow, all.distances_slow * 3 / 2);
}

TEST_F(MatchesTest, LabelsMayBeTheUsersOwn) {
  BuildOptions options;
  options.base = "datasets/sample/base.u8bin";
  options.out = *folder_ / "labeled.hmann";
  std::vector<std::uint64_t> own(base_->n());
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = (i << 33) + i % 2;
  options.label_values = own;
  MustBuild(options);
  const auto index = Index::Open(options.out, {.slow = "nvme"});
  const Matches odd = MustMatch(**index, [](std::uint64_t label) { return label % 2 == 1; });
  EXPECT_EQ(odd.size(), own.size() / 2);
  for (const Found& found : Search(*index, {.k = 10, .matches = &odd})) {
    ASSERT_EQ(found.size(), 10u);
    for (const auto& [label, distance] : found) EXPECT_EQ(label % 2, 1u);
  }
}

/// `hmann attrs` replaces the file, of which an open index keeps the one it has opened.
TEST_F(MatchesTest, AnOpenIndexKeepsItsAttributes) {
  const std::string path = *folder_ / "replaced.hmann", rows = *folder_ / "replaced.ndjson";
  std::filesystem::copy_file(*folder_ / "sample.hmann", path);
  const auto make = [&](std::uint64_t shift) {
    std::ofstream out(rows);
    for (std::uint64_t i = 0; i < base_->n(); ++i) {
      const std::uint64_t a = (i + shift) % base_->n();
      out << R"({"a": )" << a << R"(, "t": "x)" << a % 7 << "\"}\n";
    }
    out.close();
    Progress quiet(Progress::Show::kNever);
    ASSERT_TRUE(MakeAttributes(path, {.from = rows, .types = ""}, quiet).ok());
  };
  // The first and the last label for which a filter holds.
  const auto range = [](const Index& index, const std::string& text) {
    const auto matches = index.Filtered(*Filter::Parse(text));
    EXPECT_TRUE(matches.ok()) << matches.status();
    std::pair<std::uint64_t, std::uint64_t> found = {~0ull, 0};
    EXPECT_TRUE(
        index
            .ForLabels([&](auto ids, auto labels) {
              for (std::size_t i = 0; i < ids.size(); ++i) {
                if (!(*matches)->Has(ids[i])) continue;
                found = {std::min(found.first, labels[i]), std::max(found.second, labels[i])};
              }
            })
            .ok());
    return found;
  };
  make(0);
  const auto before = *Index::Open(path);
  EXPECT_EQ(range(*before, "a < 100"), std::pair(0ul, 99ul));
  make(5000);
  EXPECT_EQ(range(*before, "a < 101"), std::pair(0ul, 100ul));
  EXPECT_EQ(range(*before, "a >= 50 and a < 60 and t = 'x1'"), std::pair(50ul, 57ul));
  const auto after = *Index::Open(path);
  EXPECT_EQ(range(*after, "a < 100"), std::pair(5000ul, 5099ul));
  EXPECT_EQ(range(*after, "a >= 50 and a < 60 and t = 'x1'"), std::pair(5050ul, 5057ul));
  EXPECT_TRUE((*before->attributes())->Verify().ok());
}

TEST_F(MatchesTest, WhatCannotBeIsRefused) {
  const Matches few(17, index_->info().content_hash);
  EXPECT_EQ(index_->Resolve({.k = 10, .matches = &few}).status().message(),
            "matches: expected those of 10000 vectors, found 17");
  const Matches other(10000, index_->info().content_hash + 1);
  EXPECT_EQ(index_->Resolve({.k = 10, .matches = &other}).status().message(),
            "matches: made for another index of 10000 vectors");
  const Matches matches = MustMatch(*index_, Every(3));
  EXPECT_EQ(index_->Resolve({.k = 10, .matches = &matches, .recall = 0.9}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(MatchesTest, AttributesSayWhatMemoryTheyNeed) {
  Progress quiet(Progress::Show::kNever);
  const auto make = [&](std::uint64_t memory) {
    return MakeAttributesOf(
        {.out = "", .n = std::uint64_t{1} << 50}, false, [](LabelIds*) { return absl::OkStatus(); },
        {.from = "datasets/sample/attributes.csv", .types = "", .memory = memory}, quiet);
  };
  for (const std::uint64_t memory : {0, 1 << 20}) {
    const absl::Status status = make(memory);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(absl::StrContains(status.message(), "--build-memory"), memory > 0) << status;
  }
}

TEST_F(MatchesTest, WhatABudgetLeavesMatches) {
  const Matches matches = MustMatch(*index_, Every(2));
  for (const SearchMode mode :
       {SearchMode::kGraph, SearchMode::kMultiStart, SearchMode::kQuantized}) {
    SCOPED_TRACE(static_cast<int>(mode));
    std::size_t answers = 0, cut_short = 0;
    for (const Found& found : Search(index_, {.k = 10, .mode = mode, .matches = &matches}, 1,
                                     nullptr, {.budget = std::chrono::nanoseconds(1)}, &cut_short))
      for (const auto& [label, distance] : found) {
        EXPECT_TRUE(Every(2)(label)) << label;
        ++answers;
      }
    EXPECT_EQ(cut_short, queries_->n());
    EXPECT_GT(answers, 0u);
  }
}

TEST(Matches, AreCountedAndFoundInOrder) {
  Matches matches(200, 0);
  for (const std::uint32_t id : {3u, 64u, 199u, 64u}) matches.Add(id);
  EXPECT_EQ(matches.size(), 3u);
  std::vector<std::uint64_t> found;
  for (std::uint64_t id = matches.Next(0); id < matches.n(); id = matches.Next(id + 1))
    found.push_back(id);
  EXPECT_EQ(found, (std::vector<std::uint64_t>{3, 64, 199}));
  EXPECT_EQ(Matches(0, 0).Next(0), 0u);
}

}  // namespace
}  // namespace hmann
