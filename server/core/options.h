#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "hmann/hmann.h"

namespace hmann::server {

/// An index to serve, and the name clients use for it.
struct IndexSpec {
  static constexpr std::size_t kMostName = 64;  ///< characters of a name
  /// Whether a name may have this character.
  static bool MayHave(char c);

  std::string name;  ///< letters, digits, '.', '_', '-'
  std::string path;  ///< a file; with `versions` a folder, whose newest file is served
  /// Its tiers; absent: those of the server.
  std::optional<OpenOptions> open = {};
  /// Read all mapped data once; absent: as the server does.
  std::optional<bool> warm = {};
  bool versions = false;
  /// A collection that another process writes.
  bool follow = false;
  /// Memory for vectors of a collection that are not merged; 0: as OpenCollection.
  std::uint64_t delta_bytes = 0;

  /// "NAME=FILE", or "FILE", which is named after the file. Errors: INVALID_ARGUMENT.
  static absl::StatusOr<IndexSpec> Parse(const std::string& text);
  /// Checks the name. Errors: INVALID_ARGUMENT.
  absl::Status Validate() const;
  bool operator==(const IndexSpec&) const = default;
};

/// Further names of indexes: from an alias to the name of its index.
using Aliases = std::map<std::string, std::string>;

/// Limits on one request. Describe publishes them.
struct RequestLimits {
  std::uint32_t max_batch = 4096;  ///< queries, or labels
  std::uint32_t max_k = 10000;
  std::uint32_t max_ef = 10000;              ///< of ef_l1, ef_l0 and nprobe
  std::uint32_t max_query_threads = 0;       ///< 0: the server's number of threads
  std::uint64_t max_reply_bytes = 64 << 20;  ///< 12 bytes an id, or vectors
};

}  // namespace hmann::server
