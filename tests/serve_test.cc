// `hmann serve` and `hmann query` as a user runs them: real programs, real signals. Tests
// in server/ cover the answers of a running server.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <iostream>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "hmann/client.h"
#include "nlohmann/json.hpp"
#include "tests/idle_connections.h"
#include "tests/server_program.h"

namespace hmann {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::chrono_literals;

const char kTruth[] = "datasets/sample/query.gt100";

class ServeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TestFolder("serve");
    const Outcome built = RunProgram(
        {HmannProgram(), "build", "--base", "datasets/sample/base.u8bin", "--out", Index()});
    ASSERT_EQ(built.exit_code, 0) << built.err;
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string Index() { return *folder_ / "sample.hmann"; }

  static TestFolder* folder_;
};
TestFolder* ServeTest::folder_ = nullptr;

/// The commands that change a collection change one that a server serves, too.
TEST_F(ServeTest, CommandsWriteToAServedCollection) {
  const std::string live = *folder_ / "c.live", base = "datasets/sample/base.u8bin";
  ASSERT_EQ(Hmann({"create", live, "--dim", "128", "--dtype", "u8"}).exit_code, 0);
  ServerProgram server(live, {"--drain", "0s"});
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin() + 1, "sample");
    words.insert(words.end(), {"--server", server.address(), "--json"});
    return Hmann(words);
  };
  const auto answer = [&](const std::vector<std::string>& words) {
    const Outcome ran = run(words);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return ran.exit_code == 0 ? json::parse(ran.out) : json();
  };
  const json put =
      answer({"put", base, "--attrs", "datasets/sample/attributes.csv", "--batch", "65536"});
  EXPECT_EQ(put, json::parse(R"({"put": 10000, "sequence": 3, "live": 10000})"));
  const std::string labels = *folder_ / "labels.txt", changes = *folder_ / "rows.ndjson";
  WriteFile(labels, "5\ncat\n7\n");
  WriteFile(changes, R"({"label": "cat", "strength": -5})");
  EXPECT_EQ(answer({"put", base, "--rows", "3", "--labels", labels})["live"], 10'001);
  EXPECT_EQ(answer({"update", changes})["updated"], 1);
  EXPECT_EQ(answer({"delete", "--filter", "strength < 0"})["deleted"], 1);
  EXPECT_EQ(answer({"delete", "17", "5", "7", "12345"})["deleted"], 3);
  EXPECT_EQ(answer({"compact"})["sealed_rows"], 9997);
  const Outcome all = run({"delete", "--filter", "strength > 0 or strength <= 0"});
  EXPECT_THAT(all.err, HasSubstr("filter"));
  EXPECT_EQ(all.exit_code, 1) << all.out;
  EXPECT_THAT(Hmann({"put", live, base}).err, HasSubstr("another process writes to it"));
  server.program().Signal(SIGTERM);
  EXPECT_EQ(server.program().Wait().exit_code, 0);
  EXPECT_EQ(json::parse(Hmann({"info", live, "--json"}).out)["live"], 9997);
  EXPECT_THAT(run({"delete", "5"}).err, HasSubstr("Connection refused"));
}

TEST_F(ServeTest, QueryAnswersAsSearchDoesOverTheWire) {
  ServerProgram server(Index(), {});
  EXPECT_THAT(server.address(), testing::StartsWith("127.0.0.1:"));
  for (const std::vector<std::string>& params : std::vector<std::vector<std::string>>{
           {},
           {"--mode", "multi-start", "--ef-l1", "30", "--ef-l0", "4"},
           {"--mode", "graph", "--ef-l0", "100", "--k", "20"},
           {"--mode", "upper"}}) {
    const auto run = [&](std::vector<std::string> command, const std::string& out) {
      command.insert(command.end(), {"--queries", kQueries, "--groundtruth", kTruth, "--out",
                                     *folder_ / out, "--json"});
      command.insert(command.end(), params.begin(), params.end());
      const Outcome ran = Hmann(command);
      EXPECT_EQ(ran.exit_code, 0) << ran.err;
      return json::parse(ran.out);
    };
    const json searched = run({"search", Index()}, "search.jsonl");
    const json one = run({"query", "--server", server.address(), "--index", "sample"}, "one.jsonl");
    const json batched = run({"query", "--server", server.address(), "--index", "sample",
                              "--threads", "3", "--batch", "7"},
                             "batched.jsonl");
    EXPECT_EQ(ReadFile(*folder_ / "search.jsonl"), ReadFile(*folder_ / "one.jsonl"));
    EXPECT_EQ(ReadFile(*folder_ / "search.jsonl"), ReadFile(*folder_ / "batched.jsonl"));
    const bool without_l0 = searched["mode"] == "upper";
    EXPECT_GT(searched["recall"].get<double>(), without_l0 ? 0.1 : 0.925) << searched;
    for (const auto& [key, value] : searched.items()) {
      if (key == "open_seconds" || key == "first_answer_seconds")
        continue;  // only the server knows it
      ASSERT_TRUE(one.contains(key)) << key;
      const bool timed = key == "qps" || key.ends_with("_us");
      if (!timed) {
        EXPECT_EQ(one[key], value) << key;
      }
      if (!timed && key != "threads") {
        EXPECT_EQ(batched[key], value) << key;
      }
    }
  }
}

TEST_F(ServeTest, QueryReportsFiltersAsSearchDoes) {
  const std::string index = *folder_ / "attributes.hmann",
                    filter = "strength>3500 AND direction IN ('S','N')";
  std::filesystem::copy_file(Index(), index);
  ASSERT_EQ(Hmann({"attrs", index, "--from", "datasets/sample/attributes.csv"}).exit_code, 0);
  ServerProgram server(index, {});
  const auto run = [&](std::vector<std::string> command, const std::string& out) {
    command.insert(command.end(), {"--queries", kQueries, "--filter", filter, "--threads", "3",
                                   "--out", *folder_ / out, "--json"});
    const Outcome ran = Hmann(command);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return json::parse(ran.out);
  };
  const json here = run({"search", index}, "here.jsonl"),
             there =
                 run({"query", "--server", server.address(), "--index", "sample"}, "there.jsonl");
  EXPECT_EQ(here["filter"], "strength > 3500 and direction in (\"N\", \"S\")");
  EXPECT_GT(here["matches"], 0);
  EXPECT_EQ(here["matches_share"], here["matches"].get<double>() / 10'000);
  for (const char* key : {"filter", "matches", "matches_share", "mode", "ef_l0", "epsilon"})
    EXPECT_EQ(there.value(key, json()), here.value(key, json())) << key;
  EXPECT_EQ(ReadFile(*folder_ / "there.jsonl"), ReadFile(*folder_ / "here.jsonl"));
}

TEST_F(ServeTest, QueryNamesWhatIsWrong) {
  ServerProgram server(Index(), {"--http", "127.0.0.1:0"});
  const auto query = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"query", "--queries", kQueries, "--json"});
    return Hmann(more);
  };
  const auto fails = [](const Outcome& ran, const std::string& words) {
    EXPECT_EQ(ran.exit_code, 1) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(words));
    EXPECT_THAT(ran.out, IsEmpty());
  };
  fails(query({"--server", server.address(), "--index", "glove"}), "glove");
  fails(query({"--server", server.address(), "--index", "sample", "--k", "10001"}), "options.k");
  fails(query({"--server", "127.0.0.1:1", "--index", "sample", "--deadline", "300ms"}),
        "no connection to 127.0.0.1:1: no server listens there");
  // Without a deadline, the cause comes at once: 75, since another try may succeed.
  for (const auto& [address, cause] : std::vector<std::pair<std::string, std::string>>{
           {"127.0.0.1:1", "no server listens there: does `hmann serve` run? (Connection ref"},
           {absl::StrCat("unix:", *folder_ / "none.sock"), "no server listens there"},
           {"no-such-host.invalid:50051", "the name cannot be resolved"},
           {server.http(), "what listens there is no gRPC server"}}) {
    for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
             {"query", "--index", "sample", "--queries", kQueries},
             {"info", "sample", "--live"},
             {"delete", "sample", "1"}}) {
      std::vector<std::string> words = command;
      words.insert(words.end(), {"--server", address});
      const Outcome ran = Hmann(words);
      EXPECT_EQ(ran.exit_code, 75) << ran.err;
      EXPECT_THAT(ran.err, HasSubstr(absl::StrCat("no connection to ", address, ": ", cause)));
    }
  }
  const std::string other = *folder_ / "other.u8bin";
  WriteFile(other, std::string("\x01\0\0\0\x03\0\0\0abc", 11));
  fails(Hmann({"query", "--server", server.address(), "--index", "sample", "--queries", other}),
        "expected vectors of 128 x u8 as in index 'sample', found 3 x u8");
  EXPECT_EQ(query({"--index", "sample"}).exit_code, 2);
}

TEST_F(ServeTest, SigtermLetsWhatRunsEnd) {
  const int rounds = Soaks() ? 100 : 5;
  const std::vector<std::byte> query = FirstQuery();
  int in_time = 0;
  for (int round = 0; round < rounds; ++round) {
    ServerProgram server(Index(), {"--drain", "300ms"});
    std::atomic<int> answered{0};
    std::vector<absl::Status> ends(32);
    std::vector<std::thread> clients;
    clients.reserve(ends.size());
    for (absl::Status& end : ends) {
      clients.emplace_back([&, own = &end] {
        client::Client client = Connected(server.address());
        for (*own = absl::OkStatus(); own->ok(); ++answered)
          *own = client.Search("sample", client::Vectors::Raw(query), {}).status();
      });
    }
    while (answered < 1000) std::this_thread::sleep_for(1ms);
    const auto start = std::chrono::steady_clock::now();
    server.program().Signal(SIGTERM);
    for (std::thread& client : clients) client.join();
    // Each client's last result is a refusal of a new search, or an error because the
    // server is gone. No search was cut off: that would be CANCELLED.
    for (const absl::Status& end : ends)
      EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable) << end;
    const Outcome ended = server.program().Wait();
    in_time += std::chrono::steady_clock::now() - start <= 1300ms ? 1 : 0;
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("draining"));
  }
  std::cout << in_time << " of " << rounds << " ended within the drain and a second\n";
}

TEST_F(ServeTest, SigtermCancelsNoCallOfClientsThatDoNotRetry) {
  for (int round = 0; round < (Soaks() ? 50 : 3); ++round) {
    ServerProgram server(Index(), {"--drain", "50ms"});
    std::atomic<int> answered{0};
    std::vector<absl::Status> ends(16);
    std::vector<std::thread> clients;
    clients.reserve(ends.size());
    for (absl::Status& end : ends) {
      clients.emplace_back([&, own = &end] {
        client::Client client = Connected(server.address());
        // They go on after a refusal, as programs without a retry policy do.
        for (int gone = 0; gone < 5;) {
          const absl::Status status =
              client.Search("sample", client::Vectors::Raw(FirstQuery()), {}).status();
          answered += status.ok() ? 1 : 0;
          if (!absl::IsUnavailable(status)) own->Update(status);
          gone += absl::StrContains(status.message(), "no connection to") ? 1 : 0;
        }
      });
    }
    while (answered < 500) std::this_thread::sleep_for(1ms);
    server.program().Signal(SIGTERM);
    for (std::thread& client : clients) client.join();
    for (const absl::Status& end : ends) EXPECT_EQ(end, absl::OkStatus());
    EXPECT_EQ(server.program().Wait().exit_code, 0);
  }
}

TEST_F(ServeTest, SigtermEndsAServerThatIsLoading) {
  std::vector<std::string> more = {"--drain", "50ms"};
  for (int i = 0; i < 400; ++i) {
    more.emplace_back("--index");
    more.push_back(absl::StrCat("copy", i, "=", Index()));
  }
  ServerProgram server(Index(), more);
  server.program().Signal(SIGTERM);
  const Outcome ended = server.program().Wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("draining"));
  EXPECT_THAT(ended.err, testing::Not(HasSubstr("copy399: 10000 vectors")));
}

TEST_F(ServeTest, SignalsThatDoNotStopLetItServe) {
  const std::string tokens = *folder_ / "tokens";
  WriteFile(tokens, absl::StrCat(std::string(64, '0'), " read\n"));
  ServerProgram server(Index(), {"--tokens", tokens, "--drain", "50ms"});
  for (const int signal : {SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ, SIGHUP, SIGALRM, SIGVTALRM, SIGPROF,
                           SIGIO, SIGPWR, SIGXCPU, SIGSTKFLT, SIGRTMIN, SIGRTMAX})
    server.program().Signal(signal);
  std::this_thread::sleep_for(300ms);
  // More than the pipe of signals holds: the one that stops must get through.
  for (int i = 0; i < 100'000; ++i) server.program().Signal(SIGALRM);
  client::Client client = *client::Client::Connect(server.address(), {});
  EXPECT_EQ(client.List().status().code(), absl::StatusCode::kUnauthenticated) << "it answers";
  server.program().Signal(SIGQUIT);
  const Outcome ended = server.program().Wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.signal;
  EXPECT_THAT(ended.err, HasSubstr("tokens: read again, not changed"));
  EXPECT_THAT(ended.err, HasSubstr("index sample: tuned table: read again, not changed"));
  for (const int signal : {SIGUSR1, SIGALRM, SIGVTALRM, SIGXCPU, SIGRTMIN})
    EXPECT_THAT(ended.err, HasSubstr(absl::StrCat("signal ", strsignal(signal), " means nothing")));
}

TEST_F(ServeTest, NoDutyWaitsForTheReaderOfTheLog) {
  for (const bool gone : {false, true}) {
    int log[2];
    ASSERT_EQ(pipe2(log, O_CLOEXEC), 0);
    ASSERT_GE(fcntl(log[1], F_SETPIPE_SZ, 4096), 0);
    ASSERT_EQ(fcntl(log[1], F_SETFL, O_NONBLOCK), 0);
    while (write(log[1], "full", 4) == 4) {
    }
    ASSERT_EQ(fcntl(log[1], F_SETFL, 0), 0);
    const std::string tokens = *folder_ / "tokens";
    const std::string hash = RunProgram({"/bin/sh", "-c", "printf %s mine | sha256sum"}).out;
    WriteFile(tokens, absl::StrCat(hash.substr(0, 64), " read\n"));
    WriteFile(*folder_ / "mine", "mine");
    RunOptions options;
    options.stderr_to = log[1];
    ServerProgram server(Index(), {"--tokens", tokens, "--drain", "50ms", "--log-level", "debug"},
                         HmannProgram(), options);
    if (gone) close(log[0]);
    const auto list = [&] {
      return client::Client::Connect(server.address(),
                                     {.retry = false, .token_file = *folder_ / "mine"})
          ->List()
          .status();
    };
    EXPECT_EQ(list(), absl::OkStatus());
    WriteFile(tokens, absl::StrCat(std::string(64, '0'), " read\n"));  // it is revoked
    while (list().ok()) std::this_thread::sleep_for(50ms);
    EXPECT_EQ(list().code(), absl::StatusCode::kUnauthenticated);
    server.program().Signal(SIGTERM);
    EXPECT_EQ(server.program().Wait().exit_code, 0);
    if (!gone) close(log[0]);
    close(log[1]);
  }
}

TEST_F(ServeTest, ASecondSignalStopsAtOnce) {
  ServerProgram server(Index(), {"--drain", "3600s"});
  Connected(server.address());
  server.program().Signal(SIGTERM);
  server.program().Signal(SIGINT);
  const Outcome ended = server.program().Wait();
  EXPECT_EQ(ended.exit_code, 0) << "signal " << ended.signal << ended.err;
}

TEST_F(ServeTest, AClientThatIsKilledDoesNotDisturbTheServer) {
  ServerProgram server(Index(), {"--threads", "1"});
  client::Client client = Connected(server.address());
  {
    // Slow: every query expands the whole index.
    const Program gone({HmannProgram(), "query", "--server", server.address(), "--index", "sample",
                        "--queries", kQueries, "--batch", "200", "--mode", "graph", "--ef-l0",
                        "10000", "--ef-l1", "1000"});
    EXPECT_TRUE(gone.UntilBusyFor(0.01));
  }
  EXPECT_TRUE(client.Search("sample", client::Vectors::Raw(FirstQuery()), {}).ok());
  server.program().Signal(SIGTERM);
}

TEST_F(ServeTest, AServerOnADeviceAnswersAsOneInMemory) {
  const std::vector<std::string> params = {
      "--mode",       "quantized", "--ef-l1",       "32", "--ef-l0",   "30", "--nprobe", "16",
      "--beam-width", "8",         "--error-bound", "2",  "--epsilon", "0.5"};
  const auto query = [&](const std::string& address, const std::string& out,
                         const std::string& batch) {
    std::vector<std::string> command = {"query",        "--server",  address,  "--index",
                                        "sample",       "--queries", kQueries, "--out",
                                        *folder_ / out, "--batch",   batch,    "--json"};
    command.insert(command.end(), params.begin(), params.end());
    const Outcome ran = Hmann(command);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return ran.exit_code == 0 ? json::parse(ran.out) : json::object();
  };
  ServerProgram memory(Index(), {"--slow", "dram"}),
      device(Index(), {"--slow", "check+nvme"}, FaultyHmannProgram());
  Connected(memory.address());
  Connected(device.address());
  query(memory.address(), "memory.jsonl", "1");
  const json one = query(device.address(), "device_one.jsonl", "1"),
             many = query(device.address(), "device_many.jsonl", "50");
  EXPECT_EQ(ReadFile(*folder_ / "memory.jsonl"), ReadFile(*folder_ / "device_one.jsonl"));
  EXPECT_EQ(ReadFile(*folder_ / "memory.jsonl"), ReadFile(*folder_ / "device_many.jsonl"));
  EXPECT_GT(one["io_reads"].get<double>(), 0);
  EXPECT_EQ(one["node_reads"], many["node_reads"]);
  EXPECT_EQ(one["mode"], "quantized");
  EXPECT_EQ(one["nprobe"], 16);
  EXPECT_EQ(one["epsilon"], 0.5);
  const Outcome live = Hmann({"info", "sample", "--live", "--server", device.address(), "--json"});
  EXPECT_EQ(live.exit_code, 0) << live.err;
  EXPECT_THAT(live.out, HasSubstr("O_DIRECT"));
}

TEST_F(ServeTest, AStalledDeviceNeverHangsAServer) {
  ServerProgram server(Index(), {"--slow", "stall:after=400+nvme", "--drain", "1s"},
                       FaultyHmannProgram());
  client::Client client = Connected(server.address());
  const std::vector<std::byte> query = FirstQuery();
  int answered = 0, late = 0;
  for (int i = 0; i < 12 || late < 3; ++i) {
    const absl::Status status = client
                                    .Search("sample", client::Vectors::Raw(query),
                                            {.mode = SearchMode::kGraph}, {.deadline = 300ms})
                                    .status();
    EXPECT_TRUE(status.ok() || absl::IsDeadlineExceeded(status)) << status;
    ++(status.ok() ? answered : late);
    ASSERT_LT(i, 200);
  }
  EXPECT_TRUE(client.Describe("sample", {.deadline = 5s}).ok()) << "what needs no device goes on";
  server.program().Signal(SIGTERM);
  const Outcome ended = server.program().Wait();
  EXPECT_EQ(ended.exit_code, 0) << "signal " << ended.signal << ended.err;
}

TEST_F(ServeTest, AFailingDeviceGivesErrorsAndNoWrongAnswers) {
  ServerProgram server(Index(), {"--slow", "fail:every=50+nvme"}, FaultyHmannProgram());
  client::Client client = Connected(server.address());
  const std::vector<std::byte> query = FirstQuery();
  std::vector<std::uint64_t> expected;
  int failed = 0;
  for (int i = 0; i < 100; ++i) {
    const auto answer =
        client.Search("sample", client::Vectors::Raw(query),
                      {.ef_l0 = 12, .mode = SearchMode::kQuantized, .nprobe = 0}, {});
    if (!answer.ok()) {
      ++failed;
      EXPECT_EQ(answer.status().code(), absl::StatusCode::kDataLoss) << answer.status();
      continue;
    }
    if (expected.empty()) expected = answer->ids;
    EXPECT_EQ(answer->ids, expected);
  }
  EXPECT_GT(failed, 0);
  EXPECT_LT(failed, 100);
}

TEST_F(ServeTest, TestEquipmentIsNoPartOfTheProgram) {
  const Outcome refused =
      Hmann({"search", Index(), "--queries", kQueries, "--slow", "fail:every=50+nvme"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("expected dram, numa:N, mapped"));
}

TEST_F(ServeTest, IdleConnectionsBeyondTheLimitSilenceNobody) {
  ServerProgram server(Index(), {"--drain", "100ms"});
  client::Client before = Connected(server.address());
  constexpr rlimit kFew = {256, 256};
  ASSERT_EQ(prlimit(server.program().pid(), RLIMIT_NOFILE, &kFew, nullptr), 0);
  for (int round = 0; round < 3; ++round) {
    const IdleConnections held(server.address(), 400);
    EXPECT_TRUE(held.LastIsRefused());
    EXPECT_TRUE(before.Describe("sample", {.deadline = 20s}).ok())
        << "who is connected is answered";
  }
  client::Client after = Connected(server.address());
  EXPECT_TRUE(after.Describe("sample", {.deadline = 20s}).ok());
  server.program().Signal(SIGTERM);
  const Outcome ended = server.program().Wait();
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.err, HasSubstr("connections refused: 256 descriptors may be open"));
  const std::vector<std::string> lines = absl::StrSplit(ended.err, "connections refused");
  EXPECT_LT(lines.size(), 100u) << "a line a second, of hundreds of connections";
}

TEST_F(ServeTest, NamesThatAreNotUtf8) {
  const std::string odd = *folder_ / "odd\xff.hmann", bad = *folder_ / "bad\xff.hmann";
  std::filesystem::copy_file(Index(), odd);
  WriteFile(bad, "this is no index");
  ServerProgram server(odd, {"--index", absl::StrCat("bad=", bad)});
  client::Client client = Connected(server.address());
  const auto described = client.Describe("sample", {}, true);
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(client.WaitReady("bad", {.deadline = 20s})));
  const auto listed = client.List({});
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_THAT((*listed)[1].reason, HasSubstr("bad\xef\xbf\xbd.hmann"));
  const absl::Status failed = client.Describe("bad", {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(failed)) << failed;
  EXPECT_THAT(std::string(failed.message()), HasSubstr("bad\xef\xbf\xbd.hmann"));
  EXPECT_TRUE(absl::IsNotFound(client.Describe("x\xff", {}).status()));
  const Outcome ran = Hmann({"query", "--server", server.address(), "--index", "x\xff", "--queries",
                             kQueries, "--deadline", "5s"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.err, HasSubstr("this server has none of that name"));
}

TEST_F(ServeTest, AServerThatCannotServeSaysWhy) {
  ServerProgram server(Index(), {});
  const std::string named = absl::StrCat("a=", Index());
  const auto fails = [](const Outcome& ran, int exit_code, const std::string& words) {
    EXPECT_EQ(ran.exit_code, exit_code) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(words));
  };
  fails(Hmann({"serve", "--index", named, "--listen", server.address()}), 75, "in use");
  fails(
      Hmann({"serve", "--index", absl::StrCat("a=", *folder_ / "none"), "--listen", "127.0.0.1:0"}),
      1, "no index could be loaded");
  fails(Hmann({"serve", "--index", named, "--listen", "0.0.0.0:0"}), 2, "--insecure");
  fails(Hmann({"serve", "--index", named, "--index", named, "--listen", "127.0.0.1:0"}), 2,
        "twice");
  fails(Hmann({"serve", "--index", named, "--listen", "nowhere"}), 2, "HOST:PORT");
  fails(Hmann({"serve", "--index", named, "--queue", "0"}), 2, "--queue");
  fails(Hmann({"serve", "--index", named, "--listen", "unix:x", "--socket-mode", "9"}), 2,
        "rights in octal");
  fails(Hmann({"serve", "--index", "sample="}), 2, "NAME=FILE");
  fails(Hmann({"serve"}), 2, "--index");
  WriteFile(*folder_ / "foreign.hmann", "this is no index");
  fails(Hmann({"serve", "--index", absl::StrCat("a=", *folder_ / "foreign.hmann"), "--listen",
               "127.0.0.1:0"}),
        1, "foreign.hmann");
}

TEST_F(ServeTest, LinesThatAreNotReadAreDroppedAndCounted) {
  int log[2];
  ASSERT_EQ(pipe2(log, O_CLOEXEC), 0);
  RunOptions options;
  options.stderr_to = log[1];
  ServerProgram server(Index(), {"--http", "127.0.0.1:0", "--drain", "50ms"}, HmannProgram(),
                       options);
  const auto page = [&] { return Page(server.http(), "/metrics"); };
  const std::string none = "\nhmann_log_lines_dropped_total 0\n";
  ASSERT_THAT(page(), HasSubstr(none));
  do {
    for (int i = 0; i < 1000; ++i) server.program().Signal(SIGUSR1);  // lines
  } while (absl::StrContains(page(), none));
  server.program().Signal(SIGTERM);
  EXPECT_EQ(server.program().Wait().exit_code, 0);
  close(log[0]);
  close(log[1]);
}

}  // namespace
}  // namespace hmann
