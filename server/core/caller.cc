#include "server/core/caller.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>
#include <string>

#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "server/core/tokens.h"

namespace hmann::server {

std::uint64_t CallerWith(std::string_view authorization) {
  return absl::HashOf(std::string(BearerToken(authorization)));  // "bearer" has 64 spellings
}

std::uint64_t CallerAt(std::string_view peer) {
  const std::string address = absl::StrReplaceAll(absl::string_view(peer.data(), peer.size()),
                                                  {{"%5B", "["}, {"%5D", "]"}});
  const std::string host = address.substr(0, address.rfind(':'));
  constexpr absl::string_view kIpv6 = "ipv6:[";
  if (absl::StartsWith(host, kIpv6) && host.back() == ']') {
    const std::string inner = host.substr(kIpv6.size(), host.size() - kIpv6.size() - 1);
    in6_addr parsed{};
    std::uint64_t network = 0;
    if (inet_pton(AF_INET6, inner.substr(0, inner.find('%')).c_str(), &parsed) == 1) {
      // On a dual-stack socket, the address of an IPv4 client is in the last 32 bits.
      std::memcpy(&network, parsed.s6_addr + (IN6_IS_ADDR_V4MAPPED(&parsed) ? 8 : 0),
                  sizeof(network));
      return absl::HashOf(network);
    }
  }
  return absl::HashOf(absl::StartsWith(host, "ipv4:") ? host : std::string("unix"));
}

}  // namespace hmann::server
