#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "hmann/hmann.h"

namespace hmann::server {

/// Queries with known neighbors, which a file has to find before it is served.
struct Probe {
  std::string queries, groundtruth;  ///< files; no queries: no probe
  std::uint32_t k = 10;
  double recall = 0;                ///< the least mean recall@k by default parameters
  std::chrono::nanoseconds p99{0};  ///< the most for 99 of 100 queries; 0: any

  /// Searches for all, one after the other, for `k` neighbors by default parameters.
  /// Errors: FAILED_PRECONDITION naming what was found and expected; those of the files
  /// and of a search.
  using Search = std::function<absl::Status(const void* query, Answer* answer)>;
  absl::Status Check(const std::string& path, const IndexInfo& info, const Search& search) const;
};

}  // namespace hmann::server
