#include "index/tune/placement_choices.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tune/placement_costs.h"

namespace hmann {
namespace {

/// Shares of L0's records that a static cache may hold.
constexpr double kCachedShares[] = {0,   0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25,
                                    0.3, 0.35, 0.4,  0.45, 0.5,  0.6,  0.7, 0.8,  0.9, 1};
constexpr double kRateStep = 1.005;
constexpr double kFewestPromoted = 0.001, kMostPromoted = 0.8, kFewestHubs = 0.0015;
/// What a record from the cache costs besides its lines: 438 hits on 1M SIFT vectors took 100, 100 and 69 us more than none.
constexpr double kCacheHitNs = 230;
/// What a round of the pool and a record of the gated walk cost besides distances and lines: 1M SIFT vectors in DRAM took 25 us and 47 us,
/// one query at a time, 16 and 36 for those.
constexpr double kPoolRoundNs = 450, kGatedNodeNs = 330;

/// Bytes of a mapping of its own: of 2 MiB pages where it is that large.
std::uint64_t InPages(std::uint64_t bytes) { return RoundUp(bytes, bytes >= 2_MiB ? 2_MiB : 4_KiB); }

/// The lines of a plan: what lies in fast memory, each a mapping of its own, and L0 last.
std::vector<PlacedBytes> StructureLines(const PlanStructure& structure, const Header& header) {
  std::vector<PlacedBytes> lines = {{"upper links", "", 0}};
  std::uint64_t sum = 0, l0 = 0;
  for (const Section& section : PlanSections(header)) {
    if (section.kind == SectionKind::kUpperLinks) lines[0].bytes += section.bytes;
    if (section.kind == SectionKind::kFastRows) lines.push_back({"promoted vectors", "", section.bytes});
    if (section.kind == SectionKind::kFastLabels) lines.push_back({"labels of promoted", "", section.bytes});
    if (section.kind == SectionKind::kSketches) lines.push_back({"sketches", "", section.bytes});
    if (section.kind == SectionKind::kSecondHubs) lines.push_back({"second hubs", "", section.bytes});
    if (section.kind == SectionKind::kL0) l0 = section.bytes;
  }
  for (const PlacedBytes& line : lines) sum += line.bytes;
  // In memory; the file's section is another form of them.
  const FastShape fast = FastShapeOf(header);
  if (const std::uint64_t cells = FastBytes(fast, structure.n1) - sum; cells > 0) lines.push_back({"cells", "", cells});
  lines.push_back({"l0", "", l0});
  return lines;
}

/// Everything about a request that does not depend on the structure.
class Planner {
 public:
  static absl::StatusOr<Planner> Make(const PlanRequest& request) {
    HMANN_RETURN_IF_ERROR(request.shape.Validate());
    Planner planner(request);
    if (request.slow == "dram") return absl::InvalidArgumentError("slow: expected a tier other than dram, of which the fast memory is");
    HMANN_ASSIGN_OR_RETURN(planner.fast_, CostOf(request.profile, "dram"));
    HMANN_ASSIGN_OR_RETURN(planner.slow_, CostOf(request.profile, request.slow));
    if (request.middle_bytes > 0) {
      HMANN_ASSIGN_OR_RETURN(planner.middle_, CostOf(request.profile, request.middle));
      if (planner.middle_->is_block)
        return absl::InvalidArgumentError(absl::StrCat("middle: tier ", request.middle, " is not addressable"));
    }
    planner.distance_ns_ = NsPerDistance(request.profile, request.shape.dtype, request.shape.dim);
    if (planner.distance_ns_ <= 0) {
      return absl::InvalidArgumentError(absl::StrCat("the profile has no time of a distance of ", std::string(Name(request.shape.dtype)),
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
    for (std::size_t i = 0; i + 1 < made.lines.size(); ++i) made.upper_bytes += InPages(made.lines[i].bytes);
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
    const bool by_hub = made.structure.codes == CodePlace::kHub;  // else they lie in the record and have been read with it
    const double estimate = NsPerEstimate(request_.profile, shape.dim, made.structure.bits);
    ns += made.counts.sketches * (estimate + (by_hub ? Lines(SketchBytes(shape.dim, made.structure.bits)) * line : 0));
    return ns;
  }

  /// `hits`: the share of reads that fast memory answers, from a cache of `cached` of the records or (0) in place.
  double L0Ns(const Candidate& made, const TierCost& tier, double cached, double hits) const {
    const AccessCounts& counts = made.counts;
    if (counts.rounds <= 0) return 0;
    const RecordLayout records = made.header.Records();
    // The pool asks for neighbours' vectors, and for the links of few; the others read whole records.
    const double lines = Lines(made.structure.bits == 0 ? made.header.row_bytes : records.CodesEnd(made.structure.n1));
    const double width = counts.slow_reads / counts.rounds;
    const double waits = 1 - std::pow(hits, width);  // of a round, whose records are not all in the cache
    const double nodes_ns = made.structure.bits == 0 ? counts.rounds * kPoolRoundNs : counts.slow_reads * kGatedNodeNs;
    double ns = counts.slow_reads * distance_ns_ + nodes_ns;
    ns += hits * counts.slow_reads * ((cached > 0 ? kCacheHitNs : 0) + lines * NsPerLine(fast_.memory, kFastLoads));
    if (waits > 0) ns += counts.rounds * waits * tier.BatchNs(width * (1 - hits) / waits, lines);
    return ns;
  }

  std::uint64_t CacheIndexBytes(const Candidate& made, double share) const {
    if (share == 0) return 0;
    const double units = Units(made);
    return static_cast<std::uint64_t>(units * 4.125 + units * share * 8);
  }

  PlacementPlan PlanOf(const Candidate& made, const TierCost& upper, const TierCost& l0, double share, double hits) const {
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
      if (line.tier == fast_.name) plan.used.fast += line.structure == "migration and scratch" ? line.bytes : InPages(line.bytes);
      if (middle_.has_value() && line.tier == middle_->name) plan.used.middle += InPages(line.bytes);
    }
    if (l0.is_block) plan.migration_bytes = std::min<std::uint64_t>(16_MiB, std::max<std::uint64_t>(1_MiB, MigrationShare()));
    plan.file_bytes = kHeaderBytes;
    for (const Section& section : PlanSections(made.header)) plan.file_bytes = section.offset + RoundUp(section.bytes, kBlockBytes);
    plan.counts = made.counts;
    plan.cache_hits = hits;
    plan.predicted_us = (UpperNs(made, upper) + L0Ns(made, l0, share, hits)) / 1000;
    return plan;
  }

  double Hits(const Candidate& made, double share) const {
    const CacheCurve curve = request_.scale.cache.value_or(DefaultCacheCurve(slow_.is_block, made.structure));
    const NodeId n1 = made.structure.n1;
    const RecordLayout records = made.header.Records();
    const double promoted_part = slow_.is_block ? static_cast<double>(records.Offset(n1)) / static_cast<double>(records.TotalBytes())
                                                : static_cast<double>(n1) / static_cast<double>(request_.shape.n);
    return curve.Hits(share, promoted_part);
  }

  const TierCost& fast() const { return fast_; }
  const TierCost& slow() const { return slow_; }

 private:
  explicit Planner(const PlanRequest& request) : request_(request) {}

  AccessCounts Scaled(AccessCounts counts) const {
    counts.distances_fast *= request_.scale.distances_fast;
    counts.sketches *= request_.scale.sketches;
    counts.slow_reads *= request_.scale.slow_reads;
    counts.rounds = std::min(counts.rounds * request_.scale.rounds, counts.slow_reads);
    return counts;
  }

  /// The cache holds records, or blocks of a block tier.
  double Units(const Candidate& made) const {
    return slow_.is_block ? static_cast<double>(made.lines.back().bytes) / kBlockBytes : static_cast<double>(request_.shape.n);
  }
  std::uint64_t CacheBytes(const Candidate& made, double share) const {
    const double unit = slow_.is_block ? static_cast<double>(kBlockBytes) : made.header.Records().RecordBytes(made.structure.n1);
    return static_cast<std::uint64_t>(Units(made) * share * unit);
  }
  std::uint64_t MigrationShare() const { return reserve_ / static_cast<std::uint64_t>(std::max(1, request_.threads)); }

  void AddL0(Candidate& made, const TierCost& tier, const TierBytes& bytes, bool cached) const {
    for (const double share : kCachedShares) {
      if (share > 0 && !cached) break;
      const std::uint64_t cache = CacheBytes(made, share);
      made.l0_choices.push_back({&tier, share});
      const TierBytes more{InPages(cache) + InPages(CacheIndexBytes(made, share)), 0};
      made.groups[1].push_back({bytes + (share > 0 ? more : TierBytes{}), L0Ns(made, tier, share, Hits(made, share))});
    }
  }

  PlanRequest request_;
  TierCost fast_, slow_;
  std::optional<TierCost> middle_;
  double distance_ns_ = 0;
  std::uint64_t reserve_ = 0;
};

std::vector<NodeId> PromotedCounts(const PlanRequest& request) {
  const auto n = static_cast<double>(request.shape.n);
  const auto most = static_cast<NodeId>(request.shape.n - 1);
  if (request.promote.has_value()) return {std::clamp<NodeId>(static_cast<NodeId>(n * *request.promote), 1, most)};
  std::vector<NodeId> counts;
  for (double count = 1; count <= kMostPromoted * n; count *= count < kFewestPromoted * n ? 1.3 : kRateStep) {
    const auto whole = std::min(static_cast<NodeId>(count), most);
    if (counts.empty() || counts.back() != whole) counts.push_back(whole);
  }
  return counts;
}

std::vector<PlanStructure> Structures(const PlanRequest& request) {
  if (request.finished.has_value()) return {*request.finished};
  std::vector<PlanStructure> structures;
  const double few = kFewestHubs * static_cast<double>(request.shape.n);  // nobody has counted the reads with fewer hubs
  for (const NodeId n1 : PromotedCounts(request)) {
    for (std::uint32_t bits = 0; bits <= 4; ++bits) {
      if (request.bits.has_value() ? bits != *request.bits : bits > 0 && n1 < few && !request.promote.has_value()) continue;
      for (std::uint32_t assign = 1; assign <= 2; ++assign) {
        if (request.assign.has_value() && bits > 0 ? assign != *request.assign : bits == 0 && assign == 2) continue;
        if (n1 >= assign) structures.push_back({n1, bits, assign, CodePlace::kHub});
      }
      if (bits > 0 && request.edge_codes && !request.assign.has_value()) structures.push_back({n1, bits, 1, CodePlace::kEdge});
    }
  }
  return structures;
}

absl::Status TooSmall(const PlanRequest& request, std::uint64_t least) {
  std::uint64_t smallest = least + ReservedFastBytes(0, request.threads);
  while (least + ReservedFastBytes(smallest, request.threads) > smallest) smallest = least + ReservedFastBytes(smallest, request.threads);
  return absl::ResourceExhaustedError(absl::StrCat("--fast-memory ", request.fast_bytes,
                                                   " is too small: what must lie there and the scratch of ", request.threads,
                                                   " search threads need ", smallest, " bytes (", FormatSize(smallest), ")"));
}

}  // namespace

absl::StatusOr<PlacementPlan> PlanPlacement(const PlanRequest& request) {
  HMANN_ASSIGN_OR_RETURN(const Planner planner, Planner::Make(request));
  std::optional<PlacementPlan> best;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  KnapsackWork work;
  const TierBytes budget{request.fast_bytes - std::min(request.fast_bytes, planner.reserve()), request.middle_bytes};
  for (const PlanStructure& structure : Structures(request)) {
    for (const bool block : {true, false}) {
      if (block && !planner.slow().is_block) continue;
      HMANN_ASSIGN_OR_RETURN(Planner::Candidate candidate, planner.CandidateOf(structure, block));
      least = std::min(least, candidate.upper_bytes);
      if (candidate.upper_bytes > std::max(budget.fast, budget.middle)) continue;
      planner.AddChoices(candidate, block);
      const std::optional<KnapsackSolution> solution = SolveKnapsack(candidate.groups, budget, &work);
      if (!solution.has_value() || (best.has_value() && solution->cost / 1000 >= best->predicted_us)) continue;
      const Planner::Candidate::L0Choice& l0 = candidate.l0_choices[solution->chosen[1]];
      best = planner.PlanOf(candidate, *candidate.upper_choices[solution->chosen[0]], *l0.tier, l0.cached_share,
                            planner.Hits(candidate, l0.cached_share));
    }
  }
  if (!best.has_value() || request.fast_bytes < planner.reserve()) return TooSmall(request, least);
  best->work = work;
  return *std::move(best);
}

absl::StatusOr<PlacementPlan> PlanAgainst(const PlanRequest& request,
                                          const std::function<absl::StatusOr<std::uint64_t>(const PlacementPlan&)>& high_water) {
  PlanRequest limited = request;
  for (int replans = 0;; ++replans) {
    HMANN_ASSIGN_OR_RETURN(PlacementPlan plan, PlanPlacement(limited));
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t taken, high_water(plan));
    plan.replans = replans;
    if (taken <= request.fast_bytes) return plan;
    limited.fast_bytes = limited.fast_bytes / 50 * 49;
  }
}

absl::StatusOr<PlacementPlan> PlanByHand(const PlanRequest& request, HandRule rule) {
  HMANN_ASSIGN_OR_RETURN(const Planner planner, Planner::Make(request));
  HMANN_ASSIGN_OR_RETURN(const Header header, HeaderOf(request.shape, {}));
  PlanStructure structure;
  HMANN_ASSIGN_OR_RETURN(structure.n1, LargestN1(FastShapeOf(header), request.fast_bytes, request.threads));
  while (structure.n1 > 1) {  // in whole pages a little less fits
    HMANN_ASSIGN_OR_RETURN(const Planner::Candidate candidate, planner.CandidateOf(structure, planner.slow().is_block));
    if (candidate.upper_bytes + planner.reserve() <= request.fast_bytes) break;
    structure.n1 -= 1 + structure.n1 / 200;
  }
  if (rule == HandRule::kFirstTouch) {
    structure.n1 = std::clamp<NodeId>(static_cast<NodeId>(request.shape.n / request.shape.m), 1, structure.n1);
  }
  HMANN_ASSIGN_OR_RETURN(const Planner::Candidate candidate, planner.CandidateOf(structure, planner.slow().is_block));
  double share = 0;
  if (rule == HandRule::kFirstTouch) {
    const std::uint64_t left = request.fast_bytes - std::min(request.fast_bytes, planner.reserve() + candidate.upper_bytes);
    share = std::min(1.0, static_cast<double>(left) / static_cast<double>(candidate.lines.back().bytes));
  }
  PlacementPlan plan = planner.PlanOf(candidate, planner.fast(), planner.slow(), 0, share);
  plan.cached_share = share;
  plan.used.fast += static_cast<std::uint64_t>(share * static_cast<double>(candidate.lines.back().bytes));
  return plan;
}

absl::StatusOr<DeviceProfile> ProfileToPlanWith(const std::string& path, std::vector<std::string>& warnings) {
  if (path.empty()) return DefaultProfile();
  HMANN_ASSIGN_OR_RETURN(DeviceProfile profile, ReadProfile(path));
  if (const std::string difference = MachineDifference(profile.machine, ThisMachine()); !difference.empty()) {
    warnings.push_back(absl::StrCat(path, " is of another machine (", difference, "): its times may not hold here"));
  }
  return profile;
}

PlanBesideRules CompareWithRules(PlanRequest request, std::uint64_t fast_bytes, std::uint64_t middle_bytes) {
  request.fast_bytes = fast_bytes;
  request.middle_bytes = middle_bytes;
  const auto or_nothing = [](absl::StatusOr<PlacementPlan> plan) {
    return plan.ok() ? std::optional<PlacementPlan>(*std::move(plan)) : std::nullopt;
  };
  return {fast_bytes, middle_bytes, or_nothing(PlanPlacement(request)), or_nothing(PlanByHand(request, HandRule::kUpperLayersFirst)),
          or_nothing(PlanByHand(request, HandRule::kFirstTouch))};
}

}  // namespace hmann
