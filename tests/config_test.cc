// `hmann serve --config FILE` as a user runs it. server/reconcile_test.cc covers what
// changes while a server serves.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "hmann/client.h"
#include "tests/server_program.h"

namespace hmann {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

class ConfigTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TestFolder("config");
    for (const int rows : {300, 400}) {
      const Outcome built =
          Hmann({"build", "--base", "datasets/sample/base.u8bin", "--rows", absl::StrCat(rows),
                 "--out", *folder_ / absl::StrCat(rows, ".hmann")});
      ASSERT_EQ(built.exit_code, 0) << built.err;
    }
    WriteFile(*folder_ / "operator", "operator");
    // The SHA-256 of "operator".
    WriteFile(*folder_ / "tokens",
              "06e55b633481f7bb072957eabcf110c972e86691c3cfedabe088024bffe42f23 admin\n");
  }
  static void TearDownTestSuite() { delete folder_; }

  /// Replaces the configuration as a careful operator does: by a rename.
  static std::string Config(const std::string& text, const std::string& name = "serve.toml") {
    WriteFile(*folder_ / "next.toml", text);
    std::filesystem::rename(*folder_ / "next.toml", *folder_ / name);
    return *folder_ / name;
  }
  static client::Client Operator(const std::string& address) {
    return *client::Client::Connect(
        address, {.own_connection = true, .retry = false, .token_file = *folder_ / "operator"});
  }
  /// How many vectors each name serves.
  static std::map<std::string, std::uint64_t> Served(client::Client& client) {
    std::map<std::string, std::uint64_t> rows;
    const auto listed = client.List({.deadline = 20s});
    EXPECT_TRUE(listed.ok()) << listed.status();
    for (const client::IndexSummary& index : *listed) {
      if (index.state == client::IndexState::kServing) rows[index.name] = index.n;
    }
    return rows;
  }
  static void Await(client::Client& client, const std::map<std::string, std::uint64_t>& rows) {
    for (const auto end = std::chrono::steady_clock::now() + 60s; Served(client) != rows;) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << testing::PrintToString(Served(client));
      std::this_thread::sleep_for(5ms);
    }
  }

  static TestFolder* folder_;
};
TestFolder* ConfigTest::folder_ = nullptr;

const char kIndex[] = "[index.a]\nfile = \"300.hmann\"\n";

/// Bad files, and words of their errors.
using BadFiles = std::vector<std::pair<std::string, std::string>>;

const BadFiles& BadOnes() {
  static const auto* const bad = new BadFiles{
      {"", "bad.toml: expected at least one [index.NAME]"},
      {"listen = ", "bad.toml:1:10: "},
      {"[index.a]\nfile = \"a\"\n[index.a]\nfile = \"b\"", "bad.toml:3:1: "},
      {"threads = 1\nthreads = 2", "bad.toml:2:11: "},
      {absl::StrCat("\n treads = 4\n", kIndex),
       "bad.toml:2:2: no key 'treads'; did you mean 'threads'?"},
      {absl::StrCat("config = \"a\"\n", kIndex), "bad.toml:1:1: no key 'config'; expected alias,"},
      {absl::StrCat("help = true\n", kIndex), "bad.toml:1:1: no key 'help'"},
      {absl::StrCat("threads = \"four\"\n", kIndex), "bad.toml:1:11: threads: "},
      {absl::StrCat("threads = 4097\n", kIndex), "bad.toml:1:11: threads: Value 4097 not in range"},
      {absl::StrCat("threads = true\n", kIndex),
       "bad.toml:1:11: threads: expected a whole number or a text in quotes"},
      {absl::StrCat("listen = [\"a\"]\n", kIndex), "bad.toml:1:10: listen: expected"},
      {absl::StrCat("queue = 1.5\n", kIndex), "bad.toml:1:9: queue: expected a whole number"},
      {absl::StrCat("queue = 0\n", kIndex), "bad.toml: --queue: expected at least 1"},
      {absl::StrCat("warm = 1\n", kIndex), "bad.toml:1:8: warm: expected true or false"},
      {absl::StrCat("max_k = 5\nmax-k = 6\n", kIndex), "max-k: is there already"},
      {absl::StrCat("max__k = 5\n", kIndex), "bad.toml:1:1: no key 'max__k'; did you mean"},
      {absl::StrCat("drain = \"5\"\n", kIndex), "bad.toml:1:9: drain: "},
      {absl::StrCat("listen = \"0.0.0.0:0\"\n", kIndex), "expected --tls-cert"},
      {"index = 3", "bad.toml:1:9: index: expected a table"},
      {"index.a = \"x.hmann\"", "bad.toml:1:11: index.a: expected a table [index.a]"},
      {"[index]", "bad.toml: expected at least one [index.NAME]"},
      {"[index.a]", "bad.toml:1:8: index.a: expected either file = \"FILE\" or versions"},
      {"[index.a]\nfile = \"a\"\nversions = \"b\"", "bad.toml:1:8: index.a: expected either"},
      {"[index.a]\nfile = 3", "bad.toml:2:8: file: expected a text in quotes"},
      {"[index.\"a b\"]\nfile = \"a\"", "bad.toml:1:8: index: expected a name of 1 to 64 letters"},
      {"[index.a]\nfile = \"a\"\nfiles = \"b\"", "bad.toml:3:1: no key 'files'; did you mean"},
      {"[index.a]\nfile = \"a\"\nlisten = \"b\"", "bad.toml:3:1: no key 'listen'; expected file,"},
      {"[index.a]\nfile = \"a\"\nsq = 5", "bad.toml:3:6: sq: "},
      {"[index.a]\nfile = \"a\"\ncache = \"big\"", "bad.toml:3:9: cache: "},
      {"[index.a]\nfile = \"a\"\ncache-size = -1", "bad.toml:3:14: cache-size: "},
      {absl::StrCat("alias = \"a\"\n", kIndex), "bad.toml:1:9: alias: expected a table"},
      {absl::StrCat(kIndex, "[alias]\nb = 1"), "bad.toml:4:5: alias.b: expected the name"},
      {absl::StrCat(kIndex, "[alias]\nb = \"c\""), "bad.toml:4:1: alias.b: no [index.c]"},
      {absl::StrCat(kIndex, "[alias]\nb = \"c\"\nc = \"b\""),
       "bad.toml:4:1: alias.b: expected an "
       "index within 16 aliases, found a "
       "circle"},
      {absl::StrCat(kIndex, "[alias]\na = \"a\""), "bad.toml:4:1: alias.a: an index has this name"},
      {absl::StrCat(kIndex, "[alias]\n\"b c\" = \"a\""), "bad.toml:4:1: alias: expected a name"},
      {absl::StrCat("[[", std::string(100000, '[')), "bad.toml:1:"},
      {absl::StrCat("[a", absl::StrJoin(std::vector<std::string>(400000, ""), ".a"), "]"),
       "bad.toml: expected at most 256 dots in a line"},
      {absl::StrCat("a", absl::StrJoin(std::vector<std::string>(400000, ""), ".a"), "=1"),
       "bad.toml: expected at most 256 dots in a line"},
      {absl::StrCat("a={a", absl::StrJoin(std::vector<std::string>(200000, ""), " . a"), "=1}"),
       "bad.toml: expected at most 256 dots in a line"},
      {std::string("listen = \"\0\"", 12), "bad.toml:1:"},
      {"listen = \"\xff\"", "bad.toml:1:"},
      {std::string((1 << 20) + 1, '\n'), "bad.toml: 1048577 bytes, at most 1048576 expected"}};
  return *bad;
}

TEST_F(ConfigTest, ABadFileIsNamedByLineColumnAndKey) {
  for (const auto& [text, words] : BadOnes()) {
    const Outcome ran =
        Hmann({"serve", "--config", Config(text, "bad.toml"), "--http", "127.0.0.1:0"});
    EXPECT_EQ(ran.exit_code, 2) << text.substr(0, 100) << "\n" << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(words)) << text.substr(0, 100);
  }
  const std::string fifo = *folder_ / "fifo.toml";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const auto& [path, words] :
       {std::pair(*folder_ / "none.toml", "none.toml: No such file or directory"),
        std::pair(fifo, "fifo.toml: not a regular file")}) {
    const Outcome ran = Hmann({"serve", "--config", path});
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_THAT(ran.err, HasSubstr(words));
  }
  EXPECT_THAT(Hmann({"serve", "--config", Config(kIndex), "--index", "a=a"}).err,
              HasSubstr("excludes"));
}

TEST_F(ConfigTest, TheCommandLineGoesBeforeTheFile) {
  const std::string config = Config(absl::StrCat(
      "listen = \"nowhere\"\nthreads = 3\nmax-batch = \"1k\"\nmax-k = 70\ntokens = \"tokens\"\n",
      "slow = \"dram\"\nconnection-age = \"40s\"\n", kIndex, "[index.b]\nfile = \"",
      *folder_ / "400.hmann", "\"\nslow = \"mapped\"\n[alias]\nc = \"d\"\nd = \"b\"\n"));
  ServerProgram server("", {"--config", config, "--max-k", "50", "--drain", "50ms"});
  client::Client client = Operator(server.address());
  Await(client, {{"a", 300}, {"b", 400}});
  const auto a = *client.Describe("a"), c = *client.Describe("c");
  EXPECT_EQ(a.threads, 3u);
  EXPECT_EQ(a.limits.max_batch, 1000u);
  EXPECT_EQ(a.limits.max_k, 50u);
  const auto tier = [](const client::IndexDescription& of) {
    for (const Placement& placement : of.placements) {
      if (placement.structure == "l0") return placement.tier;
    }
    return std::string();
  };
  EXPECT_EQ(tier(a), "dram");
  EXPECT_EQ(tier(c), "mapped");
  EXPECT_EQ(c.name, "b");
  EXPECT_TRUE(client.WaitReady("c", {.deadline = 20s}).ok());
  server.program().Signal(SIGTERM);
  EXPECT_EQ(server.program().Wait().exit_code, 0);
}

TEST_F(ConfigTest, KeysMayHaveUnderscoresAsInPython) {
  ASSERT_EQ(Hmann({"create", *folder_ / "u.live", "--dim", "8", "--dtype", "u8"}).exit_code, 0);
  ServerProgram server("", {"--config",
                            Config("max_batch = \"1k\"\nconnection_age = \"40s\"\nlog_level = "
                                   "\"warn\"\n[index.sample]\nfile = \"u.live\"\ndelta_memory = "
                                   "\"2MiB\"\ncache_size = \"1MiB\"\n",
                                   "underscores.toml"),
                            "--max-k", "50"});
  client::Client client = Connected(server.address());
  Await(client, {{"sample", 0}});
  EXPECT_EQ(client.Describe("sample")->limits.max_batch, 1000u);
}

TEST_F(ConfigTest, SighupAppliesWhatDiffersOrNothing) {
  const std::string rest = "tokens = \"tokens\"\nlisten = \"127.0.0.1:0\"\n";
  const std::string config = Config(absl::StrCat(rest, kIndex));
  ServerProgram server("", {"--config", config, "--drain", "50ms", "--http", "127.0.0.1:0"});
  client::Client client = Operator(server.address());
  Await(client, {{"a", 300}});
  server.program().Signal(SIGHUP);  // nothing differs
  std::this_thread::sleep_for(300ms);
  int refused = 0;
  const auto refuse = [&](const std::string& text) {
    Config(text);
    server.program().Signal(SIGHUP);
    const std::string line = absl::StrCat("\nhmann_reload_failures_total ", ++refused, "\n");
    while (!absl::StrContains(Page(server.http(), "/metrics"), line))
      std::this_thread::sleep_for(5ms);
    EXPECT_EQ(Served(client), (std::map<std::string, std::uint64_t>{{"a", 300}})) << text;
  };
  const std::string more = "[index.b]\nfile = \"400.hmann\"\n";
  refuse(absl::StrCat(rest, more, "[index.a]\n"));
  refuse(absl::StrCat(rest, "threads = 3\n", more));
  refuse(more);
  refuse("");
  Config(absl::StrCat(rest, "log-level = \"error\"\nslow = \"dram\"\n", kIndex, more));
  server.program().Signal(SIGHUP);
  Await(client, {{"a", 300}, {"b", 400}});
  server.program().Signal(SIGTERM);
  const Outcome ended = server.program().Wait();
  EXPECT_EQ(ended.exit_code, 0);
  for (const char* words :
       {"configuration: read again, not changed", "serve.toml:5:8: index.a: expected either",
        "serve.toml: threads: cannot change while serving: restart",
        "serve.toml: tokens: cannot change while serving",
        "serve.toml: expected at least one [index.NAME]"})
    EXPECT_THAT(ended.err, HasSubstr(words));
}

TEST_F(ConfigTest, PipesInPlaceOfFilesHoldUpNothing) {
  const std::string folder = *folder_ / "piped";
  std::filesystem::create_directory(folder);
  for (const char* name : {"/file", "/v2.hmann"})
    ASSERT_EQ(mkfifo((folder + name).c_str(), 0600), 0);
  const std::string config = Config(
      absl::StrCat("tokens = \"tokens\"\n[index.a]\nfile = \"piped/file\"\n[index.b]\nversions = "
                   "\"piped\"\n[index.c]\nfile = \"400.hmann\"\n"));
  ServerProgram server("", {"--config", config, "--drain", "50ms"});
  client::Client client = Operator(server.address());
  Await(client, {{"c", 400}});
  std::filesystem::copy_file(*folder_ / "300.hmann", folder + "/v3.hmann");
  Await(client, {{"b", 300}, {"c", 400}});
  const auto start = std::chrono::steady_clock::now();
  server.program().Signal(SIGTERM);
  EXPECT_EQ(server.program().Wait().exit_code, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
}

TEST_F(ConfigTest, AStormOfSighupEndsInTheStateOfTheLast) {
  const std::string one = absl::StrCat("tokens = \"tokens\"\n", kIndex),
                    two =
                        "tokens = \"tokens\"\n[index.a]\nfile = \"400.hmann\"\n[index.b]\nfile = "
                        "\"300.hmann\"\n[alias]\nc = \"b\"\n";
  ServerProgram server("", {"--config", Config(one), "--drain", "50ms"});
  client::Client client = Operator(server.address());
  Await(client, {{"a", 300}});
  for (int i = 0; i < 200; ++i) {
    Config(i % 2 == 0 ? one : two);
    server.program().Signal(SIGHUP);
    if (i % 20 == 0) std::this_thread::sleep_for(10ms);
  }
  Await(client, {{"a", 400}, {"b", 300}});
  EXPECT_EQ(client.Describe("c")->name, "b");
  server.program().Signal(SIGTERM);
  EXPECT_EQ(server.program().Wait().exit_code, 0);
}

/// A folder on a file system whose server never answers, as of a network that is gone.
class HungFolder {
 public:
  explicit HungFolder(std::string path) : path_(std::move(path)) {
    std::filesystem::create_directory(path_);
    device_ = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    const std::string options =
        absl::StrCat("fd=", device_, ",rootmode=40000,user_id=0,group_id=0");
    mounted = device_ >= 0 && mount("hung", path_.c_str(), "fuse", 0, options.c_str()) == 0;
  }
  ~HungFolder() {
    if (mounted) umount2(path_.c_str(), MNT_DETACH);
    close(device_);  // what waits gets an error
  }
  bool mounted = false;

 private:
  const std::string path_;
  int device_ = -1;
};

TEST_F(ConfigTest, StorageThatHangsHoldsUpNothingElse) {
  const HungFolder hung(*folder_ / "hung");
  if (!hung.mounted) GTEST_SKIP() << "no FUSE here, or no right to mount";
  WriteFile(*folder_ / "revoked", ReadFile(*folder_ / "tokens"));
  const std::string hang =
      "tokens = \"revoked\"\n[index.a]\nversions = \"hung\"\n[index.b]\nfile = "
      "\"hung/b.hmann\"\n[index.c]\nfile = \"300.hmann\"\n";
  const std::string more = "[index.d]\nfile = \"400.hmann\"\n";
  ServerProgram server("", {"--config", Config(hang), "--drain", "50ms"});
  client::Client client = Operator(server.address());
  Await(client, {{"c", 300}});
  Config(absl::StrCat(hang, more));
  server.program().Signal(SIGHUP);
  Await(client, {{"c", 300}, {"d", 400}});
  Config(absl::StrCat("tokens = \"revoked\"\n[index.b]\nfile = \"400.hmann\"\n", more));
  server.program().Signal(SIGHUP);
  Await(client, {{"b", 400}, {"d", 400}});
  WriteFile(*folder_ / "revoked", absl::StrCat(std::string(64, '0'), " read\n"));
  while (client.List().ok()) std::this_thread::sleep_for(5ms);
  server.program().Signal(SIGTERM);
  EXPECT_EQ(server.program().Wait().exit_code, 0);
}

/// Pairs of equal vectors are written together. A search that finds one of a pair finds
/// both.
TEST_F(ConfigTest, AFollowerAnswersOfOneMomentAfterItsWriterWasKilled) {
  constexpr std::uint64_t kPairs = 200, kKill = 120, kOther = 1000;
  const std::string live = *folder_ / "f.live";
  ASSERT_EQ(Hmann({"create", live, "--dim", "128", "--dtype", "u8"}).exit_code, 0);
  ServerProgram writer(live, {});
  ServerProgram follower(
      "",
      {"--config", Config("[index.sample]\nfile = \"f.live\"\nfollow = true\n", "follow.toml")});
  client::Client writes = Connected(writer.address()), reads = Connected(follower.address());
  const auto row = [](std::uint64_t pair) {
    return std::vector<std::byte>(128, static_cast<std::byte>(pair));
  };
  std::uint64_t sequence = 0;
  const auto found = [&](std::uint64_t pair) {
    const auto answer = reads.Search("sample", client::Vectors::Raw(row(pair)),
                                     {.k = 3, .max_distance = 0.0f}, {.deadline = 20s});
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (!answer.ok()) return std::size_t{0};
    EXPECT_GE(answer->sequence, std::exchange(sequence, answer->sequence));
    EXPECT_TRUE(answer->ids.empty() || answer->ids.size() == 2) << pair;
    return answer->ids.size();
  };
  std::uint64_t acknowledged = 0;
  for (std::uint64_t pair = 0; pair < kPairs; ++pair) {
    std::vector<std::byte> rows = row(pair);
    rows.insert(rows.end(), rows.begin(), rows.begin() + 128);
    if (pair == kKill) writer.program().Signal(SIGKILL);
    const auto put = writes.Put("sample", {.labels = {{pair, pair + kOther}}},
                                client::Vectors::Raw(rows), {}, {.deadline = 5s});
    if (!put.ok()) break;
    acknowledged = put->sequence;
    found(pair);
  }
  EXPECT_GE(acknowledged, kKill);
  for (const auto end = std::chrono::steady_clock::now() + 60s; sequence < acknowledged;) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    found(0);
  }
  for (std::uint64_t pair = 0; pair < acknowledged; ++pair) EXPECT_EQ(found(pair), 2u) << pair;
}

/// Kills a server at random moments while its configuration and an operator change what
/// it serves. The next start serves what the configuration says. HMANN_SOAK: 200 times.
TEST_F(ConfigTest, AfterAKillTheNextStartServesTheConfiguration) {
  std::mt19937 random(1);
  const auto pick = [&](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  std::filesystem::create_directory(*folder_ / "killed");
  int version = 0;
  std::map<std::string, std::uint64_t> expected;
  const auto write = [&] {
    const int rows = pick(2) == 0 ? 300 : 400, newest = pick(2) == 0 ? 300 : 400;
    std::filesystem::copy_file(*folder_ / absl::StrCat(newest, ".hmann"), *folder_ / "copy");
    std::filesystem::rename(*folder_ / "copy",
                            *folder_ / absl::StrCat("killed/v", ++version, ".hmann"));
    std::string text = absl::StrCat("tokens = \"tokens\"\n[index.a]\nfile = \"", rows,
                                    ".hmann\"\n[index.v]\nversions = \"killed\"\n");
    expected = {{"a", rows}, {"v", newest}};
    if (pick(2) == 0) {
      absl::StrAppend(&text, "[index.b]\nfile = \"300.hmann\"\n[alias]\nc = \"b\"\n");
      expected["b"] = 300;
    }
    Config(text);
  };
  write();
  const int kills = Soaks() ? 200 : 10;
  for (int kill = 0; kill < kills; ++kill) {
    ServerProgram server("", {"--config", *folder_ / "serve.toml"});
    client::Client client = Operator(server.address());
    Await(client, expected);
    std::thread changes([&, address = server.address()] {
      client::Client caller = Operator(address);
      for (;;) {  // until the server is gone
        const absl::Status status = caller.Swap("a", *folder_ / "400.hmann").status();
        caller.Load("extra", *folder_ / "300.hmann").status().IgnoreError();
        caller.Unload("extra").IgnoreError();
        if (absl::IsUnavailable(status)) return;
      }
    });
    for (int i = pick(4); i >= 0; --i) {
      write();
      server.program().Signal(SIGHUP);
      std::this_thread::sleep_for(std::chrono::milliseconds(pick(30)));
    }
    server.program().Signal(SIGKILL);
    EXPECT_EQ(server.program().Wait().signal, SIGKILL);
    changes.join();
  }
  ServerProgram server("", {"--config", *folder_ / "serve.toml", "--drain", "50ms"});
  client::Client client = Operator(server.address());
  Await(client, expected);
}

}  // namespace
}  // namespace hmann
