#pragma once

#include <cstdint>
#include <functional>

namespace hmann::server {

/// Sends the log lines of gRPC and protobuf to the log of this process, at level debug,
/// and counts and reports failed handshakes. May be called again.
void RouteLibraryLogs();

/// The number of connections whose handshake failed since RouteLibraryLogs: wrong
/// certificates, plaintext sent to TLS, or nothing in time.
std::uint64_t FailedHandshakes();

/// Sets how many lines the log dropped because its reader was too slow; empty: none.
void SetDroppedLines(std::function<std::uint64_t()> dropped);
std::uint64_t DroppedLines();

}  // namespace hmann::server
