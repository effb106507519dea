#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "hmann/tier.h"
#include "index/tiers/testing/decorator.h"

namespace hmann {

/// Test decorators that stand between readers and a block tier, or in front of each
/// other, as in "check+delay:5ms+nvme". A program linked with them (faulty_tiers in
/// CMakeLists.txt) accepts these words wherever it takes a tier:
///
///   check                an invalid request to a reader, or an invalid answer from it,
///                        is an INTERNAL error naming it: bounds, alignment, a frame in
///                        flight, a read after the region is gone. Frames hold garbage
///                        until done.
///   count                counts reads, bytes and errors; Where reports them.
///   delay:5ms, delay:min=1ms,max=9ms,seed=3
///                        delivers each read that much later, so that they overtake
///                        each other.
///   fail, fail:every=7   each, or each 7th, read is a DATA_LOSS. On an addressable tier,
///                        Place is an UNAVAILABLE error.
///   stall:after=100      reads after the first 100 never complete.
///
/// The counts cover all readers of all regions of the tier.

/// Splits "delay:5ms+nvme:/x" into {"delay:5ms", "nvme:/x"}; nullopt if it does not begin
/// with a decorator.
std::optional<std::pair<std::string_view, std::string_view>> SplitDecorator(std::string_view spec);

/// `decorator`: as split off. Errors: INVALID_ARGUMENT for its settings, or for a
/// decorator that cannot precede an addressable tier.
absl::StatusOr<std::unique_ptr<Tier>> Decorate(std::string_view decorator,
                                               std::unique_ptr<Tier> inner);

/// A tier for RegisterTiers: nullptr unless `spec` names a decorator. It is registered in
/// programs that link this.
absl::StatusOr<std::unique_ptr<Tier>> MakeDecorated(std::string_view spec);

}  // namespace hmann
