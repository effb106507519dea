#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/hmann.h"

namespace hmann {

/// An index to serve, and the name that clients call it by.
struct IndexSpec {
  std::string name;  ///< letters, digits, '.', '_', '-'; at most 64
  std::string path;

  /// "NAME=PATH". Errors: INVALID_ARGUMENT.
  static absl::StatusOr<IndexSpec> Parse(const std::string& text);
};

/// What one request may ask for. Published by Describe.
struct RequestLimits {
  std::uint32_t max_batch = 4096;
  std::uint32_t max_k = 10000;
  std::uint32_t max_ef = 10000;              ///< of ef_l1, ef_l0 and nprobe
  std::uint32_t max_query_threads = 0;       ///< 0: as many as the server has threads
  std::uint64_t max_reply_bytes = 64 << 20;  ///< 12 bytes an id
};

struct ServerOptions {
  std::vector<IndexSpec> indexes;
  std::string listen = "127.0.0.1:50051";  ///< HOST:PORT; port 0 picks one
  OpenOptions open;                        ///< tiers, for every index
  int threads = 0;                         ///< searches side by side; 0: UsableCores()
  std::uint32_t queue = 256;               ///< requests that may wait for a thread of a lane
  std::chrono::nanoseconds most_work = std::chrono::minutes(1);  ///< of a request, one thread
  std::uint32_t most_streams = 256;    ///< calls of one connection at once; more wait
  std::uint64_t most_bytes = 1 << 30;  ///< of the requests under way and their replies
  std::chrono::nanoseconds default_deadline =
      std::chrono::seconds(10);  ///< of a call that has none
  bool insecure = false;         ///< listen beyond loopback without TLS
  bool reflection = true;
  RequestLimits limits;

  /// Errors: INVALID_ARGUMENT naming the option.
  absl::Status Validate() const;
};

/// Whether `listen` ("127.0.0.1:50051", "[::1]:0", "localhost:0") can be reached from
/// this machine only. Errors: INVALID_ARGUMENT when it is not HOST:PORT.
absl::StatusOr<bool> IsLoopback(const std::string& listen);

}  // namespace hmann
