/// gRPC's own counts of the sockets and servers in this process (channelz).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hmann::server {

/// The calls of a connection and the messages received on it.
struct StreamCounts {
  std::uint64_t started = 0, succeeded = 0, failed = 0, messages = 0;
  std::uint64_t open() const { return started - succeeded - failed; }
};
/// `socket`: its channelz number. All counts are 0 when it is gone.
StreamCounts StreamsOf(std::int64_t socket);

struct NumberedSocket {
  std::int64_t number = 0;
  std::string name;  ///< address and port of the peer
};
/// One page of the sockets of a server, from number `first` on.
std::vector<NumberedSocket> SocketsOf(std::int64_t server, std::int64_t first);

/// The highest channelz number of a server.
std::int64_t LastServer();

}  // namespace hmann::server
