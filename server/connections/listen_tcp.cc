#include "server/connections/listen_tcp.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <set>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "index/base/errors.h"

namespace hmann::server {
namespace {

/// The port in an address, in network byte order.
in_port_t& PortIn(sockaddr* address) {
  return address->sa_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(address)->sin6_port
                                        : reinterpret_cast<sockaddr_in*>(address)->sin_port;
}

/// Returns the error number of the system call that failed, or 0.
int Bind(const addrinfo& address, std::vector<FileDescriptor>* listeners, int* port) {
  FileDescriptor owned(
      socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int listener = owned.fd();
  if (listener < 0) return errno;
  const int on = 1, off = 0;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // connections inherit it
  // [::] also accepts IPv4 connections.
  if (address.ai_family == AF_INET6)
    setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (*port != 0) PortIn(address.ai_addr) = htons(static_cast<std::uint16_t>(*port));
  sockaddr_storage bound{};
  auto* to = reinterpret_cast<sockaddr*>(&bound);
  socklen_t length = sizeof(bound);
  if (bind(listener, address.ai_addr, address.ai_addrlen) != 0 ||
      ::listen(listener, SOMAXCONN) != 0 || getsockname(listener, to, &length) != 0)
    return errno;
  listeners->push_back(std::move(owned));
  *port = ntohs(PortIn(to));
  return 0;
}

}  // namespace

absl::Status ListenTcp(const std::string& listen, std::vector<FileDescriptor>* listeners,
                       int* port) {
  const std::size_t colon = listen.rfind(':');
  std::string host = listen.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  if (colon == std::string::npos || host.empty() ||
      !absl::SimpleAtoi(listen.substr(colon + 1), port) || *port < 0 || *port > 65535) {
    return InvalidArgument("expected HOST:PORT, found '", listen, "'");
  }
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (const int error = getaddrinfo(host.c_str(), absl::StrCat(*port).c_str(), &hints, &found);
      error != 0) {
    return InvalidArgument(gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  int error = 0;
  std::set<std::string> seen;  // getaddrinfo may name an address twice
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    const auto* bytes = reinterpret_cast<const char*>(address->ai_addr);
    if (error == EADDRINUSE || !seen.emplace(bytes, address->ai_addrlen).second) continue;
    const int failed = Bind(*address, listeners, port);
    if (failed == EADDRINUSE || error == 0) error = failed;
  }
  if (listeners->empty() || error == EADDRINUSE)
    return Unavailable(std::generic_category().message(error));
  return absl::OkStatus();  // a host may lack IPv6
}

}  // namespace hmann::server
