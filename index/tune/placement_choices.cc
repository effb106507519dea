#include "index/tune/placement_choices.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tune/placement_planner.h"

namespace hmann {
namespace {

constexpr double kRateStep = 1.005;
constexpr double kFewestPromoted = 0.001, kMostPromoted = 0.8, kFewestCentroids = 0.0015;

std::vector<NodeId> PromotedCounts(const PlanRequest& request) {
  const auto n = static_cast<double>(request.shape.n);
  const auto most = static_cast<NodeId>(request.shape.n - 1);
  if (request.promote.has_value())
    return {std::clamp<NodeId>(static_cast<NodeId>(n * *request.promote), 1, most)};
  std::vector<NodeId> counts;
  for (double count = 1; count <= kMostPromoted * n;
       count *= count < kFewestPromoted * n ? 1.3 : kRateStep) {
    const auto whole = std::min(static_cast<NodeId>(count), most);
    if (counts.empty() || counts.back() != whole) counts.push_back(whole);
  }
  return counts;
}

std::vector<PlanStructure> Structures(const PlanRequest& request) {
  if (request.finished.has_value()) return {*request.finished};
  std::vector<PlanStructure> structures;
  const double few =
      kFewestCentroids *
      static_cast<double>(request.shape.n);  // nobody has counted the reads with fewer centroids
  for (const NodeId n1 : PromotedCounts(request)) {
    for (const std::uint32_t bits : {0u, 1u, 2u, 4u}) {
      if (request.bits.has_value() ? bits != *request.bits
                                   : bits > 0 && n1 < few && !request.promote.has_value())
        continue;
      for (std::uint32_t replicas = 1; replicas <= 2; ++replicas) {
        if (request.replicas.has_value() && bits > 0 ? replicas != *request.replicas
                                                     : bits == 0 && replicas == 2)
          continue;
        if (n1 >= replicas) structures.push_back({n1, bits, replicas});
      }
    }
  }
  return structures;
}

absl::Status TooSmall(const PlanRequest& request, std::uint64_t least) {
  std::uint64_t smallest = least + ReservedFastBytes(0, request.threads);
  while (least + ReservedFastBytes(smallest, request.threads) > smallest)
    smallest = least + ReservedFastBytes(smallest, request.threads);
  return absl::ResourceExhaustedError(
      absl::StrCat("--fast-memory ", request.fast_bytes,
                   " is too small: what must lie there and the scratch of ", request.threads,
                   " search threads need ", smallest, " bytes (", FormatSize(smallest), ")"));
}

}  // namespace

absl::StatusOr<PlacementPlan> PlanPlacement(const PlanRequest& request) {
  HMANN_ASSIGN_OR_RETURN(const Planner planner, Planner::Make(request));
  std::optional<PlacementPlan> best;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  KnapsackWork work;
  const TierBytes budget{request.fast_bytes - std::min(request.fast_bytes, planner.reserve()),
                         request.middle_bytes};
  for (const PlanStructure& structure : Structures(request)) {
    for (const bool block : {true, false}) {
      if (block && !planner.slow().is_block) continue;
      HMANN_ASSIGN_OR_RETURN(Planner::Candidate candidate, planner.CandidateOf(structure, block));
      least = std::min(least, candidate.upper_bytes);
      if (candidate.upper_bytes > std::max(budget.fast, budget.middle)) continue;
      planner.AddChoices(candidate, block);
      const std::optional<KnapsackSolution> solution =
          SolveKnapsack(candidate.groups, budget, &work);
      if (!solution.has_value() ||
          (best.has_value() && solution->cost / 1000 >= best->predicted_us))
        continue;
      const Planner::Candidate::L0Choice& l0 = candidate.l0_choices[solution->chosen[1]];
      best = planner.PlanOf(candidate, *candidate.upper_choices[solution->chosen[0]], *l0.tier,
                            l0.cached_share, planner.Hits(candidate, l0.cached_share));
    }
  }
  if (!best.has_value() || request.fast_bytes < planner.reserve()) return TooSmall(request, least);
  best->work = work;
  return *std::move(best);
}

absl::StatusOr<PlacementPlan> PlanAgainst(
    const PlanRequest& request,
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
  HMANN_ASSIGN_OR_RETURN(structure.n1,
                         LargestN1(FastShapeOf(header), request.fast_bytes, request.threads));
  while (structure.n1 > 1) {  // in whole pages a little less fits
    HMANN_ASSIGN_OR_RETURN(const Planner::Candidate candidate,
                           planner.CandidateOf(structure, planner.slow().is_block));
    if (candidate.upper_bytes + planner.reserve() <= request.fast_bytes) break;
    structure.n1 -= 1 + structure.n1 / 200;
  }
  if (rule == HandRule::kFirstTouch) {
    structure.n1 =
        std::clamp<NodeId>(static_cast<NodeId>(request.shape.n / request.shape.m), 1, structure.n1);
  }
  HMANN_ASSIGN_OR_RETURN(const Planner::Candidate candidate,
                         planner.CandidateOf(structure, planner.slow().is_block));
  double share = 0;
  if (rule == HandRule::kFirstTouch) {
    const std::uint64_t left =
        request.fast_bytes -
        std::min(request.fast_bytes, planner.reserve() + candidate.upper_bytes);
    share = std::min(1.0,
                     static_cast<double>(left) / static_cast<double>(candidate.lines.back().bytes));
  }
  PlacementPlan plan = planner.PlanOf(candidate, planner.fast(), planner.slow(), 0, share);
  plan.cached_share = share;
  plan.used.fast +=
      static_cast<std::uint64_t>(share * static_cast<double>(candidate.lines.back().bytes));
  return plan;
}

absl::StatusOr<DeviceProfile> ProfileToPlanWith(const std::string& path,
                                                std::vector<std::string>& warnings) {
  if (path.empty()) return DefaultProfile();
  HMANN_ASSIGN_OR_RETURN(DeviceProfile profile, ReadProfile(path));
  if (const std::string difference = MachineDifference(profile.machine, ThisMachine());
      !difference.empty()) {
    warnings.push_back(absl::StrCat(path, " is of another machine (", difference,
                                    "): its times may not hold here"));
  }
  return profile;
}

PlanBesideRules CompareWithRules(PlanRequest request, std::uint64_t fast_bytes,
                                 std::uint64_t middle_bytes) {
  request.fast_bytes = fast_bytes;
  request.middle_bytes = middle_bytes;
  const auto or_nothing = [](absl::StatusOr<PlacementPlan> plan) {
    return plan.ok() ? std::optional<PlacementPlan>(*std::move(plan)) : std::nullopt;
  };
  return {fast_bytes, middle_bytes, or_nothing(PlanPlacement(request)),
          or_nothing(PlanByHand(request, HandRule::kUpperLayersFirst)),
          or_nothing(PlanByHand(request, HandRule::kFirstTouch))};
}

}  // namespace hmann
