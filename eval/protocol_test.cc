// Both sides of adapters/PROTOCOL.md: well-behaved rivals, and those that die, hang, or talk nonsense.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "eval/child_process.h"
#include "eval/contestant.h"
#include "eval/own_contestants.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

class Protocol : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "protocol_test.", ::getpid());
    fs::create_directories(folder_);
    job_.base = "datasets/sample/base.u8bin";
    job_.queries = "datasets/sample/query.u8bin";
    job_.rows = 2000;
    job_.query_rows = job_.query_count = 50;
    job_.folder = folder_;
    job_.work = folder_ + "/work";
    job_.threads = 2;
    job_.build_timeout = std::chrono::minutes(2);
    job_.run_timeout = std::chrono::minutes(1);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// A rival in a few lines of shell.
  ContestantSpec Shell(const std::string& script) {
    ContestantSpec spec;
    spec.name = "rival";
    spec.command = {"/bin/sh", "-c", script, "sh"};
    spec.settings = Json::array({Json::object()});
    return spec;
  }

  /// The error of a rival that fails at its start or, started, in its first run.
  absl::Status FailureOf(const std::string& script) {
    absl::StatusOr<Contestant> contestant = Contestant::Start(Shell(script), job_);
    if (!contestant.ok()) return contestant.status();
    return contestant->Run(Json::object(), false).status();
  }

  std::string folder_;
  ContestantJob job_;
};

constexpr const char* kReady = R"(echo '{"ready": "r", "build_seconds": 1, "index_bytes": 1}'; )";

TEST_F(Protocol, HnswlibBuildsAnswersAndKeepsItsIndex) {
  for (const bool kept : {false, true}) {
    SCOPED_TRACE(kept);
    absl::StatusOr<ContestantSpec> spec = OwnContestant("hnswlib", {});
    ASSERT_TRUE(spec.ok()) << spec.status();
    absl::StatusOr<Contestant> contestant = Contestant::Start(*spec, job_);
    ASSERT_TRUE(contestant.ok()) << contestant.status();
    const Ready& ready = contestant->ready();
    EXPECT_THAT(ready.library, HasSubstr("hnswlib"));
    EXPECT_EQ(ready.cached, kept);
    EXPECT_GT(ready.build_seconds, 0);
    EXPECT_EQ(ready.build_threads, 2);
    EXPECT_GT(ready.index_bytes, 2000u * 128 * 4);
    EXPECT_GT(ready.settings.size(), 5u);
    const absl::StatusOr<RunAnswer> answer = contestant->Run({{"ef", 50}}, false);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_GT(answer->seconds, 0);
    EXPECT_GT(answer->cpu_seconds, 0);
    ASSERT_EQ(answer->ids.size(), 500u);
    for (std::size_t q = 0; q < 50; ++q) {
      const std::set<std::uint64_t> ids(answer->ids.begin() + q * 10, answer->ids.begin() + (q + 1) * 10);
      EXPECT_EQ(ids.size(), 10u);
      EXPECT_LT(*ids.rbegin(), 2000u);
    }
    EXPECT_TRUE(contestant->Stop().ok());
  }
}

TEST_F(Protocol, HnswlibMappedAnswersAsInMemoryOverTheSameFile) {
  std::vector<std::vector<std::uint64_t>> answers;
  std::string file;
  for (const char* level0 : {"mapped", "memory", "mapped"}) {
    SCOPED_TRACE(level0);
    ContestantSpec spec = *OwnContestant("hnswlib-u8", {});
    spec.build["level0"] = level0;
    absl::StatusOr<Contestant> contestant = Contestant::Start(spec, job_);
    ASSERT_TRUE(contestant.ok()) << contestant.status();
    EXPECT_EQ(contestant->ready().cached, !answers.empty()) << "how it is loaded makes no other index";
    EXPECT_EQ(contestant->ready().library.ends_with(", level 0 mapped"), std::string(level0) == "mapped");
    if (!file.empty()) {
      EXPECT_EQ(contestant->ready().index_file, file);
    }
    file = contestant->ready().index_file;
    EXPECT_TRUE(fs::exists(file)) << file;
    const absl::StatusOr<RunAnswer> answer = contestant->Run({{"ef", 50}}, false);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_FALSE(answer->latency.has_value());
    answers.push_back(answer->ids);
    EXPECT_EQ(answers.back(), answers.front());
    EXPECT_TRUE(contestant->Stop().ok());
  }
  job_.work.clear();
  ContestantSpec spec = *OwnContestant("hnswlib-u8", {});
  spec.build["level0"] = "mapped";
  EXPECT_THAT(std::string(Contestant::Start(spec, job_).status().message()), HasSubstr("expected --work"));
  spec.build["level0"] = "elsewhere";
  EXPECT_THAT(std::string(Contestant::Start(spec, job_).status().message()), HasSubstr("expected memory or mapped, found \"elsewhere\""));
}

TEST_F(Protocol, ADamagedFileIsNotMapped) {
  ContestantSpec spec = *OwnContestant("hnswlib-u8", {});
  spec.build["level0"] = "mapped";
  std::string file;
  {
    absl::StatusOr<Contestant> contestant = Contestant::Start(spec, job_);
    ASSERT_TRUE(contestant.ok()) << contestant.status();
    file = contestant->ready().index_file;
  }
  const std::uint64_t bytes = fs::file_size(file);
  fs::resize_file(file, bytes - 1);
  EXPECT_THAT(std::string(Contestant::Start(spec, job_).status().message()), HasSubstr(absl::StrCat(file, ": offset ")));
  fs::resize_file(file, bytes + 10);
  EXPECT_THAT(std::string(Contestant::Start(spec, job_).status().message()), HasSubstr("expected the end, found"));
  fs::resize_file(file, 50);
  EXPECT_THAT(std::string(Contestant::Start(spec, job_).status().message()), HasSubstr("expected a header of 96 bytes, found 50"));
}

/// Squared distances of a query's answers, in their order; of all rows, the least first, when `ids` is empty.
std::vector<int> SquaredDistances(const VectorFile& base, const VectorFile& queries, std::uint64_t query, std::vector<std::uint64_t> ids) {
  const bool all = ids.empty();
  for (std::uint64_t i = 0; all && i < base.n(); ++i) ids.push_back(i);
  std::vector<int> distances;
  for (const std::uint64_t id : ids) {
    int sum = 0;
    for (std::uint32_t j = 0; j < base.dim(); ++j) {
      const int difference = std::to_integer<int>(base.Row(id)[j]) - std::to_integer<int>(queries.Row(query)[j]);
      sum += difference * difference;
    }
    distances.push_back(sum);
  }
  if (all) std::sort(distances.begin(), distances.end());
  return distances;
}

TEST_F(Protocol, FaissMeasuresTheBestOfItsCodesAgain) {
  // With so much effort every row is measured again, so the answers are exact, whatever the codes say.
  const std::map<std::string, Json> all = {{"faiss-sq8", {{"ef", 2000}, {"refine", 100}}},
                                           {"faiss-ivfpq", {{"nprobe", 51}, {"refine", 200}}}};
  const absl::StatusOr<VectorFile> base = VectorFile::Open(job_.base, job_.rows), queries = VectorFile::Open(job_.queries, 50);
  ASSERT_TRUE(base.ok() && queries.ok()) << base.status() << queries.status();
  for (const auto& [name, setting] : all) {
    for (const bool kept : {false, true}) {
      SCOPED_TRACE(absl::StrCat(name, kept ? ", kept" : ""));
      absl::StatusOr<Contestant> contestant = Contestant::Start(*OwnContestant(name, {}), job_);
      ASSERT_TRUE(contestant.ok()) << contestant.status();
      EXPECT_THAT(contestant->ready().library, HasSubstr("refine"));
      EXPECT_EQ(contestant->ready().cached, kept);
      EXPECT_GT(contestant->ready().index_bytes, 2000u * 128) << "the bytes that are measured again";
      EXPECT_LT(contestant->ready().index_bytes, 2000u * 128 * 4);
      const absl::StatusOr<RunAnswer> answer = contestant->Run(setting, false);
      ASSERT_TRUE(answer.ok()) << answer.status();
      for (std::size_t q = 0; q < 50; ++q) {
        const std::vector<std::uint64_t> ids(answer->ids.begin() + q * 10, answer->ids.begin() + (q + 1) * 10);
        ASSERT_LT(*std::max_element(ids.begin(), ids.end()), 2000u);
        std::vector<int> best = SquaredDistances(*base, *queries, q, {});
        best.resize(10);
        EXPECT_EQ(SquaredDistances(*base, *queries, q, ids), best) << "query " << q;
      }
      EXPECT_THAT(std::string(contestant->Run({{"ef", 50}, {"nprobe", 5}}, false).status().message()), HasSubstr("is unknown"));
    }
  }
}

TEST_F(Protocol, FaissRefusesAnIndexThatItDoesNotHave) {
  ContestantSpec spec = *OwnContestant("faiss-ivfpq", {});
  spec.build["nlist"] = 0;
  EXPECT_THAT(std::string(Contestant::Start(spec, job_).status().message()), HasSubstr("setting nlist: expected a whole number from 1"));
  spec.build = {{"index", "hnsw"}, {"nlist", 8}};
  EXPECT_THAT(std::string(Contestant::Start(spec, job_).status().message()), HasSubstr("expected with ivfpq only"));
  spec.build = {{"index", "flat"}};
  EXPECT_THAT(std::string(Contestant::Start(spec, job_).status().message()), HasSubstr("expected hnsw, hnsw-sq8 or ivfpq, found \"flat\""));
}

TEST_F(Protocol, ManyThreadsAndWarmUpChangeNoAnswer) {
  for (const char* name : {"hnswlib", "faiss"}) {
    SCOPED_TRACE(name);
    absl::StatusOr<Contestant> contestant = Contestant::Start(*OwnContestant(name, {}), job_);
    ASSERT_TRUE(contestant.ok()) << contestant.status();
    const absl::StatusOr<RunAnswer> alone = contestant->Run({{"ef", 50}}, false);
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_TRUE(contestant->WarmUp({{"ef", 50}}, 10).ok());
    EXPECT_THAT(std::string(contestant->WarmUp({{"ef", 50}}, 51).message()), HasSubstr("from 1 to 50"));
    const bool many = std::string(name) == "hnswlib";
    const absl::StatusOr<RunAnswer> shaped = contestant->Run({{"ef", 50}, {"threads", many ? 3 : 1}}, false);
    ASSERT_TRUE(shaped.ok()) << shaped.status();
    EXPECT_EQ(shaped->ids, alone->ids);
    ASSERT_TRUE(shaped->latency.has_value());
    EXPECT_GT(shaped->latency->p50, 0);
    EXPECT_LE(shaped->latency->p50, shaped->latency->p99);
    EXPECT_LE(shaped->latency->mean, 1e6 * shaped->seconds);
    EXPECT_FALSE(contestant->Run({{"ef", 50}, {"in_flight", 2}}, false).ok()) << "a library that answers one at a time";
    EXPECT_FALSE(contestant->Run({{"ef", 50}, {"threads", 0}}, false).ok());
  }
}

TEST_F(Protocol, LatenciesThatAreNoneAreNamed) {
  const std::string says = R"(read line; echo '{"seconds": 1, "cpu_seconds": 1, "latency_us": {"mean": 1, "p50": 1}}'; cat > /dev/null)";
  EXPECT_THAT(std::string(FailureOf(absl::StrCat(kReady, says)).message()), HasSubstr("expected a positive number 'p99'"));
}

TEST_F(Protocol, ItsIntegerDistanceRefusesOtherData) {
  job_.metric = Metric::kInnerProduct;
  const absl::StatusOr<Contestant> contestant = Contestant::Start(*OwnContestant("hnswlib-u8", {}), job_);
  ASSERT_FALSE(contestant.ok());
  EXPECT_THAT(std::string(contestant.status().message()), AllOf(HasSubstr("contestant hnswlib-u8"), HasSubstr("expected u8 under l2")));
}

TEST_F(Protocol, AnUnknownSettingIsAnErrorAndTheProgramGoesOn) {
  absl::StatusOr<Contestant> contestant = Contestant::Start(*OwnContestant("hnswlib", {}), job_);
  ASSERT_TRUE(contestant.ok()) << contestant.status();
  EXPECT_THAT(std::string(contestant->Run({{"fe", 50}}, false).status().message()), HasSubstr("setting 'fe' is unknown"));
  EXPECT_THAT(std::string(contestant->Run({{"ef", 0}}, false).status().message()), HasSubstr("whole number from 1"));
  EXPECT_TRUE(contestant->Run({{"ef", 50}}, false).ok());
}

TEST_F(Protocol, AMissingFileIsNamed) {
  job_.base = "no/such/base.u8bin";
  const absl::Status status = Contestant::Start(*OwnContestant("hnswlib", {}), job_).status();
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("contestant hnswlib"), HasSubstr("no/such/base.u8bin")));
}

TEST_F(Protocol, AForeignCommandGetsTheArguments) {
  const std::string program = folder_ + "/rival.sh";
  std::ofstream(program)
      << R"(echo "{\"ready\": \"$1 $*\", \"build_seconds\": 1, \"index_bytes\": 1, \"settings\": [{\"a\": 1}]}"; cat > /dev/null)";
  absl::StatusOr<ContestantSpec> spec = ForeignContestant(absl::StrCat("mine=sh ", program, " --own 'two words'"));
  ASSERT_TRUE(spec.ok());
  absl::StatusOr<Contestant> contestant = Contestant::Start(*spec, job_);
  ASSERT_TRUE(contestant.ok()) << contestant.status();
  EXPECT_EQ(contestant->name(), "mine");
  EXPECT_THAT(contestant->ready().library,
              AllOf(HasSubstr("--own two words --base datasets/sample/base.u8bin"), HasSubstr("--metric l2"), HasSubstr("--k 10")));
  EXPECT_TRUE(contestant->Stop().ok());
  EXPECT_FALSE(ForeignContestant("no command").ok());
  EXPECT_FALSE(ForeignContestant("=x").ok());
}

TEST_F(Protocol, DyingIsNamed) {
  EXPECT_THAT(std::string(FailureOf("echo 'out of luck' >&2; exit 3").message()),
              AllOf(HasSubstr("contestant rival: it ended with exit code 3"), HasSubstr("| out of luck")));
  EXPECT_THAT(std::string(FailureOf(absl::StrCat(kReady, "read line; kill -SEGV $$")).message()),
              HasSubstr("signal 11 (Segmentation fault)"));
  EXPECT_THAT(std::string(FailureOf(absl::StrCat(kReady, "exit 0")).message()), HasSubstr("it ended with exit code 0"));
  EXPECT_THAT(std::string(FailureOf("exec no-such-program-here").message()), HasSubstr("exit code 127"));
}

TEST_F(Protocol, AProgramThatDoesNotExistIsNamed) {
  ContestantSpec spec;
  spec.name = "ghost";
  spec.command = {folder_ + "/ghost"};
  EXPECT_THAT(std::string(Contestant::Start(spec, job_).status().message()),
              AllOf(HasSubstr("contestant ghost: it ended with exit code 127"), HasSubstr("No such file")));
}

TEST_F(Protocol, HangingIsNamedAndEnds) {
  job_.build_timeout = job_.run_timeout = milliseconds(100);
  const auto start = std::chrono::steady_clock::now();
  const absl::Status building = FailureOf("sleep 600");
  EXPECT_EQ(building.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(building.message()), HasSubstr("contestant rival: it was silent for"));
  EXPECT_EQ(FailureOf(absl::StrCat(kReady, "read line; sleep 600")).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60)) << "it was waited for, not killed";
}

TEST_F(Protocol, AKilledContestantTakesItsChildrenAlong) {
  const std::string file = folder_ + "/pid";
  job_.build_timeout = milliseconds(300);
  EXPECT_FALSE(Contestant::Start(Shell(absl::StrCat("sleep 600 & echo $! > ", file, "; wait")), job_).ok());
  pid_t pid = 0;
  std::ifstream(file) >> pid;
  ASSERT_GT(pid, 1);
  // Killed, though whoever inherits it may need a moment to reap it.
  bool gone = false;
  for (int i = 0; i < 500 && !gone; ++i) {
    std::string state;
    std::ifstream stat(absl::StrCat("/proc/", pid, "/stat"));
    std::string word;
    stat >> word >> word >> state;
    gone = !stat || state == "Z";
    if (!gone) ::usleep(10000);
  }
  EXPECT_TRUE(gone);
}

TEST_F(Protocol, GarbageIsNamed) {
  EXPECT_THAT(std::string(FailureOf("echo hello; cat > /dev/null").message()),
              HasSubstr("expected a line of JSON, an object, found 'hello'"));
  EXPECT_THAT(std::string(FailureOf("printf '\\001\\377\\n'; cat > /dev/null").message()), HasSubstr("found '\\x01\\xff'"));
  EXPECT_THAT(std::string(FailureOf("echo '[1]'; cat > /dev/null").message()), HasSubstr("an object"));
  EXPECT_THAT(std::string(FailureOf("echo '{\"ready\": 1}'; cat > /dev/null").message()), HasSubstr("expected {\"ready\""));
  EXPECT_THAT(std::string(FailureOf("echo '{\"ready\": \"r\"}'; cat > /dev/null").message()), HasSubstr("'build_seconds'"));
  EXPECT_THAT(std::string(FailureOf("yes | tr -d '\\n'").message()), HasSubstr("a line of more than"));
}

TEST_F(Protocol, WrongAnswersAreNamed) {
  const std::string answers = folder_ + "/rival.answers.ibin";
  const std::string says = R"(echo '{"seconds": 1, "cpu_seconds": 1}'; cat > /dev/null)";
  EXPECT_THAT(std::string(FailureOf(absl::StrCat(kReady, "read line; ", says)).message()),
              AllOf(HasSubstr("rival.answers.ibin"), HasSubstr("No such file")));
  EXPECT_THAT(std::string(FailureOf(absl::StrCat(kReady, "read line; printf 12345678 > ", answers, "; ", says)).message()),
              HasSubstr("expected 2008 bytes for 50 x 10 ids, found 8"));
  EXPECT_THAT(std::string(FailureOf(absl::StrCat(kReady, "read line; head -c 2008 /dev/zero > ", answers, "; ", says)).message()),
              HasSubstr("offset 0: expected 50 x 10, found 0 x 0"));
  EXPECT_THAT(
      std::string(FailureOf(absl::StrCat(kReady, R"(read line; echo '{"seconds": -1, "cpu_seconds": 1}'; cat > /dev/null)")).message()),
      HasSubstr("expected a positive number 'seconds'"));
  EXPECT_THAT(std::string(FailureOf(absl::StrCat(kReady, R"(read line; echo '{"error": "no luck"}'; cat > /dev/null)")).message()),
              HasSubstr("contestant rival: no luck"));
}

TEST_F(Protocol, LeavingWithAnotherCodeThanZeroIsAnError) {
  absl::StatusOr<Contestant> contestant = Contestant::Start(Shell(absl::StrCat(kReady, "cat > /dev/null; exit 5")), job_);
  ASSERT_TRUE(contestant.ok()) << contestant.status();
  EXPECT_THAT(std::string(contestant->Stop().message()), HasSubstr("exit code 5"));
}

TEST_F(Protocol, CancellingEndsTheWait) {
  std::atomic<bool> cancelled{true};
  job_.cancelled = &cancelled;
  EXPECT_EQ(FailureOf("sleep 600").code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace hmann
