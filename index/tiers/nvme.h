#pragma once

#include <memory>
#include <string>

#include "index/tiers/tier.h"

namespace hmann {

/// "nvme": the index file in place, read block by block past the page cache.
std::unique_ptr<Tier> MakeNvmeTier();

/// "nvme:PATH": a copy at PATH (tier_copy.h), read so.
std::unique_ptr<Tier> MakeNvmeCopyTier(std::string path);

}  // namespace hmann
