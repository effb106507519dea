/// A process that writes is killed at random moments, and at each of its system calls;
/// the disk refuses it, too. What it had acknowledged is there, and no write is half
/// there.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "hmann/collection.h"
#include "index/collection/testing/ledger.h"

namespace hmann {
namespace {

constexpr std::uint32_t kDim = 8;
constexpr int kSays = 50;  ///< file descriptor of the child
constexpr std::uint64_t kLabels = 120, kWriters = 3;
using Vector = std::vector<std::uint8_t>;

struct Row {
  Vector vector;
  std::string attributes;  ///< JSON; empty: none
  bool operator==(const Row&) const = default;
};
using State = std::map<std::uint64_t, Row>;  ///< by label

CreateCollection Options() {
  CreateCollection options;
  options.dtype = DType::kU8;
  options.dim = kDim;
  options.build.m = 4;
  options.build.ef_construction = 20;
  return options;
}

State OfWriter(const State& state, std::uint64_t writer) {
  State of_writer;
  for (const auto& [label, row] : state)
    if (label % kWriters == writer) of_writer[label] = row;
  return of_writer;
}

/// Write number `number` of a writer, in a life of the process: puts, deletions, and
/// updates of labels that the state has. It is done to the state.
WriteBatch Do(std::uint64_t life, std::uint64_t writer, std::uint64_t number, State* state) {
  std::mt19937_64 random((life * 1000 + number) * kWriters + writer);
  WriteBatch batch;
  std::set<std::uint64_t> changed;
  const std::uint64_t size = 1 + random() % 12;
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t label = random() % kLabels * kWriters + writer, kind = random() % 8;
    const std::string attributes = absl::StrCat("{\"n\":", random() % 1000, "}");
    if (kind < 2) {
      state->erase(label);
      batch.Delete(label);
    } else if (kind == 2 && state->contains(label) && !changed.contains(label)) {
      (*state)[label].attributes = attributes;
      batch.Update(label, attributes);
    } else {
      Row row{Vector(kDim), kind % 2 == 0 ? attributes : ""};
      for (std::uint8_t& c : row.vector) c = static_cast<std::uint8_t>(random());
      batch.Put(label, row.vector.data(), kDim, row.attributes);
      (*state)[label] = std::move(row);
    }
    changed.insert(label);
  }
  return batch;
}

/// All rows, as an exact search finds them. Others find rows of these.
State ReadAll(const Collection& collection) {
  State found;
  const std::shared_ptr<const Moment> now = collection.Now();
  CollectionSearcher reader;
  Answer answer;
  const Vector query(kDim, 90);
  const auto all = Prepare(now, {.k = kLabels * kWriters, .mode = SearchMode::kScan});
  EXPECT_TRUE(all.ok() && reader.Search(query.data(), **all, &answer).ok());
  EXPECT_EQ(answer.nearest.size(), LiveRows(*now));
  for (const Neighbor& neighbor : answer.nearest) {
    Row row{Vector(kDim), ""};
    std::vector<std::string> attributes;
    EXPECT_TRUE(reader.Get(*now, {&neighbor.label, 1}, row.vector.data(), &attributes).ok());
    if (attributes.at(0) != "{}") row.attributes = attributes[0];
    EXPECT_TRUE(found.emplace(neighbor.label, std::move(row)).second) << "label twice";
  }
  const auto some = Prepare(now, {.k = 50});
  EXPECT_TRUE(some.ok() && reader.Search(query.data(), **some, &answer).ok());
  for (const Neighbor& neighbor : answer.nearest)
    EXPECT_TRUE(found.contains(neighbor.label)) << neighbor.label << " is deleted";
  return found;
}

/// The process that is killed: it writes from several threads, searches, merges, and says
/// on kSays which writes were acknowledged: a byte for the writer each.
void WriteUntilKilled(const std::string& folder, std::uint64_t life, std::uint64_t writes) {
  auto opened = Collection::Open(folder, {.merges = false});
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::shared_ptr<Collection> collection = *opened;
  const State before = ReadAll(*collection);
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
      State state = OfWriter(before, writer);
      for (std::uint64_t number = 0; number < writes; ++number) {
        if (!collection->Write(Do(life, writer, number, &state)).ok()) break;
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

/// "FOLDER LIFE WRITES", and in a virtual machine the device instead of kSays.
TEST(CollectionChild, Writes) {
  const char* arguments = std::getenv("HMANN_KILL_CHILD");
  if (arguments == nullptr) GTEST_SKIP() << "is the process that the other tests kill";
  const std::vector<std::string> parts = absl::StrSplit(arguments, ' ');
  std::uint64_t life = 0, writes = 0;
  ASSERT_TRUE(absl::SimpleAtoi(parts[1], &life) && absl::SimpleAtoi(parts[2], &writes));
  if (parts.size() > 3) {
    ASSERT_EQ(::dup2(::open(parts[3].c_str(), O_WRONLY), kSays), kSays) << parts[3];
  }
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
      argv.reserve(wrapper.size() + 1);
      for (std::string& word : wrapper) argv.push_back(word.data());
      argv.push_back(nullptr);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(pipe[1]);
    output = pipe[0];
  }
  static std::string Self() { return std::filesystem::read_symlink("/proc/self/exe"); }

  /// Waits until it says that it wrote, or it ends.
  void AwaitWrite() const {
    pollfd said{output, POLLIN, 0};
    ::poll(&said, 1, -1);
  }
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

using Counts = std::array<std::uint64_t, kWriters>;

/// Holds a collection against what its writers were told.
class Witness {
 public:
  explicit Witness(std::string folder) : folder_(std::move(folder)) {}

  /// The writes that a life is known to have done.
  void Replay(std::uint64_t life, const Counts& counts) {
    for (std::uint64_t writer = 0; writer < kWriters; ++writer)
      for (std::uint64_t number = 0; number < counts[writer]; ++number)
        Do(life, writer, number, &state_);
  }

  /// The state is that after the acknowledged writes of each writer, and at most `unsaid`
  /// more. Sets the counts to what is found.
  void Check(std::uint64_t life, Counts* counts, std::uint64_t unsaid) {
    const auto opened = Collection::Open(folder_, {.merges = false});
    ASSERT_TRUE(opened.ok()) << opened.status();
    const State found = ReadAll(**opened);
    for (std::uint64_t writer = 0; writer < kWriters; ++writer) {
      const std::uint64_t acknowledged = (*counts)[writer];
      const State actual = OfWriter(found, writer);
      State expected = OfWriter(state_, writer);
      for (std::uint64_t number = 0; number < acknowledged; ++number)
        Do(life, writer, number, &expected);
      std::uint64_t more = 0;
      while (more < unsaid && actual != expected)
        Do(life, writer, acknowledged + more++, &expected);
      ASSERT_TRUE(actual == expected)
          << actual.size() << " vectors are not those after " << acknowledged << " to "
          << acknowledged + unsaid << " writes: life " << life << ", writer " << writer;
      (*counts)[writer] += more;
    }
    state_ = found;
  }

 private:
  const std::string folder_;
  State state_;
};

/// "FOLDER COUNTS COUNTS...", what a virtual machine said in each of its lives: "7,5,6".
/// The last one may have done as many more writes as a serial device holds; all counts
/// before are exact. Prints the counts of the last one.
TEST(CollectionChild, Holds) {
  const char* arguments = std::getenv("HMANN_KILL_LIVES");
  if (arguments == nullptr) GTEST_SKIP() << "checks what a power cut left, in tests/vm";
  const std::vector<std::string> parts = absl::StrSplit(arguments, ' ');
  Witness witness(parts[0]);
  for (std::size_t life = 1; life < parts.size(); ++life) {
    const std::vector<std::string> words = absl::StrSplit(parts[life], ',');
    Counts counts{};
    ASSERT_EQ(words.size(), kWriters);
    for (std::size_t writer = 0; writer < kWriters; ++writer)
      ASSERT_TRUE(absl::SimpleAtoi(words[writer], &counts[writer])) << parts[life];
    if (life + 1 < parts.size()) {
      witness.Replay(life, counts);
    } else {
      ASSERT_NO_FATAL_FAILURE(witness.Check(life, &counts, 8192));
      std::cout << "holds " << absl::StrJoin(counts, ",") << std::endl;
    }
  }
}

class KillTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(Collection::Create(folder_, Options()).ok()); }
  void Check(std::uint64_t life, Counts acknowledged) { witness_.Check(life, &acknowledged, 1); }

  SampleFolder parent_;
  const std::string folder_ = parent_ / "c.live";
  Witness witness_{folder_};
};

TEST_F(KillTest, AtRandomMoments) {
  std::mt19937_64 random(3);
  const std::uint64_t lives = IsSoak() ? 1000 : 8;
  std::uint64_t writes = 0;
  for (std::uint64_t life = 1; life <= lives; ++life) {
    const Child child(folder_, life, 1'000'000, {});
    if (life % 4 != 0) child.AwaitWrite();
    std::this_thread::sleep_for(std::chrono::microseconds(20'000 + random() % 400'000));
    ::kill(child.pid, SIGKILL);
    const auto [acknowledged, ended] = child.Wait();
    EXPECT_FALSE(ended) << "it ended before it was killed";
    ASSERT_NO_FATAL_FAILURE(Check(life, acknowledged)) << "life " << life;
    for (const std::uint64_t count : acknowledged) writes += count;
  }
  EXPECT_GT(writes, 0u);
  std::cout << lives << " kills, " << writes << " acknowledged writes" << std::endl;
}

/// Whether strace is there and may trace.
bool MayTrace() {
  std::array<const char*, 5> command = {"strace", "-o", "/dev/null", "true", nullptr};
  pid_t pid = -1;
  int status = -1;
  return ::posix_spawnp(&pid, command[0], nullptr, nullptr, const_cast<char**>(command.data()),
                        environ) == 0 &&
         ::waitpid(pid, &status, 0) == pid && status == 0;
}

/// Each call of some system calls in turn kills the process, or fails in it, as do all
/// calls after it.
class InjectedTest : public KillTest, public testing::WithParamInterface<const char*> {};

TEST_P(InjectedTest, AtEachCall) {
  if (!MayTrace()) GTEST_SKIP() << "strace is missing, or may not trace here (ptrace is forbidden)";
  const std::vector<std::string> parts = absl::StrSplit(GetParam(), ' ');
  const std::string &call = parts[0], &effect = parts[1], log = parent_ / "calls";
  const bool kills = effect == "signal=KILL";
  const std::uint64_t step = IsSoak() ? 1 : 9, most = IsSoak() ? 60 : 3;
  std::uint64_t all = 0, points = 0, misses = 0;
  for (std::uint64_t at = 1; points < most && misses < (IsSoak() ? 10 : most - points);
       at += step) {
    const std::string when = absl::StrCat(":when=", at, kills ? "" : "+");
    const Child child(folder_, at, IsSoak() ? 100 : 20,
                      {"strace", "-f", "-qq", "-o", log, "-e", "trace=" + call, "-e",
                       absl::StrCat("inject=", call, ":", effect, when)});
    const auto [acknowledged, ended] = child.Wait();
    ASSERT_NO_FATAL_FAILURE(Check(at, acknowledged)) << GetParam() << " " << at;
    for (const std::uint64_t count : acknowledged) all += count;
    const bool hit = kills ? !ended : FileContent(log).find("(INJECTED)") != std::string::npos;
    ++(hit ? points : misses);
  }
  EXPECT_GT(points, 0u) << "no call was hit";
  EXPECT_GT(all, 0u) << "the child never wrote";
  std::cout << GetParam() << ": " << points << " points, " << all << " acknowledged writes"
            << std::endl;
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
