// A server follows its configuration while it serves: Server::Reload of a real server,
// whose configuration the test changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "datasets/testing/temp_folder.h"
#include "hmann/tier.h"
#include "httplib.h"
#include "index/base/cpu.h"
#include "index/construct/pipeline.h"
#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

/// The SHA-256 of "operator".
constexpr char kOperator[] =
    "06e55b633481f7bb072957eabcf110c972e86691c3cfedabe088024bffe42f23 admin\n";

/// A tier "stuck" on which nothing is placed until the test says so.
class StuckTier : public Tier {
 public:
  StuckTier() : Tier({.name = "stuck"}) {}
  absl::StatusOr<Region> Place(const PlacementSource&, Progress&) const override {
    std::unique_lock lock(mutex);
    changed.wait(lock, [] { return released; });
    return absl::UnavailableError("tier stuck: no answer");
  }
  static absl::StatusOr<std::unique_ptr<Tier>> Make(std::string_view spec) {
    if (spec != "stuck") return nullptr;
    return std::make_unique<StuckTier>();
  }

  static inline std::mutex mutex;
  static inline std::condition_variable changed;
  static inline bool released = false;
};

class ReconcileTest : public testing::Test {
 protected:
  ReconcileTest() { RegisterTiers(StuckTier::Make); }
  ~ReconcileTest() override {
    {
      const std::lock_guard lock(StuckTier::mutex);
      StuckTier::released = true;
      StuckTier::changed.notify_all();
    }
    server_.reset();
    RegisterTiers(nullptr);
    StuckTier::released = false;
  }

  /// Puts an index of this number of rows under a name.
  std::string Built(const std::string& name, std::uint64_t rows) const {
    std::string& kept = built_[rows];
    if (kept.empty()) {
      BuildOptions options;
      options.base = "datasets/sample/base.u8bin";
      options.out = kept = folder_ / absl::StrCat(rows, ".built");
      options.rows = rows;
      Progress silent(Progress::Show::kNever);
      EXPECT_TRUE(BuildIndex(options, silent).ok());
    }
    std::filesystem::copy_file(kept, folder_ / "next");
    std::filesystem::create_directories(std::filesystem::path(folder_ / name).parent_path());
    std::filesystem::rename(folder_ / "next", folder_ / name);
    return folder_ / name;
  }

  void Start(std::vector<IndexSpec> indexes, Aliases aliases = {}) {
    wanted_ = LoopbackOptions(std::move(indexes));
    wanted_.aliases = std::move(aliases);
    wanted_.tokens = folder_.Write("tokens", kOperator);
    wanted_.http = "127.0.0.1:0";
    auto started = Server::Start(wanted_, [this]() -> absl::StatusOr<ServerOptions> {
      const std::lock_guard lock(mutex_);
      if (!error_.ok()) return error_;
      return wanted_;
    });
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    client_.emplace(*client::Client::Connect(
        server_->address(), {.own_connection = true,
                             .retry = false,
                             .token_file = folder_.Write("operator", "operator")}));
  }
  void Reload(std::vector<IndexSpec> indexes, Aliases aliases = {}, absl::Status error = {}) {
    {
      const std::lock_guard lock(mutex_);
      wanted_.indexes = std::move(indexes);
      wanted_.aliases = std::move(aliases);
      error_ = std::move(error);
    }
    server_->Reload();
  }

  /// The number of rows that a name serves; 0: it serves nothing.
  std::uint64_t Rows(const std::string& name) {
    const auto described = client_->Describe(name, {});
    return described.ok() ? described->n : 0;
  }
  /// Waits until a name serves an index of this number of rows; 0: none.
  void Await(const std::string& name, std::uint64_t rows) {
    for (const auto end = std::chrono::steady_clock::now() + 300s; Rows(name) != rows;) {
      ASSERT_LT(std::chrono::steady_clock::now(), end)
          << name << " serves " << Rows(name) << ", not " << rows;
      std::this_thread::sleep_for(5ms);
    }
  }
  void AwaitRefusals(const std::string& name, std::uint64_t count) {
    for (;; std::this_thread::sleep_for(5ms)) {
      const auto status = client_->Status(name);
      if (status.ok() && (*status)[0].refused_loads >= count) return;
    }
  }
  std::string Page() {
    httplib::Client http(absl::StrCat("http://", server_->http_address()));
    return http.Get("/metrics")->body;
  }
  void AwaitOnPage(const std::string& line) {
    while (!absl::StrContains(Page(), line)) std::this_thread::sleep_for(5ms);
  }
  IndexSpec Versions(const std::string& name, const std::string& folder) const {
    return {.name = name, .path = folder_ / folder, .versions = true};
  }

  const TempFolder folder_;
  mutable std::map<std::uint64_t, std::string> built_;
  std::mutex mutex_;
  ServerOptions wanted_;  // guarded, as error_, by mutex_
  absl::Status error_;
  std::unique_ptr<Server> server_;
  std::optional<client::Client> client_;
};

TEST_F(ReconcileTest, NamesComeGoAndChange) {
  const std::string a = Built("a", 200), b = Built("b", 300), c = Built("c", 400);
  Start({{"stays", a}, {"goes", b}, {"changes", a}});
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  const std::uint64_t before = client_->Describe("stays", {})->generation;
  Reload({{"stays", a}, {"comes", c}, {"changes", c}});
  Await("comes", 400);
  Await("changes", 400);
  Await("goes", 0);
  EXPECT_EQ(client_->Describe("stays", {})->generation, before) << "it was not loaded again";
  EXPECT_EQ(client_->List()->size(), 3u);
  EXPECT_THAT(Page(), Not(HasSubstr("goes")));
  // A file that was renamed over, and one that could not be served, are tried again.
  Reload({{"stays", a}, {"late", folder_ / "late"}});
  AwaitRefusals("late", 1);
  Built("a", 300);
  Built("late", 200);
  server_->Reload();
  Await("stays", 300);
  Await("late", 200);
}

TEST_F(ReconcileTest, APlacementIsThatOfTheConfiguration) {
  const std::string a = Built("a", 200);
  Start({{"name", a}});
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  const auto tier = [&] {
    const auto described = *client_->Describe("name", {});
    for (const Placement& placement : described.placements)
      if (placement.structure == "l0") return placement.tier;
    return std::string();
  };
  EXPECT_EQ(tier(), "mapped");
  OpenOptions dram;
  dram.slow = "dram";
  Reload({{"name", a, dram}});
  while (tier() != "dram") std::this_thread::sleep_for(5ms);
  ASSERT_TRUE(client_->Swap("name", Built("b", 300)).ok());
  EXPECT_EQ(tier(), "dram") << "a swap by an operator keeps it";
}

TEST_F(ReconcileTest, WhatAnOperatorDidStaysUntilTheConfigurationChanges) {
  const std::string a = Built("a", 200), b = Built("b", 300);
  Start({{"swapped", a}, {"unloaded", a}});
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  ASSERT_TRUE(client_->Swap("swapped", b).ok());
  ASSERT_TRUE(client_->Unload("unloaded").ok());
  ASSERT_TRUE(client_->Load("loaded", b).ok());
  Reload({{"swapped", a}, {"unloaded", a}});
  Await("unloaded", 200);
  EXPECT_EQ(Rows("swapped"), 300u);
  EXPECT_EQ(Rows("loaded"), 300u) << "the configuration does not name it";
  Reload({{"swapped", a}, {"unloaded", a}, {"loaded", a}});
  Await("loaded", 200);
  Reload({{"swapped", a}, {"unloaded", a}});
  Await("loaded", 0);
}

TEST_F(ReconcileTest, AnAliasMovesOnceItsNewIndexIsServed) {
  const std::string a = Built("a", 200), b = Built("b", 300);
  Start({{"old", a}}, {{"current", "old"}});
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  EXPECT_EQ(Rows("current"), 200u);
  auto stream = client_->OpenStream("current", {.k = 1}, {.deadline = 60s});
  const auto next = [&] {
    EXPECT_TRUE(stream.Send(1, client::Vectors::Raw(SampleQueries(0, 1))).ok());
    return (*stream.Receive())->answer.status();
  };
  EXPECT_EQ(next(), absl::OkStatus());
  // The new one cannot be served yet, so the old one stays.
  Reload({{"new", folder_ / "late"}}, {{"current", "new"}});
  AwaitRefusals("new", 1);
  EXPECT_EQ(Rows("current"), 200u);
  EXPECT_EQ(next(), absl::OkStatus());
  std::filesystem::rename(b, folder_ / "late");
  server_->Reload();
  Await("current", 300);
  Await("old", 0);
  EXPECT_EQ(next(), absl::OkStatus()) << "a stream follows";
  const auto described = client_->Describe("current", {});
  EXPECT_EQ(described->name, "new") << "an answer names the index";
  EXPECT_EQ(client_->List()->size(), 1u);
  EXPECT_EQ(client_->Swap("current", a).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(client_->Unload("current").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(client_->Load("current", a).status().code(), absl::StatusCode::kAlreadyExists);
  // An index takes the name of an alias, and gives it back.
  Reload({{"new", folder_ / "late"}, {"current", a}});
  Await("current", 200);
  Reload({{"new", folder_ / "late"}}, {{"current", "new"}});
  Await("current", 300);
  Reload({{"new", folder_ / "late"}});
  Await("current", 0);
}

TEST_F(ReconcileTest, AnIndexOfMoreComponentsTakesSmallerBatches) {
  constexpr std::uint32_t kDim = 2000;
  std::vector<std::byte> rows(std::size_t{4096} * kDim);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::byte>(i * i / 7);
  BuildOptions options;
  options.vectors = {rows.data(), DType::kU8, kDim, 200, kDim};
  options.out = folder_ / "wide";
  Progress silent(Progress::Show::kNever);
  ASSERT_TRUE(BuildIndex(options, silent).ok());
  const std::string a = Built("a", 200);
  Start({{"name", a}});
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  Reload({{"name", a}, {"wide", options.out}});
  Await("wide", 200);
  const std::span<const std::byte> all(rows);
  for (const std::size_t count : {1, 1000}) {
    EXPECT_TRUE(client_
                    ->SearchBatch("wide",
                                  client::Vectors::Raw(all.first(count * kDim),
                                                       (all.first(count * kDim)).size() / kDim),
                                  {.k = 1}, {.deadline = 60s})
                    .ok());
  }
  const absl::Status large = client_
                                 ->SearchBatch("wide", client::Vectors::Raw(all, all.size() / kDim),
                                               {.k = 1}, {.deadline = 60s})
                                 .status();
  EXPECT_EQ(large.code(), absl::StatusCode::kResourceExhausted) << large;
}

TEST_F(ReconcileTest, ABadConfigurationChangesNothing) {
  const std::string a = Built("a", 200);
  Start({{"name", a}});
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  const std::uint64_t before = client_->Describe("name", {})->generation;
  AwaitOnPage("hmann_reload_failures_total 0");
  Reload({{"other", a}}, {}, absl::InvalidArgumentError("the test says so"));
  AwaitOnPage("hmann_reload_failures_total 1");
  EXPECT_EQ(client_->Describe("name", {})->generation, before);
  EXPECT_EQ(Rows("other"), 0u);
  ASSERT_TRUE(client_->Load("other", a).ok());
  Reload({{"name", a}, {"third", a}}, {{"other", "name"}});
  AwaitOnPage("hmann_reload_failures_total 2");
  EXPECT_EQ(Rows("third"), 0u) << "an alias has the name of an operator's index";
}

TEST_F(ReconcileTest, AFolderServesItsNewestVersion) {
  Built("versions/v9.hmann", 200);
  Start({Versions("name", "versions")});
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  EXPECT_EQ(Rows("name"), 200u);
  const std::string ten = Built("versions/v10.hmann", 300);
  std::filesystem::last_write_time(ten, std::filesystem::file_time_type::clock::now() - 9999h);
  Await("name", 300);
  // Half a version is refused once, and served when it is whole.
  const std::string eleven = Built("versions/v11.part", 400), whole = ReadAll(eleven);
  std::filesystem::remove(eleven);
  folder_.Write("versions/v11.hmann", whole.substr(0, whole.size() / 2));
  AwaitRefusals("name", 1);
  const auto refused = (*client_->Status("name"))[0];
  EXPECT_THAT(refused.refusal, HasSubstr("v11.hmann"));
  EXPECT_EQ(refused.path, ten);
  ASSERT_EQ(mkfifo((folder_ / "versions/v12.hmann").c_str(), 0600), 0);
  AwaitRefusals("name", 2);
  std::this_thread::sleep_for(2500ms);
  EXPECT_EQ((*client_->Status("name"))[0].refused_loads, 2u) << "each was tried once";
  EXPECT_EQ(Rows("name"), 300u);
  folder_.Write("versions/v11.hmann", whole);
  Await("name", 400);
  // An operator goes back, and that stays until there is another newest one.
  ASSERT_TRUE(client_->Swap("name", ten).ok());
  server_->Reload();
  std::this_thread::sleep_for(2500ms);
  EXPECT_EQ(Rows("name"), 300u);
  Built("versions/v13.hmann", 200);
  Await("name", 200);
  std::filesystem::remove(folder_ / "versions/v13.hmann");
  Await("name", 400);
  std::filesystem::remove_all(folder_ / "versions");
  std::this_thread::sleep_for(1500ms);
  EXPECT_EQ(Rows("name"), 400u) << "it serves on";
}

TEST_F(ReconcileTest, TheNewestVersionThatOpensIsServedAtTheStart) {
  Built("versions/v1.hmann", 200);
  folder_.Write("versions/v2.hmann", "no index");
  Start({Versions("name", "versions"), Versions("empty", "nothing")});
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  EXPECT_EQ(Rows("name"), 200u);
  const absl::Status empty = client_->Describe("empty", {}).status();
  EXPECT_EQ(empty.code(), absl::StatusCode::kFailedPrecondition) << empty;
  Built("nothing/v1.hmann", 300);
  Await("empty", 300);
}

TEST_F(ReconcileTest, ALoadThatHangsHoldsUpNothing) {
  OpenOptions stuck;
  stuck.slow = "stuck";
  const std::string a = Built("a", 200), b = Built("b", 300);
  Start({{"hangs", a, stuck}, {"name", a}});
  Await("name", 200);
  EXPECT_EQ(server_->Loaded(), std::nullopt);
  Reload({{"hangs", a, stuck}, {"name", b}, {"more", b}});
  Await("name", 300);
  Await("more", 300);
  Reload({{"hangs", a}, {"name", a}});
  Await("hangs", 200);
  Await("more", 0);
  // A swap that hangs keeps its index, and what is wanted last follows it.
  Reload({{"hangs", b, stuck}, {"name", b}});
  Await("name", 300);
  EXPECT_EQ(Rows("hangs"), 200u);
  Reload({{"hangs", b}, {"name", a}});
  Await("name", 200);
  EXPECT_EQ(Rows("hangs"), 200u);
  {
    const std::lock_guard lock(StuckTier::mutex);
    StuckTier::released = true;
    StuckTier::changed.notify_all();
  }
  Await("hangs", 300);
}

std::size_t EntriesIn(const char* folder) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(folder, error);
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

TEST_F(ReconcileTest, ManyNamesAndReloadsLeaveNothing) {
  const std::string a = Built("a", 200), b = Built("b", 300);
  std::vector<IndexSpec> few = {{"name", a}}, many = few;
  const int names = std::getenv("HMANN_SOAK") != nullptr ? 500 : 50;
  for (int i = 0; i < names; ++i) many.push_back({absl::StrCat("extra", i), a});
  Start(few);
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  const auto cycle = [&](std::size_t count) {
    Reload({many.begin(), many.begin() + static_cast<std::ptrdiff_t>(count)},
           {{"last", many[count - 1].name}});
    Await("last", 200);
    Reload(few);
    Await("last", 0);
    while (client_->List()->size() > 1) std::this_thread::sleep_for(5ms);
  };
  cycle(20);
  EXPECT_EQ(Rows("name"), 200u);       // its counters appear with its first call
  constexpr std::size_t kOfGrpc = 10;  // gRPC starts and ends threads as it likes
  const auto lines = [&] {
    const std::string text = Page();
    return std::count(text.begin(), text.end(), '\n');
  };
  std::this_thread::sleep_for(500ms);
  const std::size_t threads = EntriesIn("/proc/self/task"), files = EntriesIn("/proc/self/fd");
  const auto before = lines();
  const std::uint64_t memory = AnonymousBytes();
  cycle(many.size());
  for (int i = 0; i < 200; ++i) {
    Reload(i % 2 == 0 ? std::vector<IndexSpec>{{"name", b}, {"extra", a}} : few);
    if (i % 10 == 0) std::this_thread::sleep_for(3ms);
  }
  while (Rows("name") != 200 || client_->List()->size() > 1) std::this_thread::sleep_for(5ms);
  for (int i = 0; i < 1000 && (EntriesIn("/proc/self/task") > threads + kOfGrpc ||
                               EntriesIn("/proc/self/fd") > files);
       ++i)
    std::this_thread::sleep_for(10ms);
  EXPECT_LE(EntriesIn("/proc/self/task"), threads + kOfGrpc);
  EXPECT_LE(EntriesIn("/proc/self/fd"), files);
  EXPECT_LE(AnonymousBytes(), memory + (64 << 20));
  EXPECT_EQ(lines(), before);
  EXPECT_THAT(Page(), Not(HasSubstr("extra")));
}

}  // namespace
}  // namespace hmann::server
