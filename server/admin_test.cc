// What a server serves changes while it serves: hmann.v1.Admin of a real server, called
// over loopback while others search.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "datasets/testing/temp_folder.h"
#include "hmann/tier.h"
#include "httplib.h"
#include "index/construct/pipeline.h"
#include "server/testing/fixture.h"

namespace hmann::server {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

constexpr std::size_t kAsked = 8;  // queries

/// The SHA-256 of "operator" and of "reader".
constexpr char kTokens[] =
    "06e55b633481f7bb072957eabcf110c972e86691c3cfedabe088024bffe42f23 admin\n"
    "3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30 read\n";

std::string BuiltFrom(const TempFolder& folder, const std::string& name, std::uint64_t rows,
                      Metric metric = Metric::kL2) {
  BuildOptions options;
  options.base = "datasets/sample/base.u8bin";
  options.out = folder / name;
  options.rows = rows;
  options.metric = metric;
  Progress silent(Progress::Show::kNever);
  EXPECT_TRUE(BuildIndex(options, silent).ok());
  return options.out;
}

using Ids = std::vector<std::uint64_t>;

/// The answers to the first queries, of the file itself, searched in this process.
std::vector<Ids> LocalAnswers(const std::string& path) {
  const auto index = *Index::Open(path);
  Searcher searcher(index);
  std::vector<Ids> all(kAsked);
  for (std::size_t i = 0; i < kAsked; ++i) {
    Answer answer;
    EXPECT_TRUE(searcher.Search(SampleQueries(i, 1).data(), SearchParams{.k = 10}, &answer).ok());
    for (const Neighbor& neighbor : answer.nearest) all[i].push_back(neighbor.label);
  }
  return all;
}

std::size_t EntriesOf(const char* folder) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(folder, error);
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

class AdminTest : public testing::Test {
 protected:
  explicit AdminTest(std::vector<IndexSpec> more = {}) {
    more.insert(more.begin(), {"name", small_});
    ServerOptions options = LoopbackOptions(std::move(more));
    options.tokens = folder_.Write("tokens", kTokens);
    options.http = "127.0.0.1:0";
    server_ = *Server::Start(options);
    operator_.emplace(Connected("operator"));
    reader_.emplace(Connected("reader"));
  }

  client::Client Connected(const std::string& token) {
    return *client::Client::Connect(
        server_->address(),
        {.own_connection = true, .retry = false, .token_file = folder_.Write(token, token)});
  }
  std::string Metrics() {
    httplib::Client http(absl::StrCat("http://", server_->http_address()));
    return http.Get("/metrics")->body;
  }
  absl::StatusOr<client::Answer> Ask(const std::string& name = "name", std::size_t i = 0) {
    return reader_->Search(name, client::Vectors::Raw(SampleQueries(i, 1)), {.k = 10});
  }
  client::IndexStatus StatusOf(const std::string& name) { return (*operator_->Status(name))[0]; }

  const TempFolder folder_;
  const std::string small_ = BuiltFrom(folder_, "small.hmann", 500),
                    large_ = BuiltFrom(folder_, "large.hmann", 1500);
  std::unique_ptr<Server> server_;
  std::optional<client::Client> operator_, reader_;
};

/// Asks one query after another and keeps the answers by generation.
class Asker {
 public:
  enum class How { kSingle, kBatch, kStream };
  Asker(client::Client client, How how)
      : client_(std::move(client)), thread_([this, how] { Run(how); }) {}

  void Stop() {
    stop_ = true;
    thread_.join();
  }

  std::map<std::uint64_t, std::map<std::size_t, std::vector<Ids>>> answers;
  std::atomic<int> failed{0}, answered{0};

 private:
  static constexpr std::size_t kInFlight = 4;

  void Note(std::uint64_t generation, std::size_t query, Ids ids) {
    answers[generation][query].push_back(std::move(ids));
    ++answered;
  }
  void Run(How how) {
    auto stream = client_.OpenStream("name", {.k = 10}, {.deadline = 1h});
    for (std::size_t i = 0; !stop_; i = (i + 1) % (kAsked - kInFlight)) {
      const bool ok = how == How::kSingle  ? Single(i)
                      : how == How::kBatch ? Batch(i)
                                           : Stream(stream, i);
      failed += ok ? 0 : 1;
    }
  }
  bool Single(std::size_t i) {
    const auto got = client_.Search("name", client::Vectors::Raw(SampleQueries(i, 1)), {.k = 10});
    if (got.ok()) Note(got->generation, i, got->ids);
    return got.ok();
  }
  bool Batch(std::size_t i) {
    const auto got = client_.SearchBatch(
        "name",
        client::Vectors::Raw(SampleQueries(i, kInFlight), SampleQueries(i, kInFlight).size() / 128),
        {.k = 10});
    for (std::size_t q = 0; got.ok() && q < kInFlight; ++q) {
      const auto begin = got->ids.begin() + static_cast<std::ptrdiff_t>(10 * q);
      Note(got->generation, i + q, Ids(begin, begin + 10));
    }
    return got.ok();
  }
  bool Stream(client::SearchStream& stream, std::size_t i) {
    for (std::size_t q = 0; q < kInFlight; ++q) {
      if (!stream.Send(i + q, client::Vectors::Raw(SampleQueries(i + q, 1))).ok()) return false;
    }
    for (std::size_t q = 0; q < kInFlight; ++q) {
      const auto got = stream.Receive();
      if (!got.ok() || !got->has_value() || !(*got)->answer.ok()) return false;
      Note((*got)->answer->generation, (*got)->id, (*got)->answer->ids);
    }
    return true;
  }

  client::Client client_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST_F(AdminTest, SwapsUnderLoadFailNoCallAndMixNoAnswer) {
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  const std::array<std::vector<Ids>, 2> local = {LocalAnswers(small_), LocalAnswers(large_)};
  ASSERT_NE(local[0], local[1]);
  std::map<std::uint64_t, std::size_t> file_of = {{StatusOf("name").generation, 0}};
  std::vector<std::unique_ptr<Asker>> askers;
  for (const auto how : {Asker::How::kSingle, Asker::How::kBatch, Asker::How::kStream})
    askers.push_back(std::make_unique<Asker>(Connected("reader"), how));
  constexpr std::size_t kSwaps = 50;
  for (std::size_t i = 1; i <= kSwaps; ++i) {
    const auto swapped = operator_->Swap("name", i % 2 == 0 ? small_ : large_);
    ASSERT_TRUE(swapped.ok()) << swapped.status();
    EXPECT_GT(swapped->generation, file_of.rbegin()->first);
    EXPECT_EQ(swapped->content_hash, ReadInfo(i % 2 == 0 ? small_ : large_)->content_hash);
    file_of[swapped->generation] = i % 2;
    for (const auto& asker : askers) {  // each meets each generation
      for (const int before = asker->answered; asker->answered == before && asker->failed == 0;)
        std::this_thread::yield();
    }
  }
  for (const auto& asker : askers) asker->Stop();
  for (const auto& asker : askers) {
    EXPECT_EQ(asker->failed, 0);
    EXPECT_GE(asker->answers.size(), kSwaps - 1);
    for (const auto& [generation, by_query] : asker->answers) {
      ASSERT_TRUE(file_of.contains(generation)) << generation;
      for (const auto& [query, answers] : by_query) {
        for (const Ids& ids : answers) ASSERT_EQ(ids, local[file_of[generation]][query]);
      }
    }
  }
  EXPECT_EQ(StatusOf("name").swaps, kSwaps);
}

TEST_F(AdminTest, ARefusedSwapIsNamedAndTheFileBeforeServesOn) {
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  const auto before = *Ask();
  std::string damaged = ReadAll(large_);
  damaged.resize(damaged.size() / 2);
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  using absl::StatusCode;
  for (const auto& [path, code] :
       {std::pair(folder_ / "missing", StatusCode::kNotFound),
        {folder_.Write("damaged", damaged), StatusCode::kDataLoss},
        {BuiltFrom(folder_, "cosine", 500, Metric::kCosine), StatusCode::kFailedPrecondition},
        {folder_.Write("text", "no index"), StatusCode::kInvalidArgument},
        {fifo, StatusCode::kInvalidArgument}}) {
    const absl::Status refused = operator_->Swap("name", path).status();
    EXPECT_EQ(refused.code(), code) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(path));
    EXPECT_THAT(StatusOf("name").refusal, HasSubstr(path));
    const auto after = Ask();
    ASSERT_TRUE(after.ok()) << after.status();
    EXPECT_EQ(after->generation, before.generation);
    EXPECT_EQ(after->ids, before.ids);
  }
  EXPECT_EQ(StatusOf("name").refused_loads, 5u);
  EXPECT_EQ(StatusOf("name").path, small_);
  EXPECT_EQ(operator_->Swap("none", large_).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(operator_->Load("name", large_).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(operator_->Load("a name", large_).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(operator_->Load("new", folder_ / "missing").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Ask("new").status().code(), StatusCode::kNotFound) << "it left no name";
  EXPECT_EQ(operator_->Load("new", large_, {.slow = "drum"}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(operator_->Unload("none").code(), StatusCode::kNotFound);
  EXPECT_EQ((*operator_->Status()).size(), 1u);
}

TEST_F(AdminTest, AFileThatWasRenamedOverIsReadByASwapWithoutAPath) {
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  const auto same = operator_->Swap("name", small_);
  ASSERT_TRUE(same.ok()) << same.status();
  std::filesystem::rename(folder_.Write("next", ReadAll(large_)), small_);
  const auto swapped = operator_->Swap("name");
  ASSERT_TRUE(swapped.ok()) << swapped.status();
  EXPECT_GT(swapped->generation, same->generation);
  EXPECT_EQ(Ask()->ids, LocalAnswers(large_)[0]);
  EXPECT_EQ(StatusOf("name").n, 1500u);
}

TEST_F(AdminTest, AProbeBelowItsFloorRefusesTheFile) {
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  const auto before = *Ask();
  const client::Probe probe{.queries = "datasets/sample/query.u8bin",
                            .groundtruth = "datasets/sample/query.gt100",
                            .recall = 0.9};
  // The truth is of all rows, of which this file has 15 %.
  const absl::Status few = operator_->Swap("name", large_, {}, probe).status();
  EXPECT_EQ(few.code(), absl::StatusCode::kFailedPrecondition) << few;
  EXPECT_THAT(std::string(few.message()), HasSubstr("recall of 0."));
  client::Probe slow = probe;
  slow.p99 = 1ns;
  const absl::Status late = operator_->Swap("name", SampleIndex(), {}, slow).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("99 of 100"));
  client::Probe none = probe;
  none.queries = "none.u8bin";
  EXPECT_EQ(operator_->Swap("name", large_, {}, none).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Ask()->generation, before.generation);
  const auto good = operator_->Swap("name", SampleIndex(), {}, probe);
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(Ask()->generation, good->generation);
}

TEST_F(AdminTest, NamesComeAndGoAndLeaveNothing) {
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  const auto cycle = [&](int i) {
    const std::string name = absl::StrCat("extra", i);
    const auto loaded = operator_->Load(name, large_, {.slow = "dram"});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(Ask(name)->generation, loaded->generation);
    EXPECT_THAT(Metrics(), HasSubstr(absl::StrCat("hmann_queries_total{index=\"", name, "\"} 1")));
    ASSERT_TRUE(operator_->Unload(name).ok());
    EXPECT_EQ(Ask(name).status().code(), absl::StatusCode::kNotFound);
  };
  constexpr std::size_t kOfGrpc = 10;  // gRPC starts and ends threads as it likes
  cycle(0);
  // An ended thread and a closed file leave /proc a moment later.
  const auto settled = [&](std::size_t threads, std::size_t files) {
    for (int i = 0; i < 1000; ++i) {
      if (EntriesOf("/proc/self/task") <= threads + kOfGrpc && EntriesOf("/proc/self/fd") <= files)
        return;
      std::this_thread::sleep_for(10ms);
    }
  };
  std::this_thread::sleep_for(500ms);
  const std::size_t threads = EntriesOf("/proc/self/task"), files = EntriesOf("/proc/self/fd");
  const auto lines = [&] {
    const std::string text = Metrics();
    return std::count(text.begin(), text.end(), '\n');
  };
  const auto before = lines();
  for (int i = 1; i <= 100; ++i) cycle(i);
  settled(threads, files);
  EXPECT_LE(EntriesOf("/proc/self/task"), threads + kOfGrpc);
  EXPECT_LE(EntriesOf("/proc/self/fd"), files);
  EXPECT_EQ(lines(), before);
  EXPECT_THAT(Metrics(), Not(HasSubstr("extra")));
  EXPECT_EQ((*reader_->List()).size(), 1u);
}

TEST_F(AdminTest, AStreamFollowsItsName) {
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  auto stream = reader_->OpenStream("name", {.k = 10}, {.deadline = 60s});
  const auto next = [&] {
    EXPECT_TRUE(stream.Send(1, client::Vectors::Raw(SampleQueries(0, 1))).ok());
    return (*stream.Receive())->answer;
  };
  EXPECT_EQ(next()->ids, LocalAnswers(small_)[0]);
  ASSERT_TRUE(operator_->Unload("name").ok());
  EXPECT_EQ(next().status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(operator_->Load("name", large_).ok());
  EXPECT_EQ(next()->ids, LocalAnswers(large_)[0]);
}

TEST_F(AdminTest, OnlyAnOperatorMayAndOnlyWithTokens) {
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  const auto refused = [&](client::Client& caller, absl::StatusCode code) {
    EXPECT_EQ(caller.Load("new", large_).status().code(), code);
    EXPECT_EQ(caller.Swap("name", large_).status().code(), code);
    EXPECT_EQ(caller.Unload("name").code(), code);
    EXPECT_EQ(caller.Status().status().code(), code);
    EXPECT_EQ(caller.Drain().code(), code);
  };
  refused(*reader_, absl::StatusCode::kPermissionDenied);
  auto nobody = *client::Client::Connect(server_->address(), {.own_connection = true});
  refused(nobody, absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(StatusOf("name").swaps + StatusOf("name").refused_loads, 0u);
  const Served open(LoopbackOptions({{"name", small_}}));
  refused(*open.client, absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(open.client->Status().status().message()), HasSubstr("--tokens"));
}

TEST_F(AdminTest, ADrainClosesThePortAndAnswersOpenConnections) {
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  EXPECT_TRUE(Ask().ok());
  ASSERT_TRUE(operator_->Drain().ok());
  for (;;) {  // soon
    auto late = *client::Client::Connect(server_->address(), {.own_connection = true});
    if (absl::IsUnavailable(late.List({.deadline = 1s}).status())) break;
  }
  EXPECT_TRUE(Ask().ok());
}

TEST_F(AdminTest, WhatIsServedIsOnThePage) {
  ASSERT_TRUE(WaitLoaded(*server_).ok());
  const auto swapped = *operator_->Swap("name", large_);
  operator_->Swap("name", folder_ / "missing").status().IgnoreError();
  const std::string text = Metrics();
  for (const std::string& line :
       {absl::StrCat("hmann_index_generation{index=\"name\"} ", swapped.generation),
        std::string("hmann_index_vectors{index=\"name\"} 1500"),
        std::string("hmann_index_dimension{index=\"name\"} 128"),
        std::string("hmann_index_swaps_total{index=\"name\"} 1"),
        std::string("hmann_index_refused_loads_total{index=\"name\"} 1"),
        absl::StrCat("hmann_index_info{content_hash=\"",
                     absl::Hex(swapped.content_hash, absl::kZeroPad16), "\",index=\"name\"} 1")})
    EXPECT_THAT(text, HasSubstr(absl::StrCat(line, "\n")));
  EXPECT_THAT(text, HasSubstr("hmann_index_load_seconds{index=\"name\"} "));
  EXPECT_THAT(text, HasSubstr("process_open_fds "));
  EXPECT_THAT(text,
              ContainsRegex("hmann_build_info\\{compiler=\"[^\"]+\",version=\"[0-9.]+\"\\} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("hmann_queries_total"))) << "nobody has searched";
}

/// A tier "hung" on which nothing is placed until the test says so.
class HungTier : public Tier {
 public:
  HungTier() : Tier({.name = "hung"}) {}
  absl::StatusOr<Region> Place(const PlacementSource&, Progress&) const override {
    std::unique_lock lock(mutex);
    ++hanging;
    changed.notify_all();
    changed.wait(lock, [] { return released; });
    --hanging;
    changed.notify_all();
    return absl::UnavailableError("tier hung: no answer");
  }
  static absl::StatusOr<std::unique_ptr<Tier>> Make(std::string_view spec) {
    if (spec != "hung") return nullptr;
    return std::make_unique<HungTier>();
  }

  static inline std::mutex mutex;
  static inline std::condition_variable changed;
  static inline bool released = false;
  static inline int hanging = 0;
};

class HungTest : public AdminTest {
 protected:
  HungTest() : AdminTest(WithHungFirst()) {}
  ~HungTest() override {
    Release();
    server_.reset();
    RegisterTiers(nullptr);
  }
  static std::vector<IndexSpec> WithHungFirst() {
    RegisterTiers(HungTier::Make);
    HungTier::released = false;
    OpenOptions open;
    open.slow = "hung";
    return {{"hung", SampleIndex(), open}};
  }
  static void Release() {
    const std::lock_guard lock(HungTier::mutex);
    HungTier::released = true;
    HungTier::changed.notify_all();
  }
  static void AwaitHanging(int wanted) {
    std::unique_lock lock(HungTier::mutex);
    HungTier::changed.wait(lock, [&] { return HungTier::hanging == wanted; });
  }
};

TEST_F(HungTest, AFileThatHangsHoldsUpNoOther) {
  AwaitHanging(1);
  EXPECT_TRUE(reader_->WaitReady("name", {.deadline = 60s}).ok()) << "the other one is loaded";
  EXPECT_EQ(Ask("hung").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(operator_->Swap("hung", large_).status().code(), absl::StatusCode::kAborted);
  std::future<absl::Status> second = std::async(std::launch::async, [&] {
    return operator_->Load("second", large_, {.slow = "hung"}).status();
  });
  AwaitHanging(2);
  const client::IndexStatus status = StatusOf("second");
  EXPECT_EQ(status.state, client::IndexState::kLoading);
  ASSERT_TRUE(status.loading.has_value());
  EXPECT_EQ(status.loading->path, large_);
  EXPECT_GT(status.loading->share, 0) << "of the file: the upper layers are loaded, L0 hangs";
  EXPECT_LT(status.loading->share, 1);
  EXPECT_THAT(Metrics(), HasSubstr("hmann_index_loading_share{index=\"second\"} 0."));
  EXPECT_TRUE(operator_->Swap("name", large_).ok());
  EXPECT_TRUE(operator_->Load("third", small_).ok());
  EXPECT_TRUE(Ask("third").ok());
  EXPECT_TRUE(operator_->Unload("third").ok());
  EXPECT_TRUE(operator_->Unload("second").ok());
  EXPECT_EQ(Ask("second").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(operator_->Load("second", small_).ok()) << "the name is free";
  Release();
  EXPECT_FALSE(second.get().ok());
  AwaitHanging(0);
  EXPECT_EQ(Ask("second")->ids, LocalAnswers(small_)[0]) << "the late load changed nothing";
  EXPECT_TRUE(WaitLoaded(*server_).ok());
  EXPECT_TRUE(operator_->Swap("hung", SampleIndex()).status().code() ==
              absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace hmann::server
