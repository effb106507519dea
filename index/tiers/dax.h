#pragma once

#include <memory>
#include <string>

#include "index/tiers/tier.h"

namespace hmann {

/// "dax:PATH": a copy at PATH, a file on a file system that does DAX (tier_copy.h) or a
/// devdax node, addressed without a page cache.
///
/// A devdax node holds the bytes from its start on and a trailer in its last 4 KiB. One
/// that holds neither such a copy nor zeros is left alone.
std::unique_ptr<Tier> MakeDaxTier(std::string path);

}  // namespace hmann
