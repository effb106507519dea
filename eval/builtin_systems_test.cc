// The baselines' side of adapters/PROTOCOL.md: hnswlib and Faiss, as in the comparison.
#include "eval/builtin_systems.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "datasets/recall.h"
#include "datasets/vector_file.h"
#include "eval/benchmark_data.h"
#include "eval/system.h"
#include "eval/testing/system_test.h"

namespace hmann::eval {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

using BuiltinSystems = SystemTest;

TEST_F(BuiltinSystems, HnswlibBuildsAnswersAndKeepsItsIndex) {
  for (const bool kept : {false, true}) {
    SCOPED_TRACE(kept);
    absl::StatusOr<SystemSpec> spec = BuiltinSystem("hnswlib", {});
    ASSERT_TRUE(spec.ok()) << spec.status();
    absl::StatusOr<System> system = System::Start(*spec, job_);
    ASSERT_TRUE(system.ok()) << system.status();
    const Json& ready = system->ready();
    EXPECT_THAT(ready["library"].get<std::string>(), HasSubstr("hnswlib"));
    EXPECT_EQ(ready["cached"], kept);
    EXPECT_GT(ready["build_seconds"], 0);
    EXPECT_EQ(ready["build_threads"], 2);
    EXPECT_GT(ready["index_bytes"], 2000u * 128 * 4);
    EXPECT_GT(ready["settings"].size(), 5u);
    const absl::StatusOr<RunAnswer> answer = system->Run({{"ef", 50}}, false);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_GT(answer->seconds, 0);
    EXPECT_GT(answer->cpu_seconds, 0);
    ASSERT_EQ(answer->ids.size(), 500u);
    for (std::size_t q = 0; q < 50; ++q) {
      const std::set<std::uint64_t> ids(answer->ids.begin() + q * 10,
                                        answer->ids.begin() + (q + 1) * 10);
      EXPECT_EQ(ids.size(), 10u);
      EXPECT_LT(*ids.rbegin(), 2000u);
    }
    EXPECT_TRUE(system->Stop().ok());
  }
}

TEST_F(BuiltinSystems, HnswlibMappedAnswersAsInMemoryOverTheSameFile) {
  std::vector<std::vector<std::uint64_t>> answers;
  std::string file;
  for (const char* level0 : {"mapped", "memory", "mapped"}) {
    SCOPED_TRACE(level0);
    SystemSpec spec = *BuiltinSystem("hnswlib-u8", {});
    spec.build["level0"] = level0;
    absl::StatusOr<System> system = System::Start(spec, job_);
    ASSERT_TRUE(system.ok()) << system.status();
    EXPECT_EQ(system->ready()["cached"], !answers.empty())
        << "how it is loaded makes no other index";
    EXPECT_EQ(system->ready()["library"].get<std::string>().ends_with(", level 0 mapped"),
              std::string(level0) == "mapped");
    if (!file.empty()) {
      EXPECT_EQ(system->ready()["index_file"], file);
    }
    file = system->ready()["index_file"].get<std::string>();
    EXPECT_TRUE(fs::exists(file)) << file;
    const absl::StatusOr<RunAnswer> answer = system->Run({{"ef", 50}}, false);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_FALSE(answer->latency.has_value());
    answers.push_back(answer->ids);
    EXPECT_EQ(answers.back(), answers.front());
    EXPECT_TRUE(system->Stop().ok());
  }
  job_.work.clear();
  SystemSpec spec = *BuiltinSystem("hnswlib-u8", {});
  spec.build["level0"] = "mapped";
  EXPECT_THAT(std::string(System::Start(spec, job_).status().message()),
              HasSubstr("--work: expected a folder"));
  spec.build["level0"] = "elsewhere";
  EXPECT_THAT(std::string(System::Start(spec, job_).status().message()),
              HasSubstr("expected memory or mapped, found \"elsewhere\""));
}

TEST_F(BuiltinSystems, ADamagedFileIsNotMapped) {
  SystemSpec spec = *BuiltinSystem("hnswlib-u8", {});
  spec.build["level0"] = "mapped";
  std::string file;
  {
    absl::StatusOr<System> system = System::Start(spec, job_);
    ASSERT_TRUE(system.ok()) << system.status();
    file = system->ready()["index_file"].get<std::string>();
  }
  const std::uint64_t bytes = fs::file_size(file);
  fs::resize_file(file, bytes - 1);
  EXPECT_THAT(std::string(System::Start(spec, job_).status().message()),
              HasSubstr(absl::StrCat(file, ": offset ")));
  fs::resize_file(file, bytes + 10);
  EXPECT_THAT(std::string(System::Start(spec, job_).status().message()),
              HasSubstr("expected the end, found"));
  fs::resize_file(file, 50);
  EXPECT_THAT(std::string(System::Start(spec, job_).status().message()),
              HasSubstr("expected a header of 96 bytes, found 50"));
}

/// Squared distances of a query's answers, in their order. If `ids` is empty: of all
/// rows, the least first.
std::vector<int> SquaredDistances(const VectorFile& base, const VectorFile& queries,
                                  std::uint64_t query, std::vector<std::uint64_t> ids) {
  const bool all = ids.empty();
  for (std::uint64_t i = 0; all && i < base.n(); ++i) ids.push_back(i);
  std::vector<int> distances;
  for (const std::uint64_t id : ids) {
    int sum = 0;
    for (std::uint32_t j = 0; j < base.dim(); ++j) {
      const int difference =
          std::to_integer<int>(base.Row(id)[j]) - std::to_integer<int>(queries.Row(query)[j]);
      sum += difference * difference;
    }
    distances.push_back(sum);
  }
  if (all) std::sort(distances.begin(), distances.end());
  return distances;
}

TEST_F(BuiltinSystems, FaissMeasuresTheBestOfItsCodesAgain) {
  // This refine factor reranks every row, so the answers are exact whatever the codes
  // say.
  const std::map<std::string, Json> all = {{"faiss-sq8", {{"ef", 2000}, {"refine", 100}}},
                                           {"faiss-ivfpq", {{"nprobe", 51}, {"refine", 200}}}};
  const absl::StatusOr<VectorFile> base = VectorFile::Open(job_.base, job_.rows),
                                   queries = VectorFile::Open(job_.queries, 50);
  ASSERT_TRUE(base.ok() && queries.ok()) << base.status() << queries.status();
  for (const auto& [name, setting] : all) {
    for (const bool kept : {false, true}) {
      SCOPED_TRACE(absl::StrCat(name, kept ? ", kept" : ""));
      absl::StatusOr<System> system = System::Start(*BuiltinSystem(name, {}), job_);
      ASSERT_TRUE(system.ok()) << system.status();
      EXPECT_THAT(system->ready()["library"].get<std::string>(), HasSubstr("refine"));
      EXPECT_EQ(system->ready()["cached"], kept);
      EXPECT_GT(system->ready()["index_bytes"], 2000u * 128) << "the bytes that are measured again";
      EXPECT_LT(system->ready()["index_bytes"], 2000u * 128 * 4);
      const absl::StatusOr<RunAnswer> answer = system->Run(setting, false);
      ASSERT_TRUE(answer.ok()) << answer.status();
      for (std::size_t q = 0; q < 50; ++q) {
        const std::vector<std::uint64_t> ids(answer->ids.begin() + q * 10,
                                             answer->ids.begin() + (q + 1) * 10);
        ASSERT_LT(*std::max_element(ids.begin(), ids.end()), 2000u);
        std::vector<int> best = SquaredDistances(*base, *queries, q, {});
        best.resize(10);
        EXPECT_EQ(SquaredDistances(*base, *queries, q, ids), best) << "query " << q;
      }
      EXPECT_THAT(std::string(system->Run({{"ef", 50}, {"nprobe", 5}}, false).status().message()),
                  HasSubstr("is unknown"));
    }
  }
}

TEST_F(BuiltinSystems, FaissOfThePaperFindsCountsAndCannotFilter) {
  job_.rows = 1500;
  const absl::StatusOr<VectorFile> base = VectorFile::Open(job_.base, job_.rows),
                                   queries = VectorFile::Open(job_.queries, 50);
  ASSERT_TRUE(base.ok() && queries.ok()) << base.status() << queries.status();
  for (const auto& [name, few, many, counter] :
       {std::tuple("faiss-nsg", Json{{"ef", 10}}, Json{{"ef", 300}}, "distances"),
        {"faiss-imi", Json{{"nprobe", 16}}, Json{{"nprobe", 8192}}, "estimates"}}) {
    SCOPED_TRACE(name);
    double before = 0;
    for (const bool kept : {false, true}) {
      absl::StatusOr<System> system = System::Start(*BuiltinSystem(name, {}), job_);
      ASSERT_TRUE(system.ok()) << system.status();
      EXPECT_EQ(system->ready()["cached"], kept);
      EXPECT_GE(system->ready()["settings"].size(), 8u) << "a ladder";
      const double less = system->Run(few, true)->counters[counter];
      const absl::StatusOr<RunAnswer> answer = system->Run(many, true);
      ASSERT_TRUE(answer.ok()) << answer.status();
      const double more = answer->counters[counter];
      EXPECT_LT(less, more);
      EXPECT_LT(more, 1510) << "each row once";
      int right = 0;
      for (std::size_t q = 0; q < 50; ++q) {
        const int worst = SquaredDistances(*base, *queries, q, {})[9];
        const auto begin = answer->ids.begin() + static_cast<std::ptrdiff_t>(q * 10);
        for (const int distance : SquaredDistances(*base, *queries, q, {begin, begin + 10}))
          right += distance <= worst ? 1 : 0;
      }
      EXPECT_GT(right, 400) << "of 500";
      EXPECT_EQ(kept ? before : more, more);
      before = more;
      EXPECT_EQ(system->Run(many, false)->ids, answer->ids);
    }
  }
}

/// Answers hold rows that match, each once, and all of them if they are fewer than k.
void ExpectNearestMatches(const std::vector<std::uint64_t>& ids, const GroundTruth& truth,
                          const std::set<std::uint64_t>& matches) {
  ASSERT_EQ(ids.size(), 500u);
  for (std::uint64_t q = 0; q < 50; ++q) {
    SCOPED_TRACE(absl::StrCat("query ", q));
    std::vector<std::uint64_t> found(ids.begin() + q * 10, ids.begin() + (q + 1) * 10);
    std::erase(found, kNoNeighbor);
    const std::set<std::uint64_t> once(found.begin(), found.end());
    EXPECT_EQ(once.size(), std::min<std::size_t>(10, matches.size()));
    EXPECT_EQ(once.size(), found.size());
    EXPECT_TRUE(std::includes(matches.begin(), matches.end(), once.begin(), once.end()));
    EXPECT_EQ(RecallAtK(truth, q, 10, found, {}), 1.0);
  }
}

TEST_F(BuiltinSystems, WithAFilterFindTheNearestMatches) {
  job_.rows = 1000;
  const std::string rows = folder_ + "/rows.ndjson";
  std::ofstream out(rows);
  for (int i = 0; i < 1000; ++i) out << R"({"u": )" << i * 7 % 1000 << "}\n";
  out.close();
  const Json graph = {{"mode", "graph"}, {"ef_l1", 16}, {"ef_l0", 1000}};
  const std::map<std::string, Json> all = {{"hmann", graph},
                                           {"hmann-batch", graph},
                                           {"hnswlib", {{"ef", 1000}}},
                                           {"hnswlib-u8", {{"ef", 1000}}},
                                           {"faiss", {{"ef", 2000}}},
                                           {"faiss-ivf", {{"nprobe", 25}}},
                                           {"faiss-ivfpq", nullptr},
                                           {"faiss-nsg", nullptr}};
  for (const std::size_t count : {300, 7}) {
    Benchmark benchmark;
    benchmark.job = job_;
    benchmark.attrs.from = rows;
    benchmark.filter = absl::StrCat("u < ", count);
    for (const auto& [name, setting] : all) benchmark.systems.push_back(*BuiltinSystem(name));
    Progress progress(Progress::Show::kNever);
    const auto found = FindMatches(&benchmark, 1000, progress);
    ASSERT_TRUE(found.ok()) << found.status();
    const std::set<std::uint64_t> matches(found->begin(), found->end());
    ASSERT_EQ(matches.size(), count);
    for (const std::uint64_t row : matches) EXPECT_LT(row * 7 % 1000, count);
    const std::optional<VectorFile> base = *VectorFile::Open(job_.base, job_.rows);
    const auto truth = FindTruth(benchmark, base, *VectorFile::Open(job_.queries, 50), *found,
                                 progress, [](const std::string&) {});
    ASSERT_TRUE(truth.ok()) << truth.status();
    for (const SystemSpec& spec : benchmark.systems) {
      SCOPED_TRACE(absl::StrCat(spec.name, ", ", count, " match"));
      absl::StatusOr<System> system = System::Start(spec, benchmark.job);
      const bool old = spec.name.starts_with("hnswlib") && !system.ok();  // Debian's is
      if (all.at(spec.name).is_null() || old) {
        EXPECT_THAT(std::string(system.status().message()), HasSubstr("cannot filter"));
        continue;
      }
      ASSERT_TRUE(system.ok()) << system.status();
      const absl::StatusOr<RunAnswer> answer = system->Run(all.at(spec.name), false);
      ASSERT_TRUE(answer.ok()) << answer.status();
      ExpectNearestMatches(answer->ids, *truth, matches);
      if (spec.name != "hmann") continue;
      EXPECT_THAT(std::string(system->Run({{"recall", 0.9}}, false).status().message()),
                  HasSubstr("has to be calibrated"));
    }
  }
}

TEST_F(BuiltinSystems, FaissRefusesAnIndexThatItDoesNotHave) {
  SystemSpec spec = *BuiltinSystem("faiss-ivfpq", {});
  spec.build["nlist"] = 0;
  EXPECT_THAT(std::string(System::Start(spec, job_).status().message()),
              HasSubstr("setting nlist: expected a whole number from 1"));
  spec.build = {{"index", "hnsw"}, {"nlist", 8}};
  EXPECT_THAT(std::string(System::Start(spec, job_).status().message()),
              HasSubstr("expected with ivf and ivfpq only"));
  spec.build = {{"index", "flat"}};
  EXPECT_THAT(std::string(System::Start(spec, job_).status().message()),
              HasSubstr("expected hnsw, hnsw-sq8, ivf, ivfpq, nsg or imi, found \"flat\""));
}

TEST_F(BuiltinSystems, ManyThreadsAndWarmUpChangeNoAnswer) {
  for (const char* name : {"hnswlib", "faiss"}) {
    SCOPED_TRACE(name);
    absl::StatusOr<System> system = System::Start(*BuiltinSystem(name, {}), job_);
    ASSERT_TRUE(system.ok()) << system.status();
    const absl::StatusOr<RunAnswer> alone = system->Run({{"ef", 50}}, false);
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_TRUE(system->WarmUp({{"ef", 50}}, 10).ok());
    EXPECT_THAT(std::string(system->WarmUp({{"ef", 50}}, 51).message()), HasSubstr("from 1 to 50"));
    const bool many = std::string(name) == "hnswlib";
    const absl::StatusOr<RunAnswer> shaped =
        system->Run({{"ef", 50}, {"threads", many ? 3 : 1}}, false);
    ASSERT_TRUE(shaped.ok()) << shaped.status();
    EXPECT_EQ(shaped->ids, alone->ids);
    ASSERT_TRUE(shaped->latency.has_value());
    EXPECT_GT(shaped->latency->p50, 0);
    EXPECT_LE(shaped->latency->p50, shaped->latency->p99);
    EXPECT_LE(shaped->latency->mean, 1e6 * shaped->seconds);
    EXPECT_FALSE(system->Run({{"ef", 50}, {"in_flight", 2}}, false).ok())
        << "a library that answers one at a time";
    EXPECT_FALSE(system->Run({{"ef", 50}, {"threads", 0}}, false).ok());
  }
}

TEST_F(BuiltinSystems, ItsIntegerDistanceRefusesOtherData) {
  job_.metric = Metric::kInnerProduct;
  const absl::StatusOr<System> system = System::Start(*BuiltinSystem("hnswlib-u8", {}), job_);
  ASSERT_FALSE(system.ok());
  EXPECT_THAT(std::string(system.status().message()),
              AllOf(HasSubstr("system hnswlib-u8"), HasSubstr("expected u8 under l2")));
}

TEST_F(BuiltinSystems, AnUnknownSettingIsAnErrorAndTheProgramGoesOn) {
  absl::StatusOr<System> system = System::Start(*BuiltinSystem("hnswlib", {}), job_);
  ASSERT_TRUE(system.ok()) << system.status();
  EXPECT_THAT(std::string(system->Run({{"fe", 50}}, false).status().message()),
              HasSubstr("setting 'fe' is unknown"));
  EXPECT_THAT(std::string(system->Run({{"ef", 0}}, false).status().message()),
              HasSubstr("whole number from 1"));
  EXPECT_TRUE(system->Run({{"ef", 50}}, false).ok());
}

TEST_F(BuiltinSystems, AMissingFileIsNamed) {
  job_.base = "no/such/base.u8bin";
  const absl::Status status = System::Start(*BuiltinSystem("hnswlib", {}), job_).status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("system hnswlib"), HasSubstr("no/such/base.u8bin")));
}

}  // namespace
}  // namespace hmann::eval
