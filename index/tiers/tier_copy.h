#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "hmann/progress.h"
#include "hmann/tier.h"

namespace hmann {

/// The last 4 KiB of a copy that a tier has made; says what the bytes before it are.
struct CopyTrailer {
  static constexpr std::uint64_t kBytes = 4096;

  char magic[16] = "hmann tier copy";
  std::uint64_t bytes = 0;     ///< that were copied, from the start on
  std::uint64_t checksum = 0;  ///< of the section, as the index file's table has it
  std::uint64_t self = 0;      ///< XXH3 of the fields above

  CopyTrailer(std::uint64_t copied, std::uint64_t content);
  /// The trailer that ends `bytes`, if they end with one.
  static std::optional<CopyTrailer> Find(std::span<const std::byte> bytes);
};

/// Sees to it that a copy of the source is at `path`: the one that is there already,
/// while the checksum in its trailer is the source's, else a new one by temp + fsync +
/// rename. `tier` names the caller in messages. Errors: ALREADY_EXISTS for a file that is
/// no such copy: it is never overwritten; DATA_LOSS when the source is damaged; those of
/// the disk.
absl::Status EnsureCopy(const std::string& tier, const std::string& path,
                        const PlacementSource& source, Progress& progress);

}  // namespace hmann
