/// For tests only: indexes of the sample data set, and a real server with a real client.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "grpcpp/channel.h"
#include "hmann/client.h"
#include "hmann/hmann.h"
#include "server/server.h"

namespace hmann::server {

/// The path of an index over the sample's first rows, built once per process and removed
/// at its end.
const std::string& SampleIndex();  ///< 10,000 x 128 u8, L2
const std::string& CosineIndex();  ///< 1,000 x 128 u8, cosine

/// The sample's queries, u8.
std::span<const std::byte> SampleQueries(std::size_t first, std::size_t count);
/// `count` queries, repeating the sample's.
std::vector<std::byte> RepeatedQueries(std::size_t count);

/// Options for loopback, port 0 and two threads.
ServerOptions LoopbackOptions(std::vector<IndexSpec> indexes);

/// Blocks until every index serves or has failed.
absl::Status WaitLoaded(const Server& server);

/// A server with loaded indexes, and a client connected to it.
struct Served {
  explicit Served(const ServerOptions& options);
  std::unique_ptr<Server> server;
  std::unique_ptr<client::Client> client;
};

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address);

/// Parameters of a slow search: it expands every node of the sample.
client::SearchParams SlowParams();

/// The reason in the ErrorInfo of a status, "" when it has none.
std::string Reason(const absl::Status& status);
/// True if a status has a detail of this type, e.g. "google.rpc.RetryInfo".
bool HasDetail(const absl::Status& status, const std::string& type);

}  // namespace hmann::server
