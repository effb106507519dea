#include "eval/tier_contest.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/own_contestants.h"
#include "index/base/status_macros.h"
#include "index/tiers/emulation.h"

namespace hmann {
namespace {

constexpr const char* kNoLatency = "lat=0ns";

std::string Label(const EmulationSpec& spec) {
  std::string label = absl::StrCat("emulated +", spec.latency_ns, " ns");
  if (spec.bytes_per_second > 0)
    absl::StrAppend(
        &label, absl::StrFormat(", %.3g GB/s", static_cast<double>(spec.bytes_per_second) / 1e9));
  return label;
}

/// One way of running something, before it is known on which memory.
struct Way {
  std::string name;  ///< of the row, but for the memory
  Json match;        ///< of its settings
  std::string kind = "emulated";
};

std::vector<Way> WaysOfHmann(const std::vector<std::string>& prefetch) {
  std::vector<Way> ways;
  for (const std::string& mode : prefetch) {
    for (const char* walk : {"quantised", "best-first", "multi-start"}) {
      const std::string suffix = mode == "ahead" ? ""
                                 : mode == "off" ? ", no prefetch"
                                                 : absl::StrCat(", prefetch ", mode);
      ways.push_back({absl::StrCat("hmann ", walk, suffix), {{"walk", walk}, {"prefetch", mode}}});
    }
  }
  return ways;
}

Way WayOfHnsw(const std::string& name, const char* placement, const char* ahead,
              const char* kind = "emulated", double fast_share = 0) {
  Way way = {name, {{"placement", placement}, {"ahead", ahead}}, kind};
  if (fast_share > 0) way.match["fast_share"] = fast_share;
  return way;
}

std::vector<Way> WaysOfHnsw(double fast_share) {
  const std::string share = absl::StrFormat("%.3g %%", 100 * fast_share);
  const auto model = [&](const std::string& name, const char* placement) {
    return WayOfHnsw(absl::StrCat(name, ", model"), placement, "own", "model", fast_share);
  };
  return {
      WayOfHnsw("HNSW all slow", "slow", "own"),
      WayOfHnsw("HNSW all slow, neighbours fetched at once", "slow", "neighbours"),
      WayOfHnsw("HNSW fast upper layers", "fast-upper", "own"),
      WayOfHnsw("HNSW fast upper layers, neighbours fetched at once", "fast-upper", "neighbours"),
      model(absl::StrCat("Memory Mode ", share), "memory-mode"),
      model(absl::StrCat("Memory Mode ", share, ", fully associative"), "memory-mode-lru"),
      model(absl::StrCat("first-touch ", share, " in load order"), "first-touch"),
      model(absl::StrCat("first-touch ", share, " in query order"), "first-touch-queries")};
}

Json With(Json setting, const Json& more) {
  setting.update(more);
  return setting;
}

/// A setting for each width and way: ways together, so that they take turns within a
/// round.
Json Ladder(const std::vector<int>& widths, const std::vector<Json>& ways) {
  Json settings = Json::array();
  for (const int width : widths) {
    for (const Json& way : ways) {
      Json dials = {{"ef", width}};
      if (way.contains("walk")) {
        dials = way["walk"] == "best-first"  ? Json{{"ef_l1", 4}, {"ef_l0", width}}
                : way["walk"] == "quantised" ? Json{{"ef_l1", 16}, {"ef_l0", width}, {"nprobe", 0}}
                                             : Json{{"ef_l1", width}, {"ef_l0", 1}};
      }
      settings.push_back(With(way, dials));
    }
  }
  return settings;
}

std::vector<Json> Matches(const std::vector<Way>& ways) {
  std::vector<Json> matches;
  for (const Way& way : ways) matches.push_back(way.match);
  return matches;
}

/// hmann's programs: in DRAM, on the slow tier, on the slow tier again, on one that adds
/// nothing.
absl::Status AddHmann(const TierContest& contest, TierPlan* plan) {
  const std::vector<Way> ways = WaysOfHmann(contest.prefetch), plain = WaysOfHmann({"ahead"});
  const bool helped = std::find(contest.prefetch.begin(), contest.prefetch.end(), "helper") !=
                      contest.prefetch.end();
  const auto add = [&](const std::string& name, const std::string& slow,
                       const std::vector<Way>& its) -> absl::Status {
    Json build = {
        {"promote", contest.promote}, {"seed", contest.seed}, {"fast", "dram"}, {"slow", slow}};
    if (helped) build["helper_threads"] = 1;
    HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, OwnContestant("hmann", build));
    spec.name = name;
    spec.settings = Ladder(contest.widths, Matches(its));
    plan->programs.push_back(std::move(spec));
    return absl::OkStatus();
  };
  HMANN_RETURN_IF_ERROR(add("hmann in DRAM", "dram", plain));
  HMANN_RETURN_IF_ERROR(add("hmann", absl::StrCat("emulated:", contest.emulated), ways));
  HMANN_RETURN_IF_ERROR(
      add("hmann again", absl::StrCat("emulated:", contest.emulated), {plain[0]}));
  HMANN_RETURN_IF_ERROR(add("hmann at +0 ns", absl::StrCat("emulated:", kNoLatency), ways));
  for (const Way& way : plain)
    plan->rows.push_back({absl::StrCat(way.name, ", all DRAM"), "hmann in DRAM", way.match,
                          "measured", "", "", false});
  for (const Way& way : ways) {
    const std::string dram =
        absl::StrCat("hmann ", way.match["walk"].get<std::string>(), ", all DRAM");
    const std::string zero = absl::StrCat(way.name, ", emulated +0 ns"),
                      name = absl::StrCat(way.name, ", ", plan->label);
    plan->rows.push_back({name, "hmann", way.match, way.kind, dram, zero, false});
    plan->rows.push_back({zero, "hmann at +0 ns", way.match, way.kind, dram, "", true});
  }
  plan->own = absl::StrCat(plain[0].name, ", ", plan->label);
  plan->own_again = absl::StrCat(plan->own, ", again");
  plan->rows.push_back({plan->own_again, "hmann again", plain[0].match, "emulated",
                        absl::StrCat(plain[0].name, ", all DRAM"), "", true});
  return absl::OkStatus();
}

/// One program with one index for all of them.
absl::Status AddHnsw(const TierContest& contest, TierPlan* plan) {
  HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, OwnContestant("hnsw-tiers", Json::object()));
  spec.name = "HNSW";
  const Way dram = WayOfHnsw("HNSW, all DRAM", "dram", "own");
  std::vector<Json> all = {dram.match};
  plan->rows.push_back({dram.name, spec.name, dram.match, "measured", "", "", false});
  for (const Way& way : WaysOfHnsw(contest.fast_share)) {
    const Json slow = With(way.match, {{"emulated", contest.emulated}}),
               none = With(way.match, {{"emulated", kNoLatency}});
    all.push_back(slow);
    all.push_back(none);
    const std::string zero = absl::StrCat(way.name, ", emulated +0 ns");
    plan->rows.push_back({absl::StrCat(way.name, ", ", plan->label), spec.name, slow, way.kind,
                          dram.name, zero, false});
    plan->rows.push_back({zero, spec.name, none, way.kind, dram.name, "", true});
  }
  spec.settings = Ladder(contest.widths, all);
  plan->programs.push_back(std::move(spec));
  plan->reference = absl::StrCat("HNSW all slow, ", plan->label);
  return absl::OkStatus();
}

}  // namespace

absl::Status TierContest::Validate() const {
  HMANN_ASSIGN_OR_RETURN(const EmulationSpec spec, EmulationSpec::Parse(emulated));
  if (spec.latency_ns == 0)
    return absl::InvalidArgumentError(
        "emulated: expected a latency above 0: +0 ns runs beside it anyway");
  HMANN_RETURN_IF_ERROR(CheckWidths(widths));
  if (std::find(prefetch.begin(), prefetch.end(), "ahead") == prefetch.end()) {
    return absl::InvalidArgumentError(
        "prefetch: expected 'ahead' among them, which is what the others are held against");
  }
  return absl::OkStatus();
}

absl::StatusOr<TierPlan> PlanTiers(const TierContest& contest) {
  HMANN_RETURN_IF_ERROR(contest.Validate());
  HMANN_ASSIGN_OR_RETURN(const EmulationSpec spec, EmulationSpec::Parse(contest.emulated));
  TierPlan plan;
  plan.emulated = spec.ToString();
  plan.label = Label(spec);
  HMANN_RETURN_IF_ERROR(AddHmann(contest, &plan));
  HMANN_RETURN_IF_ERROR(AddHnsw(contest, &plan));
  return plan;
}

SweepResult AsTierRows(const SweepResult& result, const TierPlan& plan) {
  SweepResult rows = result;
  rows.runs.clear();
  rows.reading.reference = plan.reference;
  for (const TierRow& row : plan.rows) {
    for (const ContestantRuns& runs : result.runs) {
      if (runs.name == row.program) rows.runs.push_back(Filter(runs, row.name, row.match));
    }
  }
  return rows;
}

}  // namespace hmann
