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

/// Test equipment that stands between readers and a block tier, in front of any of them
/// and of each other, as "check+delay:5ms+nvme". A program that is linked with it
/// (faulty_tiers in CMakeLists.txt) knows these words wherever it takes a tier:
///
///   check                what a reader must not be asked for, and what it must not
///                        answer, is an INTERNAL error naming it: bounds, alignment, a
///                        frame that is in flight, a read after the region is gone.
///                        Frames hold rubbish until done.
///   count                counts reads, bytes and errors; Where tells them.
///   delay:5ms, delay:min=1ms,max=9ms,seed=3
///                        each read is handed over that much later, so that they overtake
///                        one another.
///   fail, fail:every=7   each, or each 7th, read is a DATA_LOSS. On an addressable tier:
///                        Place is an UNAVAILABLE error.
///   stall:after=100      reads after the first 100 never complete.
///
/// Counting goes over all readers of all regions of the tier.

/// {"delay:5ms", "nvme:/x"} of "delay:5ms+nvme:/x"; nothing if it does not begin with a
/// decorator.
std::optional<std::pair<std::string_view, std::string_view>> SplitDecorator(std::string_view spec);

/// `decorator` as split off. Errors: INVALID_ARGUMENT for its settings, or for what
/// cannot stand before an addressable tier.
absl::StatusOr<std::unique_ptr<Tier>> Decorate(std::string_view decorator,
                                               std::unique_ptr<Tier> inner);

}  // namespace hmann
