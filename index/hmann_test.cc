#include "hmann/hmann.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "datasets/ground_truth.h"
#include "datasets/recall.h"
#include "datasets/toolbox/generate.h"
#include "datasets/vector_file.h"
#include "index/construct/testing/build_samples.h"
#include "index/graph/testing/reference_search.h"

namespace hmann {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Answers {
  std::vector<std::vector<Neighbor>> nearest;  ///< one list per query
  Counters total;
};

Answers SearchAll(const std::shared_ptr<const Index>& index, const VectorFile& queries,
                  const SearchParams& options) {
  Answers answers;
  Searcher searcher(index);
  for (std::uint64_t i = 0; i < queries.n(); ++i) {
    answers.nearest.emplace_back();
    Answer answer;
    const absl::Status status = searcher.Search(queries.Row(i), options, &answer, &answers.total);
    answers.nearest.back().swap(answer.nearest);
    EXPECT_TRUE(status.ok()) << status;
  }
  return answers;
}

void ExpectSame(const Answers& found, const Answers& expected) {
  ASSERT_EQ(found.nearest.size(), expected.nearest.size());
  for (std::size_t query = 0; query < found.nearest.size(); ++query) {
    ASSERT_EQ(found.nearest[query].size(), expected.nearest[query].size());
    for (std::size_t i = 0; i < found.nearest[query].size(); ++i) {
      ASSERT_EQ(found.nearest[query][i].label, expected.nearest[query][i].label)
          << "query " << query << ", neighbor " << i;
      ASSERT_EQ(found.nearest[query][i].distance, expected.nearest[query][i].distance)
          << "query " << query << ", neighbor " << i;
    }
  }
}

/// The sample that ships with hmann: 10,000 SIFT vectors, 200 queries; built once.
class Sample : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new SampleFolder;
    BuildOptions options;
    options.base = "datasets/sample/base.u8bin";
    options.out = *folder_ / "sample.hmann";
    options.threads = 2;
    report_ = new BuildReport(MustBuild(options));
    queries_ = new VectorFile(*VectorFile::Open("datasets/sample/query.u8bin"));
    truth_ = new GroundTruth(*ReadGroundTruth("datasets/sample/query.gt100"));
    index_ = *Index::Open(*folder_ / "sample.hmann");
  }
  static void TearDownTestSuite() {
    index_.reset();
    delete truth_;
    delete queries_;
    delete report_;
    delete folder_;
  }

  static double Recall(const Answers& answers, std::uint32_t k) {
    double sum = 0;
    for (std::uint64_t query = 0; query < queries_->n(); ++query) {
      std::vector<std::uint64_t> ids;
      std::vector<float> distances;
      for (const Neighbor& neighbor : answers.nearest[query]) {
        ids.push_back(neighbor.label);
        distances.push_back(neighbor.distance);
      }
      sum += RecallAtK(*truth_, query, k, ids, distances);
    }
    return sum / static_cast<double>(queries_->n());
  }

  static inline SampleFolder* folder_ = nullptr;
  static inline BuildReport* report_ = nullptr;
  static inline VectorFile* queries_ = nullptr;
  static inline GroundTruth* truth_ = nullptr;
  static inline std::shared_ptr<const Index> index_;
};

TEST_F(Sample, IsFoundAgain) {
  EXPECT_EQ(report_->self_recall_at_1, 1.0);
  for (const SearchMode mode : {SearchMode::kGraph, SearchMode::kMultiStart}) {
    EXPECT_GT(Recall(SearchAll(index_, *queries_, {.k = 10, .mode = mode}), 10), 0.95)
        << "at the defaults, mode " << static_cast<int>(mode);
  }
  EXPECT_GT(Recall(SearchAll(index_, *queries_, {.k = 100, .ef_l1 = 64, .ef_l0 = 300}), 100), 0.98);
}

TEST_F(Sample, RecallGrowsWithEachEf) {
  constexpr double kNoise = 0.004;  // 2,000 answers
  for (const SearchMode mode : {SearchMode::kGraph, SearchMode::kMultiStart}) {
    double before = 0;
    for (const std::uint32_t ef_l0 : {1, 2, 4, 8, 16, 32, 64, 128}) {
      const double recall = Recall(
          SearchAll(index_, *queries_, {.k = 10, .ef_l1 = 32, .ef_l0 = ef_l0, .mode = mode}), 10);
      EXPECT_GE(recall, before - kNoise)
          << "ef_l0 " << ef_l0 << ", mode " << static_cast<int>(mode);
      before = std::max(before, recall);
    }
    EXPECT_GT(before, 0.97);
    for (const std::uint32_t ef_l0 : {0, 2, 16}) {  // 0: of L1 alone
      before = 0;
      for (const std::uint32_t ef_l1 : {1, 2, 4, 8, 16, 32, 64, 128}) {
        SearchParams options{.k = 10, .ef_l1 = ef_l1, .ef_l0 = ef_l0, .mode = mode};
        if (ef_l0 == 0) options = {.k = 10, .ef_l1 = ef_l1, .mode = SearchMode::kUpper};
        const double recall = Recall(SearchAll(index_, *queries_, options), 10);
        EXPECT_GE(recall, before - kNoise)
            << "ef_l1 " << ef_l1 << ", ef_l0 " << ef_l0 << ", mode " << static_cast<int>(mode);
        before = std::max(before, recall);
      }
    }
  }
}

TEST_F(Sample, AnswersDoNotDependOnTheTier) {
  const SearchParams pool{.k = 10, .ef_l1 = 8, .ef_l0 = 50, .mode = SearchMode::kGraph},
      multi_start{.k = 10, .ef_l1 = 24, .ef_l0 = 2, .mode = SearchMode::kMultiStart};
  const Answers by_best_first = SearchAll(index_, *queries_, pool),
                by_multi_start = SearchAll(index_, *queries_, multi_start);
  for (const OpenOptions& options : {OpenOptions{"dram", "dram"}, OpenOptions{"mapped", "mapped"},
                                     OpenOptions{"dram", "mapped:" + *folder_ / "copy"},
                                     OpenOptions{"dram", "mapped:" + *folder_ / "copy"}}) {
    SCOPED_TRACE(absl::StrCat(options.fast, ", ", options.slow));
    const auto index = Index::Open(*folder_ / "sample.hmann", options);
    ASSERT_TRUE(index.ok()) << index.status();
    (*index)->Warm();
    ASSERT_NO_FATAL_FAILURE(ExpectSame(SearchAll(*index, *queries_, pool), by_best_first));
    const Answers found = SearchAll(*index, *queries_, multi_start);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(found, by_multi_start));
    EXPECT_EQ(found.total.node_reads, by_multi_start.total.node_reads);
    bool slow_is_named = false;
    for (const Placement& placement : (*index)->Placements()) {
      EXPECT_GT(placement.bytes, 0u) << placement.structure;
      slow_is_named |= placement.structure == "l0" && placement.tier == options.slow;
    }
    EXPECT_TRUE(slow_is_named);
  }
}

/// The resident bytes of a file's mapping in this process.
std::uint64_t ResidentOf(const std::string& path) {
  const std::string name = path.substr(path.rfind('/'));
  std::ifstream smaps("/proc/self/smaps");
  std::uint64_t kilobytes = 0, all = 0;
  bool of_file = false;
  for (std::string line; std::getline(smaps, line);) {
    const std::string key = line.substr(0, line.find(' '));
    if (!key.ends_with(':')) of_file = line.ends_with(name);
    if (of_file && key == "Rss:" && (std::istringstream(line.substr(4)) >> kilobytes))
      all += kilobytes << 10;
  }
  return all;
}

TEST_F(Sample, BytesInMemoryAreNotResidentTwice) {
  const std::string path = *folder_ / "twice.hmann";
  std::filesystem::copy_file(*folder_ / "sample.hmann", path);
  const auto mapped = *Index::Open(path, {.fast = "mapped", .slow = "mapped"});
  mapped->Warm();
  EXPECT_GT(ResidentOf(path), std::filesystem::file_size(path) / 2);
  const std::string copy = *folder_ / "copied.hmann";
  std::filesystem::copy_file(path, copy);
  const auto copied = *Index::Open(copy, {.fast = "dram", .slow = "dram"});
  EXPECT_LT(ResidentOf(copy), std::filesystem::file_size(copy) / 10);
}

TEST_F(Sample, SearchersDoNotDisturbEachOther) {
  const SearchParams options{
      .k = 10, .ef_l1 = 16, .ef_l0 = 3, .mode = SearchMode::kMultiStart, .query_threads = 2};
  const Answers expected = SearchAll(index_, *queries_, options);
  std::vector<Answers> found(3);
  std::vector<std::thread> threads;
  threads.reserve(found.size());
  for (Answers& answers : found)
    threads.emplace_back([&] { answers = SearchAll(index_, *queries_, options); });
  for (std::thread& thread : threads) thread.join();
  for (const Answers& answers : found) ASSERT_NO_FATAL_FAILURE(ExpectSame(answers, expected));
}

/// Compares the whole engine, on a built index, with the reference.
TEST_F(Sample, WorkIsTheReferences) {
  const IndexFile file = *IndexFile::Open(*folder_ / "sample.hmann");
  const LayerLinks links = ReadLinks(file);
  const VectorFile base = *VectorFile::Open("datasets/sample/base.u8bin");
  const ReferenceIndex reference{index_->kernels(), file.layers(),
                                 [&](std::uint32_t layer, NodeId id) { return links[layer][id]; },
                                 [&](NodeId id) { return base.Row(file.Label(id)); },
                                 [&](NodeId id) { return file.records().RecordBytes(id); }};
  Searcher searcher(index_);
  for (const auto& [k, ef_l1, ef_l0, pool] : {std::tuple(10u, 16u, 64u, true),
                                              {10u, 4u, 30u, true},
                                              {10u, 32u, 2u, false},
                                              {100u, 8u, 0u, true}}) {
    for (std::uint64_t query = 0; query < 40; ++query) {
      Answer answer;
      Counters counters;
      SearchParams options{.k = k,
                           .ef_l1 = ef_l1,
                           .ef_l0 = ef_l0,
                           .mode = pool ? SearchMode::kGraph : SearchMode::kMultiStart};
      if (ef_l0 == 0) options = {.k = k, .ef_l1 = ef_l1, .mode = SearchMode::kUpper};
      ASSERT_TRUE(searcher.Search(queries_->Row(query), options, &answer, &counters).ok());
      const ReferenceAnswer expected =
          ReferenceSearch(reference, queries_->Row(query), {k, ef_l1, ef_l0, pool});
      ASSERT_EQ(answer.nearest.size(), expected.nearest.size());
      for (std::size_t i = 0; i < answer.nearest.size(); ++i)
        ASSERT_EQ(answer.nearest[i].label, file.Label(expected.nearest[i].id));
      EXPECT_EQ(counters.distances_fast, expected.counters.distances_fast);
      EXPECT_EQ(counters.distances_slow, expected.counters.distances_slow);
      EXPECT_EQ(counters.node_reads, expected.counters.node_reads);
      EXPECT_EQ(counters.node_bytes, expected.counters.node_bytes);
      EXPECT_EQ(counters.hops, expected.counters.hops);
    }
  }
}

TEST_F(Sample, IsVerifiedAndDescribed) {
  Progress quiet(Progress::Show::kNever);
  EXPECT_TRUE(Verify(*folder_ / "sample.hmann", quiet).ok());
  const auto info = ReadInfo(*folder_ / "sample.hmann");
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->n, 10000u);
  EXPECT_EQ(info->dim, 128u);
  EXPECT_EQ(info->content_hash, report_->info.content_hash);
  EXPECT_EQ(index_->info().content_hash, report_->info.content_hash);
}

TEST(Open, TinyIndexesAnswer) {
  const SampleFolder folder;
  for (const DType dtype : {DType::kF32, DType::kU8, DType::kI8, DType::kF16}) {
    for (const std::uint32_t n : {1u, 2u, 3u, 17u}) {
      SCOPED_TRACE(absl::StrCat("n ", n, ", dtype ", static_cast<int>(dtype)));
      const BuildOptions options = SmallBuild(folder, dtype, Metric::kL2, n, 1);
      MustBuild(options);
      Searcher searcher(*Index::Open(options.out));
      VectorFile base = *VectorFile::Open(options.base);
      ASSERT_TRUE(base.FitQueries(1, dtype, "the index").ok());
      for (const SearchMode mode : {SearchMode::kGraph, SearchMode::kMultiStart}) {
        Answer answer;
        ASSERT_TRUE(searcher.Search(base.Row(n - 1), {.k = n, .mode = mode}, &answer).ok());
        std::set<std::uint64_t> labels;
        for (const Neighbor& neighbor : answer.nearest) labels.insert(neighbor.label);
        EXPECT_EQ(answer.nearest[0].distance, 0);
        EXPECT_EQ(labels.size(), n);
        EXPECT_EQ(*labels.rbegin(), n - 1);
        EXPECT_FALSE(searcher.Search(base.Row(0), {.k = n + 1, .mode = mode}, &answer).ok());
      }
    }
  }
}

TEST(Open, RefusesWhatItCannotServe) {
  const SampleFolder folder;
  EXPECT_EQ(Index::Open(folder / "absent").status().code(), absl::StatusCode::kNotFound);
  const std::string foreign = folder / "foreign";
  std::ofstream(foreign) << "a text of some length, and no index at all";
  EXPECT_THAT(std::string(Index::Open(foreign).status().message()),
              AllOf(HasSubstr(foreign), HasSubstr("not an hmann index")));
  BuildOptions options;
  options.base = folder / "base.u8bin";
  options.out = folder / "index";
  WriteGenerated(options.base, {.n = 50, .dim = 4});
  MustBuild(options);
  EXPECT_TRUE(Index::Open(options.out).ok());
  EXPECT_THAT(std::string(Index::Open(options.out, {.slow = "tape"}).status().message()),
              HasSubstr("tape"));
  EXPECT_EQ(Index::Open(options.out, {.fast = "numa:999"}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Index::Open(options.out, {.fast = "mapped:" + folder / "x"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hmann
