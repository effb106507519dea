/// The tiers of this build, from which MakeTier chooses.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "hmann/tier.h"

namespace hmann {

/// "dram": memory according to the kernel's policy, in 2 MiB pages if available, locked
/// if allowed.
std::unique_ptr<Tier> MakeDramTier();

/// "numa:N": the same, from node N alone (CXL memory appears as a node without CPUs).
/// Place verifies it with move_pages. Errors: INVALID_ARGUMENT naming the nodes that this
/// process may use.
absl::StatusOr<std::unique_ptr<Tier>> MakeNumaTier(std::string_view node);

/// Implements Place of these tiers; `tier` names it in messages.
absl::StatusOr<Region> PlaceInMemory(const std::string& tier, std::optional<int> node,
                                     const PlacementSource& source, Progress& progress);

/// "mapped": the index file in place, through the page cache, without read-ahead.
std::unique_ptr<Tier> MakeMappedTier();

/// "mapped:PATH": a copy at PATH (another disk, a DAX file system), made once by temp +
/// fsync + rename. It is reused while the checksum in its last block is that of the
/// source. A file at PATH that is no such copy is an error and never overwritten.
std::unique_ptr<Tier> MakeMappedCopyTier(std::string path);

/// "dax:PATH": a copy at PATH, which is a file on a file system with DAX (tier_copy.h) or
/// a devdax node, addressed without a page cache.
///
/// A devdax node holds the bytes from its start and a trailer in its last 4 KiB. A node
/// that holds neither such a copy nor zeros is left untouched.
std::unique_ptr<Tier> MakeDaxTier(std::string path);

/// "nvme": the index file in place, read block by block, bypassing the page cache.
std::unique_ptr<Tier> MakeNvmeTier();

/// "nvme:PATH": a copy at PATH (tier_copy.h), read the same way.
std::unique_ptr<Tier> MakeNvmeCopyTier(std::string path);

/// "emulated:SETTINGS": dram with a bus that slows down every access reported to
/// EmulatedLines. Errors: those of EmulationSpec::Parse and EmulatedBus::Make.
absl::StatusOr<std::unique_ptr<Tier>> MakeEmulatedTier(std::string_view settings);

}  // namespace hmann
