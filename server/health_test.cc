// Truthful readiness: health, loading, failed indexes, and the life cycle of a server.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "datasets/testing/temp_folder.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "server/core/registry.h"
#include "server/core/search_pool.h"
#include "server/service.h"
#include "server/testing/fixture.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace hmann::server {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

/// Check and Watch calls on one server's health.
class Health {
 public:
  explicit Health(const std::string& address)
      : stub_(grpc::health::v1::Health::NewStub(ChannelTo(address))) {}

  /// "SERVING", "NOT_SERVING", or the code of an error.
  std::string Check(const std::string& service) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    HealthCheckResponse response;
    request.set_service(service);
    const grpc::Status status = stub_->Check(&context, request, &response);
    return status.ok()
               ? HealthCheckResponse::ServingStatus_Name(response.status())
               : absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code()));
  }

  class Watching {
   public:
    Watching(grpc::health::v1::Health::Stub& stub, const std::string& service) {
      HealthCheckRequest request;
      request.set_service(service);
      reader_ = stub.Watch(&context_, request);
    }
    /// Blocks until the next status; "end" when the stream has ended.
    std::string Next() {
      HealthCheckResponse response;
      return reader_->Read(&response) ? HealthCheckResponse::ServingStatus_Name(response.status())
                                      : "end";
    }

   private:
    grpc::ClientContext context_;
    std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader_;
  };
  Watching Watch(const std::string& service) { return Watching(*stub_, service); }

 private:
  const std::unique_ptr<grpc::health::v1::Health::Stub> stub_;
};

/// The services over a registry that loads when the test says so.
struct HeldServer {
  explicit HeldServer(const std::vector<IndexSpec>& specs)
      : registry(specs),
        pool(1, {.queue = 10, .bytes = 1 << 20}),
        metrics(registry),
        replies(1 << 20, 10s),
        service({registry, pool, RequestLimits(), 10s, metrics}, 4 << 20, &replies, &unread) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service);
    builder.RegisterCallbackGenericService(&service);
    server = builder.BuildAndStart();
    address = absl::StrCat("127.0.0.1:", port);
  }
  ~HeldServer() { server->Shutdown(); }

  Registry registry;
  SearchPool pool;
  Metrics metrics;
  ReplyWatch replies;
  ByteAccount account{1 << 30};
  UnreadRequests unread{&account, 4 << 20};
  SearchService service;
  std::unique_ptr<grpc::Server> server;
  std::string address;
};

TEST(LoadingTest, AnIndexThatLoadsIsUnavailableAndThenServes) {
  HeldServer held({{"sift", SampleIndex()}});
  auto client = *client::Client::Connect(held.address, {.retry = false});
  const auto query = client::Vectors::Raw(SampleQueries(0, 1));
  const absl::Status loading = client.Search("sift", query, {}).status();
  EXPECT_EQ(loading.code(), absl::StatusCode::kUnavailable) << loading;
  EXPECT_EQ(Reason(loading), "INDEX_LOADING");
  EXPECT_TRUE(HasDetail(loading, "google.rpc.RetryInfo"));
  EXPECT_EQ((*client.List())[0].state, client::IndexState::kLoading);
  EXPECT_EQ(client.WaitReady("sift", {.deadline = 50ms}).code(),
            absl::StatusCode::kDeadlineExceeded);

  std::future<absl::Status> ready =
      std::async(std::launch::async, [&] { return client.WaitReady("sift", {.deadline = 60s}); });
  ASSERT_TRUE(held.registry.indexes()[0]->Load(SampleIndex(), {}).ok());
  EXPECT_TRUE(ready.get().ok());
  EXPECT_TRUE(client.Search("sift", query, {}).ok());
}

TEST(LoadingTest, ACorruptIndexDoesNotStopTheOthers) {
  const TempFolder folder;
  std::string content = ReadAll(SampleIndex());
  content.resize(content.size() / 2);
  const Served served(LoopbackOptions({{"half", folder.Write("half.hmann", content)},
                                       {"sift", SampleIndex()},
                                       {"none", folder / "none"}}));

  const auto listed = *served.client->List();
  EXPECT_EQ(listed[0].state, client::IndexState::kFailed);
  EXPECT_THAT(listed[0].reason, HasSubstr("half.hmann"));
  EXPECT_THAT(listed[0].reason, testing::Not(HasSubstr("/"))) << "no folder of the server's";
  EXPECT_EQ(listed[1].state, client::IndexState::kServing);
  EXPECT_EQ(listed[2].state, client::IndexState::kFailed);

  const auto query = client::Vectors::Raw(SampleQueries(0, 1));
  EXPECT_TRUE(served.client->Search("sift", query, {}).ok());
  const absl::Status failed = served.client->Search("half", query, {}).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kFailedPrecondition) << failed;
  EXPECT_EQ(Reason(failed), "INDEX_FAILED");
  EXPECT_THAT(std::string(failed.message()), HasSubstr("half.hmann"));
  EXPECT_EQ(served.client->WaitReady("half").code(), absl::StatusCode::kFailedPrecondition);

  Health health(served.server->address());
  EXPECT_EQ(health.Check("hmann.index.half"), "NOT_SERVING");
  EXPECT_EQ(health.Check("hmann.index.sift"), "SERVING");
  EXPECT_EQ(health.Check("hmann.v1.Search"), "SERVING");
  EXPECT_EQ(health.Check(""), "SERVING") << "a stock probe must reach the others";
  EXPECT_EQ(health.Check("hmann.index.glove"), "NOT_FOUND");
}

TEST(LoadingTest, NoIndexAtAllIsAnError) {
  const TempFolder folder;
  const auto server = *Server::Start(LoopbackOptions({{"none", folder / "none"}}));
  const absl::Status status = WaitLoaded(*server);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("none"));
  Health health(server->address());
  for (const char* name : {"", "hmann.v1.Search", "hmann.index.none"})
    EXPECT_EQ(health.Check(name), "NOT_SERVING") << name;
}

/// Takes the right to lock memory from this thread and those that it starts.
class MayNotLock {
 public:
  MayNotLock() {
    EXPECT_EQ(getrlimit(RLIMIT_MEMLOCK, &limit_), 0);
    const rlimit none{0, limit_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_MEMLOCK, &none), 0);
    EXPECT_EQ(syscall(SYS_capget, &head_, had_.data()), 0);
    auto have = had_;
    have[0].effective &= ~(1u << CAP_IPC_LOCK);
    EXPECT_EQ(syscall(SYS_capset, &head_, have.data()), 0);
  }
  ~MayNotLock() {
    EXPECT_EQ(syscall(SYS_capset, &head_, had_.data()), 0);
    EXPECT_EQ(setrlimit(RLIMIT_MEMLOCK, &limit_), 0);
  }
  MayNotLock(const MayNotLock&) = delete;
  MayNotLock& operator=(const MayNotLock&) = delete;

 private:
  rlimit limit_{};
  __user_cap_header_struct head_{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> had_{};
};

TEST(LoadingTest, WhatAnIndexWarnsOfIsLogged) {
  const MayNotLock limit;
  const std::vector<std::string> warnings = (*Index::Open(SampleIndex()))->Warnings();
  if (warnings.empty()) GTEST_SKIP() << "nothing had to be locked";
  EXPECT_THAT(warnings[0], HasSubstr("RLIMIT_MEMLOCK"));
  std::ostringstream log;
  auto& sinks = spdlog::default_logger()->sinks();
  sinks.push_back(std::make_shared<spdlog::sinks::ostream_sink_mt>(log));
  { const Served served(LoopbackOptions({{"sift", SampleIndex()}})); }
  sinks.pop_back();
  for (const std::string& warning : warnings)
    EXPECT_THAT(log.str(), HasSubstr(absl::StrCat("[warning] index sift: ", warning, "\n")));
}

TEST(LifeCycleTest, APortInUseIsNamed) {
  const Served first(LoopbackOptions({{"sift", SampleIndex()}}));
  ServerOptions options = LoopbackOptions({{"sift", SampleIndex()}});
  options.listen = first.server->address();
  const auto second = Server::Start(options);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(first.server->address()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
}

TEST(LifeCycleTest, ADrainingServerAnswersUntilItStops) {
  Served served(LoopbackOptions({{"sift", SampleIndex()}}));
  Health health(served.server->address());
  auto watching = health.Watch("");
  EXPECT_EQ(watching.Next(), "SERVING");
  const auto query = client::Vectors::Raw(SampleQueries(0, 1));
  EXPECT_TRUE(served.client->Search("sift", query, {}).ok());
  served.server->BeginDrain();
  EXPECT_EQ(watching.Next(), "NOT_SERVING");
  EXPECT_EQ(health.Check("hmann.index.sift"), "NOT_SERVING");
  // The port is closed to new clients, but not to connected ones.
  auto late = client::Client::Connect(served.server->address());
  EXPECT_EQ(late->Search("sift", query, {}, {.deadline = 1s}).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(served.client->Search("sift", query, {}).ok());
  served.server->Shutdown(1s);
  EXPECT_EQ(watching.Next(), "end");
  EXPECT_EQ(served.client->Search("sift", query, {}).status().code(),
            absl::StatusCode::kUnavailable);
}

/// Damage that a user may do to a served file: `cp` of the same bytes or of another
/// index, and truncation.
void Harm(const std::string& live, std::size_t kind) {
  namespace fs = std::filesystem;
  if (kind < 2) {
    fs::copy_file(kind == 0 ? SampleIndex() : CosineIndex(), live,
                  fs::copy_options::overwrite_existing);
  } else {
    fs::resize_file(live, kind == 2 ? fs::file_size(live) / 2 : 0);
  }
}

/// `./dev soak-server` runs it until ten thousand answers were compared; otherwise it
/// damages the file once in each way.
TEST(LifeCycleTest, AnIndexWhoseFileIsWrittenOverFailsAlone) {
  const std::size_t wanted = std::getenv("HMANN_SOAK") != nullptr ? 10'000 : 1;
  const std::string live = absl::StrCat(testing::TempDir(), "/hmann_live_", getpid(), ".hmann");
  std::size_t compared = 0;
  for (std::size_t round = 0; round < 8 || compared < wanted; ++round) {
    std::filesystem::copy_file(SampleIndex(), live,
                               std::filesystem::copy_options::overwrite_existing);
    ServerOptions options = LoopbackOptions({{"live", live}, {"sift", SampleIndex()}});
    options.open.slow = round % 2 == 0 ? "dram" : "mapped";
    Served served(options);
    Health health(served.server->address());
    const auto query = client::Vectors::Raw(SampleQueries(round % 50, 1));
    const auto right = served.client->Search("sift", query, {});
    ASSERT_TRUE(right.ok()) << right.status();
    std::future<void> harmed = std::async(std::launch::async, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(round % 16));
      Harm(live, round / 2 % 4);
    });
    absl::Status failed;
    for (;; ++compared) {
      const auto answer = served.client->Search("live", query, {});
      failed = answer.status();
      if (!failed.ok()) break;
      ASSERT_EQ(answer->ids, right->ids);
    }
    EXPECT_EQ(failed.code(), absl::StatusCode::kFailedPrecondition) << failed;
    EXPECT_EQ(Reason(failed), "INDEX_FAILED");
    EXPECT_THAT(std::string(failed.message()), HasSubstr("changed while it was served"));
    EXPECT_THAT(std::string(failed.message()), Not(HasSubstr(testing::TempDir())));
    harmed.get();
    EXPECT_EQ(served.client->Search("sift", query, {})->ids, right->ids);
    EXPECT_EQ(health.Check("hmann.index.sift"), "SERVING");
    // The watcher reports it a moment later.
    while (health.Check("hmann.index.live") == "SERVING") std::this_thread::yield();
    EXPECT_EQ(health.Check("hmann.index.live"), "NOT_SERVING");
  }
  std::cout << compared << " answers of an index that was then written over were right\n";
  std::filesystem::remove(live);
}

/// What leaves the bytes of a served file as they are.
const std::vector<std::pair<const char*, std::function<void(const std::string&)>>>& Harmless() {
  namespace fs = std::filesystem;
  static const auto refused = [](const std::string& file) {
    const int opened = open(file.c_str(), O_RDWR | O_NONBLOCK);
    EXPECT_EQ(opened, -1) << "a lease was granted at the start";
  };
  static const auto touched = [](const std::string& file) {
    EXPECT_EQ(utimensat(AT_FDCWD, file.c_str(), nullptr, 0), 0);
  };
  static const auto* const all = new std::
      vector<std::pair<const char*, std::function<void(
                                        const std::string&)>>>{{"an open that is refused", refused},
                                                               {"new times", touched},
                                                               {"touch",
                                                                [](const std::string& file) {
                                                                  refused(file), touched(file);
                                                                }},
                                                               {"rights",
                                                                [](const std::string& file) {
                                                                  fs::permissions(file,
                                                                                  fs::perms(0640));
                                                                }},
                                                               {"a hard link",
                                                                [](const std::string& file) {
                                                                  fs::create_hard_link(
                                                                      file, file + ".link");
                                                                  fs::remove(file + ".link");
                                                                }},
                                                               {"another name",
                                                                [](const std::string& file) {
                                                                  fs::rename(file, file + ".away");
                                                                  fs::rename(file + ".away", file);
                                                                }}};
  return *all;
}

TEST(LifeCycleTest, WhatLeavesTheBytesOfAFileWithdrawsNoIndex) {
  const TempFolder folder;
  const std::string live = folder / "live.hmann";
  for (const char* slow : {"dram", "mapped"}) {
    std::filesystem::copy_file(SampleIndex(), live,
                               std::filesystem::copy_options::overwrite_existing);
    ServerOptions options = LoopbackOptions({{"live", live}});
    options.open.slow = slow;
    Served served(options);
    const auto query = client::Vectors::Raw(SampleQueries(1, 1));
    const auto right = served.client->Search("live", query, {});
    ASSERT_TRUE(right.ok()) << right.status();
    for (const auto& [what, harmless] : Harmless()) {
      harmless(live);
      std::this_thread::sleep_for(200ms);  // ten looks at the file
      const auto answer = served.client->Search("live", query, {});
      ASSERT_TRUE(answer.ok()) << what << ": " << answer.status();
      EXPECT_EQ(answer->ids, right->ids);
    }
  }
}

TEST(LifeCycleTest, NewTimesOfADamagedFileWithdrawIt) {
  const TempFolder folder;
  const std::string live = folder / "live.hmann";
  std::filesystem::copy_file(SampleIndex(), live);
  const int writer = open(live.c_str(), O_RDWR);  // so there is no lease
  ServerOptions options = LoopbackOptions({{"live", live}});
  options.open.slow = "mapped";
  options.scrub_bytes_per_second = 0;
  Served served(options);
  const auto query = client::Vectors::Raw(SampleQueries(1, 1));
  ASSERT_TRUE(served.client->Search("live", query, {}).ok());
  char last = 0;
  const auto at = static_cast<off_t>(std::filesystem::file_size(live)) - 5000;
  ASSERT_EQ(pread(writer, &last, 1, at), 1);
  last = static_cast<char>(last ^ 1);
  ASSERT_EQ(pwrite(writer, &last, 1, at), 1);
  close(writer);
  absl::Status failed;
  while (failed.ok()) failed = served.client->Search("live", query, {}).status();
  EXPECT_EQ(Reason(failed), "INDEX_FAILED") << failed;
}

TEST(LifeCycleTest, WhatRunsEndsWithinTheGraceOrIsCancelled) {
  for (const bool enough : {true, false}) {
    ServerOptions options = LoopbackOptions({{"sift", SampleIndex()}});
    options.threads = 1;
    options.queue = 1;
    Served served(options);
    const std::vector<std::byte> queries = RepeatedQueries(enough ? 64 : 4096);
    std::future<absl::Status> batch = std::async(std::launch::async, [&] {
      absl::Status status;
      do {
        status = served.client
                     ->SearchBatch("sift", client::Vectors::Raw(queries, queries.size() / 128),
                                   SlowParams(), {.deadline = 1h})
                     .status();
      } while (absl::IsResourceExhausted(status));  // a search below had the only place
      return status;
    });
    // A refusal means that the batch is in.
    const auto query = client::Vectors::Raw(SampleQueries(0, 1));
    while (batch.wait_for(0s) != std::future_status::ready &&
           served.client->Search("sift", query, SlowParams(), {.deadline = 60s}).ok()) {
    }
    served.server->Shutdown(enough ? std::chrono::nanoseconds(100s) : 0ns);
    EXPECT_EQ(batch.get().ok(), enough);
  }
}

TEST(LifeCycleTest, ReflectionListsTheServices) {
  const Served served(LoopbackOptions({{"sift", SampleIndex()}}));
  const auto channel = ChannelTo(served.server->address());
  grpc::ClientContext context;
  const grpc::internal::RpcMethod method(
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      grpc::internal::RpcMethod::BIDI_STREAMING);
  const std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
          channel.get(), method, &context));
  const grpc::Slice list_services("\x3a\x01*", 3);  // ServerReflectionRequest{list_services = "*"}
  ASSERT_TRUE(stream->Write(grpc::ByteBuffer(&list_services, 1)));
  grpc::ByteBuffer reply;
  ASSERT_TRUE(stream->Read(&reply));
  grpc::Slice slice;
  ASSERT_TRUE(reply.DumpToSingleSlice(&slice).ok());
  const std::string text(slice.begin(), slice.end());
  EXPECT_THAT(text, HasSubstr("hmann.v1.Search"));
  EXPECT_THAT(text, HasSubstr("grpc.health.v1.Health"));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(LifeCycleTest, AFileThatIsReplacedByARenameIsServedUntilTheEnd) {
  const TempFolder folder;
  const std::string live = folder.Write("live.hmann", ReadAll(SampleIndex()));
  Served served(LoopbackOptions({{"live", live}, {"sift", SampleIndex()}}));
  std::filesystem::rename(folder.Write("new.hmann", ReadAll(CosineIndex())), live);
  std::this_thread::sleep_for(200ms);  // the server looks every 20 ms
  const auto query = client::Vectors::Raw(SampleQueries(0, 1));
  const auto answer = served.client->Search("live", query, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->ids, served.client->Search("sift", query, {})->ids);
  EXPECT_EQ(served.client->Describe("live")->n, 10'000u);
}

TEST(LifeCycleTest, WhatComesWhileTheLastCallsRunIsRefusedByName) {
  ServerOptions options = LoopbackOptions({{"sift", SampleIndex()}});
  options.threads = 1;
  options.queue = 1;
  options.most_work = 1h;
  Served served(options);
  const std::vector<std::byte> queries = RepeatedQueries(4096);
  client::Cancellation cancellation;
  std::future<absl::Status> batch = std::async(std::launch::async, [&] {
    absl::Status status;
    do {
      status = served.client
                   ->SearchBatch("sift", client::Vectors::Raw(queries, queries.size() / 128),
                                 SlowParams(), {.deadline = 1h, .cancellation = &cancellation})
                   .status();
    } while (absl::IsResourceExhausted(status));  // a search below had the only place
    return status;
  });
  // A refusal means that the batch is in.
  const auto query = client::Vectors::Raw(SampleQueries(0, 1));
  while (served.client->Search("sift", query, SlowParams(), {.deadline = 60s}).ok())
    std::this_thread::sleep_for(5ms);
  std::thread shutdown([&] { served.server->Shutdown(100s); });
  absl::Status refused;
  while ((refused = served.client->Search("sift", query, {}).status()).ok()) {
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
  EXPECT_EQ(Reason(refused), "SERVER_STOPPING");
  cancellation.Cancel();
  EXPECT_EQ(batch.get().code(), absl::StatusCode::kCancelled);
  shutdown.join();
}

}  // namespace
}  // namespace hmann::server
