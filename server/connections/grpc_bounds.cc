#include "server/connections/grpc_bounds.h"

#include <chrono>
#include <limits>
#include <mutex>

#include "grpc/grpc.h"
#include "grpcpp/resource_quota.h"
#include "server/connections/channelz.h"

namespace hmann::server {
namespace {

constexpr std::chrono::seconds kKeepaliveTimeout(20);
/// The size of one read. All calls in it start before the guard can check. A large batch
/// is read in pieces of this size.
constexpr int kMostRead = 8 << 10;
/// The size of most requests with one vector: a guess.
constexpr int kMostAhead = 16 << 10;
/// Headers beyond gRPC's limit end all calls of their connection. So gRPC's limit is far
/// above kMostHeaders (service.cc), beyond which a call is refused alone.
constexpr int kMostHeadersOfConnection = 64 << 10;
/// The set with one member: no compression. gRPC inflates a message before it checks its
/// size and before our code sees the call: 4 MB on the wire become 4 GB in memory.
constexpr int kNoCompression = 1;

int Milliseconds(std::chrono::nanoseconds time) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

}  // namespace

void Bound(const ConnectionLimits& limits, grpc::ServerBuilder* builder) {
  for (const auto& [argument, value] :
       {std::pair<const char*, int>(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                                    static_cast<int>(limits.streams)),
        {GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Milliseconds(limits.handshake_timeout)},
        {GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(limits.idle_timeout)},
        {GRPC_ARG_MAX_CONNECTION_AGE_MS, Milliseconds(limits.age)},
        // Calls may outlive the age of their connection: a stream has no other bound.
        {GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, std::numeric_limits<int>::max()},
        {GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(limits.keepalive)},
        {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(kKeepaliveTimeout)},
        {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, Milliseconds(limits.min_ping)},
        // Without these two, gRPC allows one ping in two hours on a connection without
        // calls, whatever min_ping says, and sends none itself after two without data.
        {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
        {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
        {GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kMostRead},
        {GRPC_ARG_MAX_METADATA_SIZE, kMostHeadersOfConnection},
        {GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, kNoCompression},
        // What a client may send ahead of the first read, for good: a refused batch then
        // costs little, and one that is read gets a window for all of it.
        {GRPC_ARG_HTTP2_BDP_PROBE, 0},
        {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kMostAhead},
        {GRPC_ARG_ENABLE_CHANNELZ, 1}}) {
    builder->AddChannelArgument(argument, value);
  }
  // Keeps no events per connection, only counts.
  builder->AddChannelArgument(GRPC_ARG_MAX_CHANNEL_TRACE_EVENT_MEMORY_PER_NODE, 0);
  grpc::ResourceQuota quota("connections");
  quota.Resize(limits.transport_bytes);
  builder->SetResourceQuota(quota);
}

std::pair<std::unique_ptr<grpc::Server>, std::int64_t> StartNumbered(grpc::ServerBuilder& builder) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  return {std::move(server), LastServer()};
}

}  // namespace hmann::server
