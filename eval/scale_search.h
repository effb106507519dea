/// One index of one size, searched on every tier: dials from learning queries, figures of
/// others.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "eval/hardware_limit.h"
#include "eval/scale.h"
#include "eval/scale_data.h"
#include "index/hmann.h"
#include "index/tune/tune.h"

namespace hmann {

/// An index that stands.
// NOLINTNEXTLINE(bugprone-exception-escape): moving json throws in assertions only.
struct SizedIndex {
  std::string path, folder;  ///< where its sweeps go
  IndexInfo info;
  Json cache = Json::object();  ///< how it is opened on a device (CacheSettingsOf)
  double fast_bytes = 0;        ///< of a vector, as asked for
};

/// `rows`: for each tier, walk, shape and target: `tier` `walk` `threads` `in_flight`
/// `target` `at_recall` `qps` `mean_us` `p99_us`, per query `distances`
/// `estimates` `slow_reads` `rounds` `io_reads` `lines`, and `limit_qps` `of_limit`: what
/// the machine's memory or drive allows, and how near that is; null where a curve does
/// not reach. `placed_bytes`: of fast memory that the open index took, on a device.
/// `memory`: of each device, `limit_bytes` `loaded_bytes` `peak_bytes`; `drives`: of each
/// device, by threads, its depths. `memory_profile`: of this machine's DRAM, now.
absl::StatusOr<Json> SearchOnTiers(const ScaleOptions& options, const SizedData& data,
                                   const SizedIndex& index, const MemoryProfile& dram,
                                   Progress& progress,
                                   const std::function<void(const std::string&)>& say);

}  // namespace hmann
