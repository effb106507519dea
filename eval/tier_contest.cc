#include "eval/tier_contest.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/own_contestants.h"
#include "eval/scale_structure.h"
#include "index/base/file.h"
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

std::string InFlight(int queries) {
  return queries == 1 ? "" : absl::StrCat(", ", queries, " in flight");
}

using Walks = std::span<const char* const>;
constexpr const char* kWalks[] = {"quantised", "best-first", "multi-start"};
constexpr Walks kAllWalks(kWalks), kCodedWalks = kAllWalks.first(1),
                                   kExactWalks = kAllWalks.subspan(1);

std::vector<Way> WaysOfHmann(const std::vector<std::string>& prefetch, Walks walks,
                             const std::string& of, int in_flight) {
  std::vector<Way> ways;
  for (const std::string& mode : prefetch) {
    for (const char* walk : walks) {
      const std::string suffix = mode == "ahead" ? ""
                                 : mode == "off" ? ", no prefetch"
                                                 : absl::StrCat(", prefetch ", mode);
      ways.push_back({absl::StrCat("hmann ", walk, suffix, of, InFlight(in_flight)),
                      {{"walk", walk}, {"prefetch", mode}, {"in_flight", in_flight}}});
    }
  }
  return ways;
}

/// Those of HNSW that have so many bytes as DRAM, or, of 0, take what they need.
std::vector<Way> WaysOfHnsw(std::uint64_t bytes, const std::string& of, int in_flight) {
  std::vector<Way> ways;
  const auto add = [&](const char* name, const char* placement, const char* ahead) {
    Json match = {{"placement", placement}, {"ahead", ahead}, {"in_flight", in_flight}};
    if (bytes > 0) match["fast_bytes"] = bytes;
    ways.push_back({absl::StrCat(name, of, bytes > 0 ? ", model" : "", InFlight(in_flight)),
                    std::move(match), bytes > 0 ? "model" : "emulated"});
  };
  if (bytes == 0) {
    add("HNSW all slow", "slow", "own");
    add("HNSW all slow, neighbours fetched at once", "slow", "neighbours");
    add("HNSW fast upper layers", "fast-upper", "own");
    add("HNSW fast upper layers, neighbours fetched at once", "fast-upper", "neighbours");
    return ways;
  }
  add("Memory Mode", "memory-mode", "own");
  add("Memory Mode, fully associative", "memory-mode-lru", "own");
  add("first-touch in load order", "first-touch", "own");
  add("first-touch in query order", "first-touch-queries", "own");
  return ways;
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
  matches.reserve(ways.size());
  for (const Way& way : ways) matches.push_back(way.match);
  return matches;
}

std::string Bytes(double bytes) { return absl::StrFormat(", %g B", bytes); }

/// The line-up while it is made.
class Lineup {
 public:
  Lineup(const TierContest& contest, TierPlan* plan) : contest_(contest), plan_(*plan) {}

  /// hmann's programs for so many bytes: of the planner's structure and, where that has
  /// no codes, of the best that has, for the quantised walk.
  absl::Status AddHmann(const PlanShape& shape, double bytes, bool again) {
    const std::string slow = absl::StrCat("emulated:", contest_.emulated);
    HMANN_ASSIGN_OR_RETURN(const PlacementPlan plan, PlanForBytes(shape, slow, bytes));
    const bool codes = plan.structure.bits > 0;
    HMANN_RETURN_IF_ERROR(
        AddStructure(shape, plan, Bytes(bytes), codes ? kAllWalks : kExactWalks, again));
    if (codes) return absl::OkStatus();
    HMANN_ASSIGN_OR_RETURN(const std::optional<PlacementPlan> coded,
                           PlanCodesForBytes(shape, slow, bytes));
    if (!coded.has_value()) return absl::OkStatus();
    return AddStructure(shape, *coded,
                        absl::StrCat(Bytes(bytes), ", ", coded->structure.bits, " bits"),
                        kCodedWalks, false);
  }

  /// One program with one index for all of them.
  absl::Status AddHnsw(const PlanShape& shape) {
    HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, OwnContestant("hnsw-tiers", Json::object()));
    spec.name = "HNSW";
    std::vector<Json> all;
    for (const int queries : contest_.in_flight) {
      const std::string dram = absl::StrCat("HNSW, all DRAM", InFlight(queries));
      all.push_back({{"placement", "dram"}, {"ahead", "own"}, {"in_flight", queries}});
      AddRow(dram, spec.name, all.back(), "measured", "", "");
      std::vector<Way> ways = WaysOfHnsw(0, "", queries);
      for (const double bytes : contest_.fast_bytes) {
        const auto total = static_cast<std::uint64_t>(bytes * static_cast<double>(shape.n));
        for (Way& way : WaysOfHnsw(total, Bytes(bytes), queries)) ways.push_back(std::move(way));
      }
      for (const Way& way : ways) {
        const Json slow = With(way.match, {{"emulated", contest_.emulated}}),
                   none = With(way.match, {{"emulated", kNoLatency}});
        all.push_back(slow);
        all.push_back(none);
        const std::string zero = absl::StrCat(way.name, ", emulated +0 ns");
        AddRow(Slow(way.name), spec.name, slow, way.kind, dram, zero);
        AddRow(zero, spec.name, none, way.kind, dram, "");
        plan_.rows.back().aside = true;
      }
    }
    spec.settings = Ladder(contest_.widths, all);
    plan_.programs.push_back(std::move(spec));
    return absl::OkStatus();
  }

 private:
  /// hmann's programs of one structure: in DRAM, on the slow tier, on one that adds
  /// nothing; over hnswlib's graph on the slow tier alone.
  absl::Status AddStructure(const PlanShape& shape, const PlacementPlan& plan,
                            const std::string& of, Walks walks, bool again) {
    const std::string slow = absl::StrCat("emulated:", contest_.emulated);
    Json structure = BuildSettingsOf(shape, plan);
    structure["seed"] = contest_.seed;
    const std::vector<Way> ways = Ways(contest_.prefetch, walks, of),
                           plain = Ways({"ahead"}, walks, of);
    const std::string dram = absl::StrCat("hmann", of, " in DRAM"),
                      name = absl::StrCat("hmann", of), zero = absl::StrCat(name, " at +0 ns");
    HMANN_RETURN_IF_ERROR(Add(dram, "dram", structure, plain));
    const Json cached = With(structure, CacheSettingsOf(plan));
    HMANN_RETURN_IF_ERROR(Add(name, slow, cached, ways));
    HMANN_RETURN_IF_ERROR(Add(zero, absl::StrCat("emulated:", kNoLatency), cached, ways));
    for (const Way& way : plain) AddRow(AllDram(way.name), dram, way.match, "measured", "", "");
    for (const Way& way : ways) AddSlow(way, name, zero, of);
    if (!contest_.rival_graph.empty()) {
      const std::string theirs = absl::StrCat(of, ", hnswlib's graph");
      const std::vector<Way> over = Ways({"ahead"}, walks, theirs);
      HMANN_RETURN_IF_ERROR(Add(absl::StrCat("hmann", theirs), slow,
                                With(cached, {{"from_hnswlib", contest_.rival_graph}}), over));
      for (const Way& way : over)
        AddRow(Slow(way.name), absl::StrCat("hmann", theirs), way.match, way.kind, "", "");
    }
    if (!again) return absl::OkStatus();
    plan_.own = Slow(plain[0].name);
    plan_.own_again = absl::StrCat(plan_.own, ", again");
    HMANN_RETURN_IF_ERROR(Add(absl::StrCat(name, " again"), slow, cached, {plain[0]}));
    AddRow(plan_.own_again, absl::StrCat(name, " again"), plain[0].match, "emulated",
           AllDram(plain[0].name), "");
    plan_.rows.back().aside = true;
    return absl::OkStatus();
  }

  std::string Slow(const std::string& way) const { return absl::StrCat(way, ", ", plan_.label); }
  static std::string AllDram(const std::string& way) { return absl::StrCat(way, ", all DRAM"); }

  std::vector<Way> Ways(const std::vector<std::string>& prefetch, Walks walks,
                        const std::string& of) const {
    std::vector<Way> ways;
    for (const int queries : contest_.in_flight) {
      for (Way& way : WaysOfHmann(prefetch, walks, of, queries)) ways.push_back(std::move(way));
    }
    return ways;
  }

  absl::Status Add(const std::string& name, const std::string& slow, const Json& build,
                   const std::vector<Way>& ways) {
    Json own = With(build, {{"fast", "dram"}, {"slow", slow}});
    const bool helped = std::find(contest_.prefetch.begin(), contest_.prefetch.end(), "helper") !=
                        contest_.prefetch.end();
    if (helped) own["helper_threads"] = 1;
    if (slow == "dram") {
      own.erase("cache");
      own.erase("cache_bytes");
    }
    HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, OwnContestant("hmann", own));
    spec.name = name;
    spec.settings = Ladder(contest_.widths, Matches(ways));
    plan_.programs.push_back(std::move(spec));
    return absl::OkStatus();
  }

  /// A row that stands in the table.
  void AddRow(const std::string& name, const std::string& program, const Json& match,
              const std::string& kind, const std::string& all_dram, const std::string& zero) {
    const std::string rival =
        Slow(absl::StrCat("HNSW all slow", InFlight(match["in_flight"].get<int>())));
    plan_.rows.push_back({name, program, match, kind, rival, all_dram, zero, false});
  }

  /// The row on the slow tier, and the one at +0 ns.
  void AddSlow(const Way& way, const std::string& program, const std::string& zero_program,
               const std::string& of) {
    const std::string dram = AllDram(absl::StrCat("hmann ", way.match["walk"].get<std::string>(),
                                                  of, InFlight(way.match["in_flight"].get<int>())));
    const std::string zero = absl::StrCat(way.name, ", emulated +0 ns");
    AddRow(Slow(way.name), program, way.match, way.kind, dram, zero);
    AddRow(zero, zero_program, way.match, way.kind, dram, "");
    plan_.rows.back().aside = true;
  }

  const TierContest& contest_;
  TierPlan& plan_;
};

}  // namespace

absl::Status TierContest::Validate() const {
  HMANN_ASSIGN_OR_RETURN(const EmulationSpec spec, EmulationSpec::Parse(emulated));
  if (spec.latency_ns == 0)
    return absl::InvalidArgumentError(
        "emulated: expected a latency above 0: +0 ns runs beside it anyway");
  HMANN_RETURN_IF_ERROR(CheckWidths(widths));
  if (fast_bytes.empty() || *std::min_element(fast_bytes.begin(), fast_bytes.end()) <= 0)
    return absl::InvalidArgumentError("fast bytes: expected at least one number above 0");
  if (in_flight.empty() || *std::min_element(in_flight.begin(), in_flight.end()) < 1)
    return absl::InvalidArgumentError("in flight: expected at least one number, from 1 on");
  if (std::find(prefetch.begin(), prefetch.end(), "ahead") == prefetch.end()) {
    return absl::InvalidArgumentError(
        "prefetch: expected 'ahead' among them, which is what the others are held against");
  }
  return absl::OkStatus();
}

absl::StatusOr<TierPlan> PlanTiers(const TierContest& contest, const PlanShape& shape) {
  HMANN_RETURN_IF_ERROR(contest.Validate());
  HMANN_ASSIGN_OR_RETURN(const EmulationSpec spec, EmulationSpec::Parse(contest.emulated));
  TierPlan plan;
  plan.emulated = spec.ToString();
  plan.label = Label(spec);
  plan.reference = absl::StrCat("HNSW all slow", InFlight(contest.in_flight[0]), ", ", plan.label);
  Lineup lineup(contest, &plan);
  for (const double bytes : contest.fast_bytes)
    HMANN_RETURN_IF_ERROR(lineup.AddHmann(shape, bytes, bytes == contest.fast_bytes.back()));
  HMANN_RETURN_IF_ERROR(lineup.AddHnsw(shape));
  return plan;
}

absl::StatusOr<std::string> BuildRivalGraph(const ContestantJob& job) {
  std::error_code error;
  std::filesystem::create_directories(job.folder, error);
  if (error) return ErrnoError(error.value(), "mkdir", job.folder);
  HMANN_ASSIGN_OR_RETURN(const ContestantSpec spec, OwnContestant("hnsw-tiers", Json::object()));
  HMANN_ASSIGN_OR_RETURN(Contestant rival, Contestant::Start(spec, job));
  const std::string graph = rival.ready().index_file;
  HMANN_RETURN_IF_ERROR(rival.Stop());
  return graph;
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
