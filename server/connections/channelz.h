/// What gRPC counts of its own sockets and servers (channelz), in this process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hmann::server {

/// Calls of a connection, and messages that came on it.
struct StreamCounts {
  std::uint64_t started = 0, succeeded = 0, failed = 0, messages = 0;
  std::uint64_t open() const { return started - succeeded - failed; }
};
/// `socket`: its number. All 0 when it is gone.
StreamCounts StreamsOf(std::int64_t socket);

struct NumberedSocket {
  std::int64_t number = 0;
  std::string name;  ///< address and port of the other end
};
/// Of a server, a page of those from number `first` on.
std::vector<NumberedSocket> SocketsOf(std::int64_t server, std::int64_t first);

/// The highest number of a server.
std::int64_t LastServer();

}  // namespace hmann::server
