#pragma once

#include <cstdint>
#include <string>

namespace hmann::server {

/// What the kernel says of a TCP socket.

/// Its number, never used again; 0: it is closed, or no socket.
std::uint64_t CookieOf(int descriptor);
std::uint64_t BytesReceived(int descriptor);
/// Of these, what the process has not read yet.
std::uint64_t BytesUnread(int descriptor);
/// Calls that begin in these, where they are the first of a connection of HTTP/2 in
/// plaintext; of the first 64 KiB. They stay unread.
std::uint32_t CallsUnread(int descriptor);
/// The other end of a TCP connection may be so much ahead of what is read; not less than
/// it was told before.
void SetWindow(int descriptor, int bytes);
/// Of the other end: `peer`, its address without port (of IPv6 the network, 8 bytes,
/// since who has one address there has them all); `name`, as gRPC writes address and
/// port. Of a Unix socket "unix", and no name.
/// False: it is gone.
bool PeerOf(int descriptor, std::string* peer, std::string* name);

}  // namespace hmann::server
