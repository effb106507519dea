#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "hmann/attributes.h"

namespace hmann {

/// The matches of recent filters, which queries with the same filter share. Thread-safe.
class FilterCache {
 public:
  /// The matches of `filter`, or those that an equal one had. Errors: those of
  /// Attributes::Matching.
  absl::StatusOr<std::shared_ptr<const Matches>> Get(const Attributes& attributes,
                                                     const Filter& filter);
  std::uint64_t bytes() const;

 private:
  /// Bytes that are kept; at least the last filter is. A guess.
  static constexpr std::uint64_t kMostBytes = 64 << 20;

  struct Entry {
    std::string text;
    std::shared_ptr<const Matches> matches;
    std::uint64_t bytes() const { return text.size() + matches->bytes(); }
  };

  mutable std::mutex mutex_;
  std::list<Entry> recent_;  ///< the last one used comes first
  std::uint64_t bytes_ = 0;
};

}  // namespace hmann
