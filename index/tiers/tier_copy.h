#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "hmann/progress.h"
#include "hmann/tier.h"

namespace hmann {

/// The last 4 KiB of a copy made by a tier; describes the bytes before it.
struct CopyTrailer {
  static constexpr std::uint64_t kBytes = 4096;

  char magic[16] = "hmann tier copy";
  std::uint64_t bytes = 0;     ///< copied bytes, from the start
  std::uint64_t checksum = 0;  ///< of the section, as in the index file's table
  std::uint64_t self = 0;      ///< XXH3 of the fields above

  CopyTrailer(std::uint64_t copied, std::uint64_t content);
  /// The trailer at the end of `bytes`, if there is one.
  static std::optional<CopyTrailer> Find(std::span<const std::byte> bytes);
};

/// Ensures that a copy of the source is at `path`. It keeps an existing copy whose
/// trailer has the source's checksum, and otherwise makes a new one by temp + fsync +
/// rename. `tier` names the caller in messages. Errors: ALREADY_EXISTS for a file that is
/// no such copy, which is never overwritten; DATA_LOSS when the source is damaged; those
/// of the disk.
absl::Status EnsureCopy(const std::string& tier, const std::string& path,
                        const PlacementSource& source, Progress& progress);

}  // namespace hmann
