#pragma once

#include <memory>
#include <string>

#include "index/tiers/tier.h"

namespace hmann {

/// "mapped": the index file in place, through the page cache, without read-ahead.
std::unique_ptr<Tier> MakeMappedTier();

/// "mapped:PATH": a copy at PATH (another disk, a DAX file system), made once by temp +
/// fsync + rename and used again while the checksum in its last block is that of the
/// source. A file at PATH that is no such copy is an error, never overwritten.
std::unique_ptr<Tier> MakeMappedCopyTier(std::string path);

}  // namespace hmann
