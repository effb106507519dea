/// The tiers of this build: what MakeTier chooses from.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "hmann/tier.h"

namespace hmann {

/// "dram": memory from wherever the kernel's policy takes it, in 2 MiB pages where it has
/// them, locked where that is allowed.
std::unique_ptr<Tier> MakeDramTier();

/// "numa:N": the same, from node N alone (CXL memory shows up as a node without CPUs).
/// Place proves it with move_pages. Errors: INVALID_ARGUMENT naming the nodes that this
/// process may use.
absl::StatusOr<std::unique_ptr<Tier>> MakeNumaTier(std::string_view node);

/// What Place of these tiers does: `tier` names it in messages.
absl::StatusOr<Region> PlaceInMemory(const std::string& tier, std::optional<int> node,
                                     const PlacementSource& source, Progress& progress);

/// "mapped": the index file in place, through the page cache, without read-ahead.
std::unique_ptr<Tier> MakeMappedTier();

/// "mapped:PATH": a copy at PATH (another disk, a DAX file system), made once by temp +
/// fsync + rename and used again while the checksum in its last block is that of the
/// source. A file at PATH that is no such copy is an error, never overwritten.
std::unique_ptr<Tier> MakeMappedCopyTier(std::string path);

/// "dax:PATH": a copy at PATH, a file on a file system that does DAX (tier_copy.h) or a
/// devdax node, addressed without a page cache.
///
/// A devdax node holds the bytes from its start on and a trailer in its last 4 KiB. One
/// that holds neither such a copy nor zeros is left alone.
std::unique_ptr<Tier> MakeDaxTier(std::string path);

/// "nvme": the index file in place, read block by block past the page cache.
std::unique_ptr<Tier> MakeNvmeTier();

/// "nvme:PATH": a copy at PATH (tier_copy.h), read so.
std::unique_ptr<Tier> MakeNvmeCopyTier(std::string path);

/// "emulated:SETTINGS": dram, with a bus that makes every access slower which is told to
/// EmulatedLines. Errors: those of EmulationSpec::Parse and EmulatedBus::Make.
absl::StatusOr<std::unique_ptr<Tier>> MakeEmulatedTier(std::string_view settings);

}  // namespace hmann
