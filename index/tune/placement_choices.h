#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "index/tune/plan_structure.h"
#include "index/tune/planner.h"
#include "index/tune/profile.h"

namespace hmann {

/// Means of a query at recall@10 of about 0.95, with the walk that search takes by
/// default.
struct AccessCounts {
  double distances_fast = 0, estimates = 0;
  double slow_reads = 0;  ///< records, of any tier that L0 may lie on
  double rounds = 0;      ///< dependent steps in which they are read
};

/// What is known of an index of n vectors before it is made: counts of 1M SIFT vectors
/// and how they go with the share of promoted nodes and with n, as far as that was
/// measured (access_counts.cc has the tables). Counts of 1 bit with cells lie between
/// measured ones.
AccessCounts DefaultCounts(bool block_tier, std::uint64_t n, const PlanStructure& structure);

/// The share of slow reads that a cache answers which holds the records, or the blocks,
/// with the most links to them. Promoted nodes, being those of highest degree, come
/// first: of them a walk reads links alone.
struct CacheCurve {
  double promoted = 0;  ///< with all promoted nodes' records cached, and no other
  /// (share of the other records or blocks, share of the reads that are left), ascending
  /// to (1, 1).
  std::vector<std::pair<double, double>> others;

  /// `cached`: share of all records or blocks; `promoted_part`: those of promoted nodes,
  /// as a share.
  double Hits(double cached, double promoted_part) const;
};
CacheCurve DefaultCacheCurve(bool block_tier, const PlanStructure& structure);

/// What a sample of queries on an index says, where there is one: factors on
/// DefaultCounts.
struct CountScale {
  double distances_fast = 1, estimates = 1, slow_reads = 1, rounds = 1;
  std::optional<CacheCurve> cache;  ///< absent: DefaultCacheCurve
};

struct PlanRequest {
  PlanShape shape;
  std::uint64_t fast_bytes = 0, middle_bytes = 0;
  std::string slow = "nvme";      ///< tier of L0, of unlimited size, as MakeTier takes it
  std::string middle = "numa:1";  ///< addressable; used only where middle_bytes > 0
  DeviceProfile profile;
  CountScale scale;
  int threads = 1;  ///< that search at once: their scratch comes off the fast memory
  /// Pinned by the user.
  std::optional<double> promote;
  std::optional<std::uint32_t> bits, replicas;
  /// The structure is that of a finished index; only where it lies is chosen.
  std::optional<PlanStructure> finished;
};

/// Bytes of something and where it shall lie.
struct PlacedBytes {
  std::string structure, tier;
  std::uint64_t bytes = 0;
};

/// Where an index of this structure lies, and what that costs. Index::Open can do all of
/// it: upper layers, promoted vectors and codes together on one tier (`--fast`), L0 as a
/// whole on one (`--slow`), and copies of L0's records of highest degree in fast memory
/// (`--cache static --cache-size`).
struct PlacementPlan {
  PlanStructure structure;
  std::string fast_tier, l0_tier;
  std::uint64_t cache_bytes = 0;      ///< of copies, their index not included
  double cached_share = 0;            ///< of all records
  std::uint64_t migration_bytes = 0;  ///< of each searching thread, where L0 is on a block tier
  std::vector<PlacedBytes> bytes;
  std::uint64_t reserve_bytes = 0;  ///< of fast memory: migration space and scratch
  TierBytes used;                   ///< with the reserve, structures in whole pages
  std::uint64_t file_bytes = 0;
  AccessCounts counts;
  double cache_hits = 0;  ///< of counts.slow_reads
  double predicted_us = 0;
  KnapsackWork work;
  int replans = 0;  ///< times that the limit was lowered by 2 % because more was taken than planned
};

/// The plan of least predicted time that fits, of all promotion rates (in steps of 2 %),
/// bits, assignments and places. Exact over these; the more memory is given, the less
/// time is predicted. Pure. Errors: INVALID_ARGUMENT (shape; a slow tier that the profile
/// does not know), RESOURCE_EXHAUSTED naming the smallest fast memory that would do.
absl::StatusOr<PlacementPlan> PlanPlacement(const PlanRequest& request);

/// Plans, asks `high_water` for the fast bytes that the plan really takes, and while that
/// is more than there is plans anew with 0.98 of the limit before (as AutoTM does:
/// Hildebrand's dissertation, ch. 3). Errors: those of PlanPlacement and of high_water.
absl::StatusOr<PlacementPlan> PlanAgainst(
    const PlanRequest& request,
    const std::function<absl::StatusOr<std::uint64_t>(const PlacementPlan&)>& high_water);

/// What a rule of thumb comes to with the same fast memory, beside the plan.
enum class HandRule {
  kUpperLayersFirst,  ///< the paper's: as many promoted nodes as fit, no codes, nothing of L0
  kFirstTouch,  ///< HNSW's own upper layers (1 / M), then pages of L0 in the order of use, which
                ///< says little of how often
};
absl::StatusOr<PlacementPlan> PlanByHand(const PlanRequest& request, HandRule rule);

/// The plan and the rules of thumb with the same memory.
struct PlanBesideRules {
  std::uint64_t fast_bytes = 0, middle_bytes = 0;
  std::optional<PlacementPlan> plan, layers, touch;  ///< absent: does not fit
};
PlanBesideRules CompareWithRules(PlanRequest request, std::uint64_t fast_bytes,
                                 std::uint64_t middle_bytes);

/// Figures of a machine as the design's sources have them, for a plan without a profile:
/// DRAM, and a disk.
DeviceProfile DefaultProfile();
/// The device file, with a line in `warnings` if it is another machine's. Empty path:
/// DefaultProfile. Errors: those of ReadProfile.
absl::StatusOr<DeviceProfile> ProfileToPlanWith(const std::string& path,
                                                std::vector<std::string>& warnings);

}  // namespace hmann
