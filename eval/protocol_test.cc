// Our side of adapters/PROTOCOL.md: foreign baselines, and those that die, hang, or print
// nonsense.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "eval/builtin_systems.h"
#include "eval/system.h"
#include "eval/testing/system_test.h"

namespace hmann::eval {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kReady = R"(echo '{"ready": "r", "build_seconds": 1, "index_bytes": 1}'; )";

class Protocol : public SystemTest {
 protected:
  /// A baseline in a few lines of shell.
  SystemSpec Shell(const std::string& script) {
    SystemSpec spec;
    spec.name = "baseline";
    spec.command = {"/bin/sh", "-c", script, "sh"};
    spec.settings = Json::array({Json::object()});
    return spec;
  }

  /// The error of a baseline that fails at its start or in its first run.
  absl::Status FailureOf(const std::string& script) {
    absl::StatusOr<System> system = System::Start(Shell(script), job_);
    if (!system.ok()) return system.status();
    return system->Run(Json::object(), false).status();
  }
};

TEST_F(Protocol, LatenciesThatAreNoneAreNamed) {
  const std::string says =
      R"(read line; echo '{"seconds": 1, "cpu_seconds": 1, "latency_us": {"mean": 1, "p50": 1}}'; cat > /dev/null)";
  EXPECT_THAT(std::string(FailureOf(absl::StrCat(kReady, says)).message()),
              HasSubstr("expected a positive number 'p99'"));
}

TEST_F(Protocol, AForeignCommandGetsTheArguments) {
  const std::string program = folder_ + "/baseline.sh";
  std::ofstream(program)
      << R"(echo "{\"ready\": \"$1 $*\", \"build_seconds\": 1, \"index_bytes\": 1, \"settings\": [{\"a\": 1}]}"; cat > /dev/null)";
  absl::StatusOr<SystemSpec> spec =
      ForeignSystem(absl::StrCat("mine=sh ", program, " --own 'two words'"));
  ASSERT_TRUE(spec.ok());
  absl::StatusOr<System> system = System::Start(*spec, job_);
  ASSERT_TRUE(system.ok()) << system.status();
  EXPECT_EQ(system->name(), "mine");
  EXPECT_THAT(system->ready()["library"].get<std::string>(),
              AllOf(HasSubstr("--own two words --base datasets/sample/base.u8bin"),
                    HasSubstr("--metric l2"), HasSubstr("--k 10")));
  EXPECT_TRUE(system->Stop().ok());
  EXPECT_FALSE(ForeignSystem("no command").ok());
  EXPECT_FALSE(ForeignSystem("=x").ok());
}

TEST_F(Protocol, DyingIsNamed) {
  EXPECT_THAT(
      std::string(FailureOf("echo 'out of luck' >&2; exit 3").message()),
      AllOf(HasSubstr("system baseline: it ended with exit code 3"), HasSubstr("| out of luck")));
  EXPECT_THAT(std::string(FailureOf(absl::StrCat(kReady, "read line; kill -SEGV $$")).message()),
              HasSubstr("signal 11 (Segmentation fault)"));
  EXPECT_THAT(std::string(FailureOf(absl::StrCat(kReady, "exit 0")).message()),
              HasSubstr("it ended with exit code 0"));
  EXPECT_THAT(std::string(FailureOf("exec no-such-program-here").message()),
              HasSubstr("exit code 127"));
}

TEST_F(Protocol, AProgramThatDoesNotExistIsNamed) {
  SystemSpec spec;
  spec.name = "ghost";
  spec.command = {folder_ + "/ghost"};
  EXPECT_THAT(
      std::string(System::Start(spec, job_).status().message()),
      AllOf(HasSubstr("system ghost: it ended with exit code 127"), HasSubstr("No such file")));
}

TEST_F(Protocol, HangingIsNamedAndEnds) {
  job_.build_timeout = job_.run_timeout = milliseconds(100);
  const auto start = std::chrono::steady_clock::now();
  const absl::Status building = FailureOf("sleep 600");
  EXPECT_EQ(building.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(building.message()), HasSubstr("system baseline: it was silent for"));
  EXPECT_EQ(FailureOf(absl::StrCat(kReady, "read line; sleep 600")).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60))
      << "it was waited for, not killed";
}

TEST_F(Protocol, AKilledContestantTakesItsChildrenAlong) {
  const std::string file = folder_ + "/pid";
  job_.build_timeout = milliseconds(300);
  EXPECT_FALSE(
      System::Start(Shell(absl::StrCat("sleep 600 & echo $! > ", file, "; wait")), job_).ok());
  pid_t pid = 0;
  std::ifstream(file) >> pid;
  ASSERT_GT(pid, 1);
  // It was killed, but the process that inherits it may need a moment to reap it.
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
  EXPECT_THAT(std::string(FailureOf("printf '\\001\\377\\n'; cat > /dev/null").message()),
              HasSubstr("found '\\x01\\xff'"));
  EXPECT_THAT(std::string(FailureOf("echo '[1]'; cat > /dev/null").message()),
              HasSubstr("an object"));
  EXPECT_THAT(std::string(FailureOf("echo '{\"ready\": 1}'; cat > /dev/null").message()),
              HasSubstr("expected {\"ready\""));
  EXPECT_THAT(std::string(FailureOf("echo '{\"ready\": \"r\"}'; cat > /dev/null").message()),
              HasSubstr("'build_seconds'"));
  EXPECT_THAT(std::string(FailureOf("yes | tr -d '\\n'").message()),
              HasSubstr("a line of more than"));
}

TEST_F(Protocol, WrongAnswersAreNamed) {
  const std::string answers = folder_ + "/baseline.answers.ibin";
  const std::string says = R"(echo '{"seconds": 1, "cpu_seconds": 1}'; cat > /dev/null)";
  EXPECT_THAT(std::string(FailureOf(absl::StrCat(kReady, "read line; ", says)).message()),
              AllOf(HasSubstr("baseline.answers.ibin"), HasSubstr("No such file")));
  EXPECT_THAT(std::string(FailureOf(absl::StrCat(kReady, "read line; printf 12345678 > ", answers,
                                                 "; ", says))
                              .message()),
              HasSubstr("expected 50 x 10 ids in 2008 bytes, found 875770417 x 943142453 in 8"));
  EXPECT_THAT(std::string(FailureOf(absl::StrCat(kReady, "read line; head -c 2008 /dev/zero > ",
                                                 answers, "; ", says))
                              .message()),
              HasSubstr("found 0 x 0 in 2008"));
  EXPECT_THAT(
      std::string(
          FailureOf(absl::StrCat(
                        kReady,
                        R"(read line; echo '{"seconds": -1, "cpu_seconds": 1}'; cat > /dev/null)"))
              .message()),
      HasSubstr("expected a positive number 'seconds'"));
  EXPECT_THAT(
      std::string(
          FailureOf(
              absl::StrCat(kReady, R"(read line; echo '{"error": "no luck"}'; cat > /dev/null)"))
              .message()),
      HasSubstr("system baseline: no luck"));
}

TEST_F(Protocol, LeavingWithAnotherCodeThanZeroIsAnError) {
  absl::StatusOr<System> system =
      System::Start(Shell(absl::StrCat(kReady, "cat > /dev/null; exit 5")), job_);
  ASSERT_TRUE(system.ok()) << system.status();
  EXPECT_THAT(std::string(system->Stop().message()), HasSubstr("exit code 5"));
}

TEST_F(Protocol, CancellingEndsTheWait) {
  std::atomic<bool> cancelled{true};
  job_.cancelled = &cancelled;
  EXPECT_EQ(FailureOf("sleep 600").code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace hmann::eval
