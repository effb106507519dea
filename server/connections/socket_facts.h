#pragma once

#include <cstdint>
#include <string>

namespace hmann::server {

/// What the kernel reports about a TCP socket.

/// The number of the socket, never reused; 0: it is closed or not a socket.
std::uint64_t CookieOf(int descriptor);
std::uint64_t BytesReceived(int descriptor);
/// The bytes received that the process has not read yet.
std::uint64_t BytesUnread(int descriptor);
/// The calls that begin in the unread bytes, if these are the first of a plaintext HTTP/2
/// connection. Looks at the first 64 KiB and leaves the bytes unread.
std::uint32_t CallsUnread(int descriptor);
/// Lets the peer send up to `bytes` ahead of what is read. The window never shrinks below
/// what the peer was granted before.
void SetWindow(int descriptor, int bytes);
/// Describes the peer. `peer`: its address without port; for IPv6 the network, 8 bytes,
/// since the owner of one address there has them all. `name`: address and port as gRPC
/// writes them. For a Unix socket: "unix", and no name. Returns false if the peer is
/// gone: gRPC would take a thread a quarter of a millisecond to find out.
bool PeerOf(int descriptor, std::string* peer, std::string* name);

}  // namespace hmann::server
