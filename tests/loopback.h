/// The address of a local server, for tests that talk to it without our client.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"

namespace hmann {

/// Parses "127.0.0.1:PORT".
inline sockaddr_in LoopbackAddress(const std::string& address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::uint32_t port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.find(':') + 1), &port));
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  return to;
}

}  // namespace hmann
