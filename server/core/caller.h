#pragma once

#include <cstdint>
#include <string_view>

namespace hmann::server {

/// Identifies the caller of a request by a number. Callers with the same number share one
/// share of the pool.

/// Identifies a caller by the token in its `authorization` header.
std::uint64_t CallerWith(std::string_view authorization);

/// Identifies a caller by its address, as gRPC writes it: "ipv4:10.0.0.1:5000",
/// "ipv6:[::1]:5000" (the brackets may be %5B, %5D), "unix:/a/path". Ports do not count.
/// For IPv6 only the first 64 bits count, since a host may choose the others. All clients
/// of one Unix socket path are one caller.
std::uint64_t CallerAt(std::string_view peer);

}  // namespace hmann::server
