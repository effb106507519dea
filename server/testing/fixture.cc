#include "server/testing/fixture.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "index/base/check.h"
#include "index/construct/pipeline.h"
#include "server/calls/grpc_status.h"
#include "server/core/errors.h"

namespace hmann::server {
namespace {

const VectorFile& QueryFile() {
  static const VectorFile* file = new VectorFile(*VectorFile::Open("datasets/sample/query.u8bin"));
  return *file;
}

/// Built at first use; the file is removed when the process ends.
class BuiltIndex {
 public:
  BuiltIndex(Metric metric, std::uint64_t rows)
      : path_(absl::StrCat(testing::TempDir(), "serve_", absl::string_view(Name(metric).data()),
                           "_", ::getpid(), ".hmann")) {
    BuildOptions options;
    options.base = "datasets/sample/base.u8bin";
    options.out = path_;
    options.metric = metric;
    options.rows = rows;
    Progress progress(Progress::Show::kNever);
    const auto built = BuildIndex(options, progress);
    EXPECT_TRUE(built.ok()) << built.status();
  }
  ~BuiltIndex() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

/// The status as a client sees it; a status from the core is not on the wire yet.
absl::Status OnTheWire(const absl::Status& status) {
  google::rpc::Status wire;
  if (ReasonOf(status).empty() || !wire.ParseFromString(ToGrpc(status).error_details()))
    return status;
  absl::Status sent(status.code(), status.message());
  for (const auto& detail : wire.details())
    sent.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  return sent;
}

}  // namespace

const std::string& SampleIndex() {
  static const BuiltIndex index(Metric::kL2, 0);
  return index.path();
}

const std::string& CosineIndex() {
  static const BuiltIndex index(Metric::kCosine, 1000);
  return index.path();
}

std::span<const std::byte> SampleQueries(std::size_t first, std::size_t count) {
  HMANN_CHECK(first + count <= QueryFile().n());
  return {QueryFile().Row(first), count * QueryFile().row_bytes()};
}

std::vector<std::byte> RepeatedQueries(std::size_t count) {
  std::vector<std::byte> out;
  out.reserve(count * QueryFile().row_bytes());
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = SampleQueries(i % QueryFile().n(), 1);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

ServerOptions LoopbackOptions(std::vector<IndexSpec> indexes) {
  ServerOptions options;
  options.indexes = std::move(indexes);
  options.listen = "127.0.0.1:0";
  options.threads = 2;
  return options;
}

absl::Status WaitLoaded(const Server& server) {
  std::optional<absl::Status> loaded;
  for (; !loaded; loaded = server.Loaded())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return *loaded;
}

Served::Served(const ServerOptions& options) {
  auto started = Server::Start(options);
  EXPECT_TRUE(started.ok()) << started.status();
  HMANN_CHECK(started.ok());
  server = *std::move(started);
  client = std::make_unique<client::Client>(
      *client::Client::Connect(server->address(), {.own_connection = true}));
  WaitLoaded(*server).IgnoreError();
}

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

client::SearchParams SlowParams() {
  client::SearchParams params;
  params.k = 10;
  params.ef_l1 = 1000;
  params.ef_l0 = 10000;
  params.mode = SearchMode::kGraph;
  return params;
}

std::string Reason(const absl::Status& status) {
  const auto payload = OnTheWire(status).GetPayload("type.googleapis.com/google.rpc.ErrorInfo");
  google::rpc::ErrorInfo info;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) return "";
  EXPECT_EQ(info.domain(), "hmann");
  return info.reason();
}

bool HasDetail(const absl::Status& status, const std::string& type) {
  return OnTheWire(status).GetPayload(absl::StrCat("type.googleapis.com/", type)).has_value();
}

}  // namespace hmann::server
