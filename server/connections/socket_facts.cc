#include "server/connections/socket_facts.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace hmann::server {

std::uint64_t CookieOf(int descriptor) {
  std::uint64_t cookie = 0;
  socklen_t length = sizeof(cookie);
  return getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0 ? cookie : 0;
}

std::uint64_t BytesReceived(int descriptor) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  return getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) == 0
             ? info.tcpi_bytes_received
             : 0;
}

std::uint64_t BytesUnread(int descriptor) {
  int bytes = 0;
  return ioctl(descriptor, FIONREAD, &bytes) == 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

void SetWindow(int descriptor, int bytes) {
  setsockopt(descriptor, IPPROTO_TCP, TCP_WINDOW_CLAMP, &bytes, sizeof(bytes));
}

std::uint32_t CallsUnread(int descriptor) {
  constexpr std::size_t kPreface = 24, kFrameHead = 9;
  constexpr unsigned char kHeaders = 1;
  static thread_local std::array<unsigned char, 64 << 10> bytes;
  const ssize_t got = recv(descriptor, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  std::uint32_t calls = 0;
  for (std::size_t at = kPreface; got > 0 && at + kFrameHead <= static_cast<std::size_t>(got);) {
    calls += bytes[at + 3] == kHeaders ? 1 : 0;
    at += kFrameHead +
          (std::size_t{bytes[at]} << 16 | std::size_t{bytes[at + 1]} << 8 | bytes[at + 2]);
  }
  return calls;
}

bool PeerOf(int descriptor, std::string* peer, std::string* name) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  pollfd polled{descriptor, POLLRDHUP, 0};
  if (poll(&polled, 1, 0) == 1 ||
      getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return false;
  if (address.ss_family == AF_UNIX) {
    *peer = "unix";
    name->clear();
    return true;
  }
  char text[INET6_ADDRSTRLEN] = {};
  const auto* four = reinterpret_cast<const sockaddr_in*>(&address);
  const auto* six = reinterpret_cast<const sockaddr_in6*>(&address);
  const bool is_four = address.ss_family == AF_INET;
  const bool mapped = !is_four && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) != 0;
  if (is_four || mapped) {
    inet_ntop(AF_INET,
              is_four ? &four->sin_addr.s_addr
                      : reinterpret_cast<const in_addr_t*>(six->sin6_addr.s6_addr + 12),
              text, sizeof(text));
    *peer = text;
    *name = absl::StrCat("ipv4:", text, ":", ntohs(is_four ? four->sin_port : six->sin6_port));
    return true;
  }
  inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof(text));
  // The owner of one IPv6 address has its whole network.
  constexpr std::size_t kNetwork = 8;
  peer->assign(reinterpret_cast<const char*>(six->sin6_addr.s6_addr), kNetwork);
  *name = absl::StrCat("ipv6:%5B", text, "%5D:", ntohs(six->sin6_port));
  return true;
}

}  // namespace hmann::server
