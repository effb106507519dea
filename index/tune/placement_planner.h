#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tune/placement_choices.h"
#include "index/tune/placement_costs.h"

namespace hmann {

/// Shares of L0's records that a static cache may hold.
inline constexpr double kCachedShares[] = {0,   0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25,
                                           0.3, 0.35, 0.4,  0.45, 0.5,  0.6,  0.7, 0.8,  0.9, 1};
/// What a record from the cache costs besides its lines: 438 hits on 1M SIFT vectors took
/// 100, 100 and 69 us more than none.
inline constexpr double kCacheHitNs = 230;
/// What a round of the best-first walk and a record of the quantised walk cost besides
/// distances and lines: 1M SIFT vectors in DRAM took 25 us and 47 us, one query at a
/// time, 16 and 36 for those.
inline constexpr double kBestFirstRoundNs = 450, kQuantisedNodeNs = 330;

/// Bytes of a mapping of its own: of 2 MiB pages where it is that large.
inline std::uint64_t InPages(std::uint64_t bytes) {
  return RoundUp(bytes, bytes >= 2_MiB ? 2_MiB : 4_KiB);
}

/// The lines of a plan: what lies in fast memory, each a mapping of its own, and L0 last.
inline std::vector<PlacedBytes> StructureLines(const PlanStructure& structure,
                                               const Header& header) {
  std::vector<PlacedBytes> lines = {{"upper links", "", 0}};
  std::uint64_t sum = 0, l0 = 0;
  for (const Section& section : PlanSections(header)) {
    if (section.kind == SectionKind::kUpperLinks) lines[0].bytes += section.bytes;
    if (section.kind == SectionKind::kFastRows)
      lines.push_back({"promoted vectors", "", section.bytes});
    if (section.kind == SectionKind::kFastLabels)
      lines.push_back({"labels of promoted", "", section.bytes});
    if (section.kind == SectionKind::kCodes) lines.push_back({"codes", "", section.bytes});
    if (section.kind == SectionKind::kSecondCentroids)
      lines.push_back({"second centroids", "", section.bytes});
    if (section.kind == SectionKind::kL0) l0 = section.bytes;
  }
  for (const PlacedBytes& line : lines) sum += line.bytes;
  // In memory; the file's section is another form of them.
  const FastShape fast = FastShapeOf(header);
  if (const std::uint64_t cells = FastBytes(fast, structure.n1) - sum; cells > 0)
    lines.push_back({"cells", "", cells});
  lines.push_back({"l0", "", l0});
  return lines;
}

/// Everything about a request that does not depend on the structure.
class Planner {
 public:
  static absl::StatusOr<Planner> Make(const PlanRequest& request) {
    HMANN_RETURN_IF_ERROR(request.shape.Validate());
    Planner planner(request);
    if (request.slow == "dram")
      return absl::InvalidArgumentError(
          "slow: expected a tier other than dram, of which the fast memory is");
    HMANN_ASSIGN_OR_RETURN(planner.fast_, CostOf(request.profile, "dram"));
    HMANN_ASSIGN_OR_RETURN(planner.slow_, CostOf(request.profile, request.slow));
    if (request.middle_bytes > 0) {
      HMANN_ASSIGN_OR_RETURN(planner.middle_, CostOf(request.profile, request.middle));
      if (planner.middle_->is_block)
        return absl::InvalidArgumentError(
            absl::StrCat("middle: tier ", request.middle, " is not addressable"));
    }
    planner.distance_ns_ = NsPerDistance(request.profile, request.shape.dtype, request.shape.dim);
    if (planner.distance_ns_ <= 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the profile has no time of a distance of ", std::string(Name(request.shape.dtype)),
          ": measure it with `hmann profile --shapes ", request.shape.dim, "x",
          std::string(Name(request.shape.dtype)), "`"));
    }
    planner.reserve_ = ReservedFastBytes(request.fast_bytes, request.threads);
    return planner;
  }

  std::uint64_t reserve() const { return reserve_; }
  /// One structure, with the groups of its placement.
  struct Candidate {
    PlanStructure structure;
    Header header;
    std::vector<PlacedBytes> lines;
    std::uint64_t upper_bytes = 0;  ///< in pages, of all but L0
    AccessCounts counts;
    struct L0Choice {
      const TierCost* tier;
      double cached_share;
    };
    std::vector<const TierCost*> upper_choices;
    std::vector<L0Choice> l0_choices;
    std::vector<std::vector<Variant>> groups;  ///< those of upper_choices, those of l0_choices
  };

  /// `block`: with L0 on a block tier, or on another: walks differ, and so their counts.
  absl::StatusOr<Candidate> CandidateOf(const PlanStructure& structure, bool block) const {
    Candidate made;
    made.structure = structure;
    HMANN_ASSIGN_OR_RETURN(made.header, HeaderOf(request_.shape, structure));
    made.lines = StructureLines(structure, made.header);
    for (std::size_t i = 0; i + 1 < made.lines.size(); ++i)
      made.upper_bytes += InPages(made.lines[i].bytes);
    made.counts = Scaled(DefaultCounts(block, request_.shape.n, structure));
    return made;
  }

  /// Fills choices and groups, with L0 on tiers of that kind.
  void AddChoices(Candidate& made, bool block) const {
    made.groups.assign(2, {});
    made.upper_choices = {&fast_};
    made.groups[0].push_back({{made.upper_bytes, 0}, UpperNs(made, fast_)});
    if (middle_.has_value()) {
      made.upper_choices.push_back(&*middle_);
      made.groups[0].push_back({{0, made.upper_bytes}, UpperNs(made, *middle_)});
    }
    const std::uint64_t l0 = InPages(made.lines.back().bytes);
    if (slow_.is_block == block) AddL0(made, slow_, {0, 0}, true);
    if (block) return;
    if (middle_.has_value()) AddL0(made, *middle_, {0, l0}, true);
    AddL0(made, fast_, {l0, 0}, false);
  }

  double UpperNs(const Candidate& made, const TierCost& tier) const {
    const double line = NsPerLine(tier.memory, kFastLoads);
    const PlanShape& shape = request_.shape;
    double ns = made.counts.distances_fast * (distance_ns_ + Lines(made.header.row_bytes) * line);
    if (made.structure.bits == 0) return ns;
    const double estimate = NsPerEstimate(request_.profile, shape.dim, made.structure.bits);
    ns += made.counts.estimates *
          (estimate + Lines(CodeBytes(shape.dim, made.structure.bits)) * line);
    return ns;
  }

  /// `hits`: the share of reads that fast memory answers, from a cache of `cached` of the
  /// records or (0) in place.
  double L0Ns(const Candidate& made, const TierCost& tier, double cached, double hits) const {
    const AccessCounts& counts = made.counts;
    if (counts.rounds <= 0) return 0;
    const RecordLayout records = made.header.Records();
    // Best-first asks for neighbours' vectors, and for the links of few; the others read
    // whole records.
    const double lines = Lines(made.structure.bits == 0 ? made.header.row_bytes
                                                        : records.LinksEnd(made.structure.n1));
    const double width = counts.slow_reads / counts.rounds;
    const double waits =
        1 - std::pow(hits, width);  // of a round, whose records are not all in the cache
    const double nodes_ns = made.structure.bits == 0 ? counts.rounds * kBestFirstRoundNs
                                                     : counts.slow_reads * kQuantisedNodeNs;
    double ns = counts.slow_reads * distance_ns_ + nodes_ns;
    ns += hits * counts.slow_reads *
          ((cached > 0 ? kCacheHitNs : 0) + lines * NsPerLine(fast_.memory, kFastLoads));
    if (waits > 0) ns += counts.rounds * waits * tier.BatchNs(width * (1 - hits) / waits, lines);
    return ns;
  }

  std::uint64_t CacheIndexBytes(const Candidate& made, double share) const {
    if (share == 0) return 0;
    const double units = Units(made);
    return static_cast<std::uint64_t>(units * 4.125 + units * share * 8);
  }

  PlacementPlan PlanOf(const Candidate& made, const TierCost& upper, const TierCost& l0,
                       double share, double hits) const {
    PlacementPlan plan;
    plan.structure = made.structure;
    plan.fast_tier = upper.name;
    plan.l0_tier = l0.name;
    plan.bytes = made.lines;
    for (PlacedBytes& line : plan.bytes) line.tier = upper.name;
    plan.bytes.back().tier = l0.name;
    plan.cached_share = share;
    plan.cache_bytes = CacheBytes(made, share);
    if (share > 0) {
      plan.bytes.push_back({"cache of l0", "dram", plan.cache_bytes});
      plan.bytes.push_back({"cache's index", "dram", CacheIndexBytes(made, share)});
    }
    plan.bytes.push_back({"migration and scratch", "dram", reserve_});
    plan.reserve_bytes = reserve_;
    for (const PlacedBytes& line : plan.bytes) {
      if (line.tier == fast_.name)
        plan.used.fast +=
            line.structure == "migration and scratch" ? line.bytes : InPages(line.bytes);
      if (middle_.has_value() && line.tier == middle_->name)
        plan.used.middle += InPages(line.bytes);
    }
    if (l0.is_block)
      plan.migration_bytes =
          std::min<std::uint64_t>(16_MiB, std::max<std::uint64_t>(1_MiB, MigrationShare()));
    plan.file_bytes = kHeaderBytes;
    for (const Section& section : PlanSections(made.header))
      plan.file_bytes = section.offset + RoundUp(section.bytes, kBlockBytes);
    plan.counts = made.counts;
    plan.cache_hits = hits;
    plan.predicted_us = (UpperNs(made, upper) + L0Ns(made, l0, share, hits)) / 1000;
    return plan;
  }

  double Hits(const Candidate& made, double share) const {
    const CacheCurve curve =
        request_.scale.cache.value_or(DefaultCacheCurve(slow_.is_block, made.structure));
    const NodeId n1 = made.structure.n1;
    const RecordLayout records = made.header.Records();
    const double promoted_part =
        slow_.is_block
            ? static_cast<double>(records.Offset(n1)) / static_cast<double>(records.TotalBytes())
            : static_cast<double>(n1) / static_cast<double>(request_.shape.n);
    return curve.Hits(share, promoted_part);
  }

  const TierCost& fast() const { return fast_; }
  const TierCost& slow() const { return slow_; }

 private:
  explicit Planner(const PlanRequest& request) : request_(request) {}

  AccessCounts Scaled(AccessCounts counts) const {
    counts.distances_fast *= request_.scale.distances_fast;
    counts.estimates *= request_.scale.estimates;
    counts.slow_reads *= request_.scale.slow_reads;
    counts.rounds = std::min(counts.rounds * request_.scale.rounds, counts.slow_reads);
    return counts;
  }

  /// The cache holds records, or blocks of a block tier.
  double Units(const Candidate& made) const {
    return slow_.is_block ? static_cast<double>(made.lines.back().bytes) / kBlockBytes
                          : static_cast<double>(request_.shape.n);
  }
  std::uint64_t CacheBytes(const Candidate& made, double share) const {
    const double unit = slow_.is_block ? static_cast<double>(kBlockBytes)
                                       : made.header.Records().RecordBytes(made.structure.n1);
    return static_cast<std::uint64_t>(Units(made) * share * unit);
  }
  std::uint64_t MigrationShare() const {
    return reserve_ / static_cast<std::uint64_t>(std::max(1, request_.threads));
  }

  void AddL0(Candidate& made, const TierCost& tier, const TierBytes& bytes, bool cached) const {
    for (const double share : kCachedShares) {
      if (share > 0 && !cached) break;
      const std::uint64_t cache = CacheBytes(made, share);
      made.l0_choices.push_back({&tier, share});
      const TierBytes more{InPages(cache) + InPages(CacheIndexBytes(made, share)), 0};
      made.groups[1].push_back(
          {bytes + (share > 0 ? more : TierBytes{}), L0Ns(made, tier, share, Hits(made, share))});
    }
  }

  PlanRequest request_;
  TierCost fast_, slow_;
  std::optional<TierCost> middle_;
  double distance_ns_ = 0;
  std::uint64_t reserve_ = 0;
};

}  // namespace hmann
