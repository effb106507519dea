/// For tests only: indexes of the sample, and a real server with a real client.
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

/// Path of an index of the sample's first rows, built once per process, removed at its
/// end.
const std::string& SampleIndex();  ///< 10,000 x 128 u8, L2
const std::string& CosineIndex();  ///< 1,000 x 128 u8, cosine

/// The sample's queries, u8.
std::span<const std::byte> SampleQueries(std::size_t first, std::size_t count);
/// `count` queries, the sample's again and again.
std::vector<std::byte> RepeatedQueries(std::size_t count);

/// Options for loopback, port 0 and two threads.
ServerOptions LoopbackOptions(std::vector<IndexSpec> indexes);

/// A server that has loaded its indexes, and a client of it.
struct Served {
  explicit Served(const ServerOptions& options);
  std::unique_ptr<Server> server;
  std::unique_ptr<client::Client> client;
};

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address);

/// A search that takes long: every node of the sample is expanded.
client::SearchOptions SlowDials();

/// Reason of the ErrorInfo in a status, "" when it has none.
std::string Reason(const absl::Status& status);
/// Whether a status has a detail of this type, e.g. "google.rpc.RetryInfo".
bool HasDetail(const absl::Status& status, const std::string& type);

}  // namespace hmann::server
