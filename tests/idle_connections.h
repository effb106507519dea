#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/loopback.h"

namespace hmann {

/// Connections that send nothing, held until destruction.
class IdleConnections {
 public:
  IdleConnections(const std::string& address, int count) {
    const sockaddr_in to = LoopbackAddress(address);
    for (int i = 0; i < count; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM, 0);
      EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
      held_.push_back(fd);
    }
  }
  ~IdleConnections() {
    for (const int fd : held_) close(fd);
  }
  /// Whether the server closes the last of them without sending anything. Connections
  /// that it keeps receive its settings.
  bool LastIsRefused() const {
    const timeval most{60, 0};
    setsockopt(held_.back(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    char byte = 0;
    errno = 0;
    return recv(held_.back(), &byte, 1, 0) <= 0 && errno != EAGAIN;
  }
  IdleConnections(const IdleConnections&) = delete;
  IdleConnections& operator=(const IdleConnections&) = delete;

 private:
  std::vector<int> held_;
};

}  // namespace hmann
