#pragma once

#include <cstdint>
#include <string_view>

namespace hmann::server {

/// Who made a call, as a number. Callers of one number share what the pool has for one.

/// By the header that a token came in.
std::uint64_t CallerWith(std::string_view authorization);

/// By its address, as gRPC writes it: "ipv4:10.0.0.1:5000", "ipv6:[::1]:5000" (the
/// brackets perhaps as %5B, %5D), "unix:/a/path". Ports do not count; of IPv6 the first
/// 64 bits do, since a host may choose the others; all that come by a path are one.
std::uint64_t CallerAt(std::string_view peer);

}  // namespace hmann::server
