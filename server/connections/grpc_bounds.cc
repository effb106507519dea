#include "server/connections/grpc_bounds.h"

#include <chrono>
#include <mutex>

#include "grpc/grpc.h"
#include "grpcpp/resource_quota.h"
#include "server/connections/channelz.h"

namespace hmann::server {
namespace {

/// The grace period for open calls when a connection reaches its maximum age.
constexpr std::chrono::minutes kAgeGrace(2);
constexpr std::chrono::seconds kKeepaliveTimeout(20);
/// The size of one read. All calls in it start before the guard can check. A large batch
/// is read in pieces of this size.
constexpr int kMostRead = 8 << 10;
/// The size limit on header names and values of one call.
constexpr int kMostHeaders = 16 << 10;

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
        {GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, Milliseconds(kAgeGrace)},
        {GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(limits.keepalive)},
        {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(kKeepaliveTimeout)},
        {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, Milliseconds(limits.min_ping)},
        {GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kMostRead},
        {GRPC_ARG_MAX_METADATA_SIZE, kMostHeaders},
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
