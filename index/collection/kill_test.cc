/// A process that writes is killed at random moments, and at each of its system calls;
/// the disk refuses it, too. What it had acknowledged is there, and no write is half
/// there.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "hmann/collection.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

constexpr std::uint32_t kDim = 8;
constexpr int kSays = 50;  ///< file descriptor of the child
constexpr std::uint64_t kLabels = 120, kWriters = 3;
using Vector = std::vector<std::uint8_t>;
using State = std::map<std::uint64_t, Vector>;  ///< vectors by label

bool IsSoak() { return std::getenv("HMANN_SOAK") != nullptr; }

/// Write number `number` of a writer, in a life of the process: what it does to a state.
struct Step {
  std::vector<std::pair<std::uint64_t, std::optional<Vector>>> changes;

  Step(std::uint64_t life, std::uint64_t writer, std::uint64_t number) {
    std::mt19937_64 random((life * 1000 + number) * kWriters + writer);
    const std::uint64_t size = 1 + random() % 12;
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t label = random() % kLabels * kWriters + writer;
      std::optional<Vector> vector;
      if (random() % 4 != 0) {
        vector.emplace(kDim);
        for (std::uint8_t& c : *vector) c = static_cast<std::uint8_t>(random());
      }
      changes.emplace_back(label, std::move(vector));
    }
  }
  WriteBatch batch() const {
    WriteBatch batch;
    for (const auto& [label, vector] : changes)
      vector.has_value() ? batch.Put(label, vector->data(), kDim) : batch.Delete(label);
    return batch;
  }
  void Do(State* state) const {
    for (const auto& [label, vector] : changes) {
      if (vector.has_value()) {
        (*state)[label] = *vector;
      } else {
        state->erase(label);
      }
    }
  }
};

/// The process that is killed: it writes from several threads, searches, merges, and says
/// on kSays which writes were acknowledged: a byte for the writer each.
void WriteUntilKilled(const std::string& folder, std::uint64_t life, std::uint64_t writes) {
  auto opened = Collection::Open(folder, {.merges = false});
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::shared_ptr<Collection> collection = *opened;
  std::atomic<bool> stop = false;
  std::thread merger([&] {
    Progress quiet(Progress::Show::kNever);
    while (!stop) {
      collection->Compact(quiet).IgnoreError();
      std::this_thread::sleep_for(std::chrono::milliseconds(life % 50));
    }
  });
  std::thread searcher([&] {
    CollectionSearcher reader;
    const Vector query(kDim, 90);
    while (!stop) {
      Answer answer;
      const auto prepared = Prepare(collection->Now(), {.k = 10});
      ASSERT_TRUE(prepared.ok()) << prepared.status();
      ASSERT_TRUE(reader.Search(query.data(), **prepared, &answer).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  std::vector<std::thread> writers;
  for (std::uint64_t writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      for (std::uint64_t number = 0; number < writes; ++number) {
        if (!collection->Write(Step(life, writer, number).batch()).ok()) break;
        const auto acknowledged = static_cast<char>('0' + writer);
        if (::write(kSays, &acknowledged, 1) != 1) break;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  stop = true;
  merger.join();
  searcher.join();
}

TEST(CollectionChild, Writes) {
  const char* arguments = std::getenv("HMANN_KILL_CHILD");
  if (arguments == nullptr) GTEST_SKIP() << "is the process that the other tests kill";
  const std::vector<std::string> parts = absl::StrSplit(arguments, ' ');
  std::uint64_t life = 0, writes = 0;
  ASSERT_TRUE(absl::SimpleAtoi(parts[1], &life) && absl::SimpleAtoi(parts[2], &writes));
  WriteUntilKilled(parts[0], life, writes);
}

/// Starts this program as the child; returns its pid, and where it says what it wrote.
struct Child {
  pid_t pid = -1;
  int output = -1;

  Child(const std::string& folder, std::uint64_t life, std::uint64_t writes,
        std::vector<std::string> wrapper) {
    int pipe[2];
    HMANN_CHECK(::pipe(pipe) == 0);
    pid = ::fork();
    if (pid == 0) {
      ::dup2(pipe[1], kSays);
      ::close(pipe[0]);
      const int null = ::open("/dev/null", O_WRONLY);
      ::dup2(null, 1);
      ::dup2(null, 2);
      ::setenv("HMANN_KILL_CHILD", absl::StrCat(folder, " ", life, " ", writes).c_str(), 1);
      wrapper.insert(wrapper.end(), {Self(), "--gtest_filter=CollectionChild.Writes"});
      std::vector<char*> argv;
      for (std::string& word : wrapper) argv.push_back(word.data());
      argv.push_back(nullptr);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(pipe[1]);
    output = pipe[0];
  }
  static std::string Self() { return std::filesystem::read_symlink("/proc/self/exe"); }

  /// Waits for its end. Returns the number of acknowledged writes of each writer, and
  /// whether it ended by itself.
  std::pair<std::array<std::uint64_t, kWriters>, bool> Wait() const {
    std::array<std::uint64_t, kWriters> acknowledged{};
    char writer = 0;
    while (::read(output, &writer, 1) == 1) ++acknowledged[static_cast<std::size_t>(writer - '0')];
    ::close(output);
    int status = 0;
    ::waitpid(pid, &status, 0);
    return {acknowledged, WIFEXITED(status)};
  }
};

/// Holds a collection against what its writers were told.
class KillTest : public testing::Test {
 protected:
  void SetUp() override {
    CreateCollection options;
    options.dtype = DType::kU8;
    options.dim = kDim;
    options.build.m = 4;
    options.build.ef_construction = 20;
    ASSERT_TRUE(Collection::Create(folder_, options).ok());
  }

  State ReadAll() const {
    State found;
    auto opened = Collection::Open(folder_, {.merges = false});
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (!opened.ok()) return found;
    const std::shared_ptr<const Moment> now = (*opened)->Now();
    CollectionSearcher reader;
    Answer answer;
    const Vector query(kDim, 90);
    const auto all = Prepare(now, {.k = kLabels * kWriters, .mode = SearchMode::kScan});
    EXPECT_TRUE(all.ok() && reader.Search(query.data(), **all, &answer).ok());
    EXPECT_EQ(answer.nearest.size(), LiveRows(*now));
    for (const Neighbor& neighbor : answer.nearest) {
      Vector vector(kDim);
      EXPECT_TRUE(reader.Get(*now, {&neighbor.label, 1}, vector.data()).ok());
      EXPECT_TRUE(found.emplace(neighbor.label, std::move(vector)).second) << "label twice";
    }
    return found;
  }

  /// The state after the acknowledged writes, or with the one that had begun.
  void Check(std::uint64_t life, const std::array<std::uint64_t, kWriters>& acknowledged) {
    const State found = ReadAll();
    for (std::uint64_t writer = 0; writer < kWriters; ++writer) {
      State expected = OfWriter(state_, writer);
      for (std::uint64_t number = 0; number < acknowledged[writer]; ++number)
        Step(life, writer, number).Do(&expected);
      State with_next = expected;
      Step(life, writer, acknowledged[writer]).Do(&with_next);
      const State actual = OfWriter(found, writer);
      ASSERT_TRUE(actual == expected || actual == with_next)
          << actual.size() << " vectors, expected " << expected.size() << " or " << with_next.size()
          << ": life " << life << ", writer " << writer << ", " << acknowledged[writer]
          << " acknowledged";
    }
    state_ = found;
  }

  static State OfWriter(const State& state, std::uint64_t writer) {
    State of_writer;
    for (const auto& [label, vector] : state)
      if (label % kWriters == writer) of_writer[label] = vector;
    return of_writer;
  }

  SampleFolder parent_;
  const std::string folder_ = parent_ / "c.live";
  State state_;
};

TEST_F(KillTest, AtRandomMoments) {
  std::mt19937_64 random(3);
  const std::uint64_t lives = IsSoak() ? 1000 : 8;
  for (std::uint64_t life = 1; life <= lives; ++life) {
    const Child child(folder_, life, 1'000'000, {});
    std::this_thread::sleep_for(std::chrono::microseconds(20'000 + random() % 400'000));
    ::kill(child.pid, SIGKILL);
    const auto [acknowledged, ended] = child.Wait();
    EXPECT_FALSE(ended) << "it ended before it was killed";
    ASSERT_NO_FATAL_FAILURE(Check(life, acknowledged));
  }
}

/// Each call of some system calls in turn kills the process, or fails in it.
class InjectedTest : public KillTest, public testing::WithParamInterface<const char*> {};

TEST_P(InjectedTest, AtEachCall) {
  const std::vector<std::string> parts = absl::StrSplit(GetParam(), ' ');
  const std::string call = parts[0], effect = parts[1];
  const std::uint64_t step = IsSoak() ? 1 : 9, most = IsSoak() ? 60 : 20;
  std::uint64_t all = 0;
  for (std::uint64_t at = 1; at <= most; at += step) {
    const std::string when = absl::StrCat(":when=", at, effect == "signal=KILL" ? "" : "+");
    const Child child(folder_, at, 20,
                      {"strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e",
                       absl::StrCat("inject=", call, ":", effect, when)});
    const auto [acknowledged, ended] = child.Wait();
    ASSERT_NO_FATAL_FAILURE(Check(at, acknowledged)) << GetParam() << " " << at;
    for (const std::uint64_t count : acknowledged) all += count;
  }
  EXPECT_GT(all, 0u) << "the child never wrote";
}

INSTANTIATE_TEST_SUITE_P(All, InjectedTest,
                         testing::Values("pwrite64 signal=KILL", "fdatasync signal=KILL",
                                         "fsync signal=KILL", "rename signal=KILL",
                                         "unlink signal=KILL", "ftruncate signal=KILL",
                                         "write signal=KILL", "pwrite64 error=ENOSPC",
                                         "fdatasync error=EIO", "fsync error=EIO",
                                         "rename error=ENOSPC", "pwrite64 error=EIO"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

}  // namespace
}  // namespace hmann
