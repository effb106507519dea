#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/columns.h"
#include "eval/results.h"
#include "eval/tier_contest.h"

namespace hmann {
namespace {

using FiguresByName = std::map<std::string, ContestantFigures>;

/// With ratios to `reference`.
FiguresByName ReadAgainst(const SweepResult& rows, const std::string& reference) {
  Reading reading = rows.reading;
  reading.reference = reference;
  FiguresByName figures;
  for (ContestantFigures& contestant : Read(rows.runs, reading))
    figures.emplace(contestant.name, std::move(contestant));
  return figures;
}

/// A counter that is the same at every setting; null where nobody counts it.
Json Constant(const ContestantFigures& contestant, const char* counter) {
  for (const PointFigures& point : contestant.points) {
    if (point.counters.is_object() && point.counters.contains(counter))
      return point.counters[counter];
  }
  return nullptr;
}

/// For the end of a curve: "hmann best-first (emulated)". A model says so in its name.
std::string ShortName(const TierRow& row, const std::string& label) {
  std::string name = row.name;
  const std::size_t at = name.find(absl::StrCat(", ", label));
  if (at == std::string::npos) return name;
  name.erase(at, label.size() + 2);
  return row.kind == "model" ? name : absl::StrCat(name, " (emulated)");
}

Json Noise(const FiguresByName& against_own, const std::string& again) {
  const auto found = against_own.find(again);
  return found == against_own.end() ? Json::array() : NoiseOf(found->second);
}

/// A row's own ratio, in the same round, to another.
class Pairs {
 public:
  explicit Pairs(const SweepResult& rows) : rows_(rows) {}

  /// nullptr without another.
  const TargetFigures* Of(const TierRow& row, const std::string& other, std::size_t target) {
    if (other.empty()) return nullptr;
    const auto [found, is_new] = against_.try_emplace(other);
    if (is_new) found->second = ReadAgainst(rows_, other);
    return &found->second.at(row.name).targets[target];
  }

 private:
  const SweepResult& rows_;
  std::map<std::string, FiguresByName> against_;
};

/// A line of the table at one target.
std::vector<std::string> Cells(const Json& row, std::size_t target, double n) {
  const Json& at = row["targets"][target];
  const auto number = [&](const char* key, double scale, int digits,
                          const char* unit) -> std::string {
    return at[key].is_null()
               ? ""
               : absl::StrFormat("%.*f%s", digits, scale * at[key].get<double>(), unit);
  };
  return {row["name"].get<std::string>(),
          row["fast_bytes"].is_null()
              ? ""
              : absl::StrFormat("%.1f", row["fast_bytes"].get<double>() / n),
          at["qps"].is_null() ? "not reached" : number("qps", 1, 0, ""),
          number("qps_mad", 1, 0, ""),
          number("ratio", 1, 2, ""),
          number("ratio_mad", 1, 2, ""),
          number("of_all_dram", 100, 1, " %"),
          number("without_latency", 1, 0, ""),
          number("of_without_latency", 100, 1, " %"),
          number("slow_reads", 1, 1, ""),
          number("slow_bytes", 1, 0, "")};
}

}  // namespace

Json TierFigures(const SweepResult& result, const TierPlan& plan) {
  const SweepResult rows = AsTierRows(result, plan);
  const FiguresByName against_slow = ReadAgainst(rows, plan.reference);
  Pairs pairs(rows);
  Json lines = Json::array();
  for (const TierRow& row : plan.rows) {
    if (row.aside) continue;
    const ContestantFigures& contestant = against_slow.at(row.name);
    Json targets = Json::array();
    for (std::size_t t = 0; t < contestant.targets.size(); ++t) {
      const TargetFigures& at = contestant.targets[t];
      const TargetFigures* of_dram = pairs.Of(row, row.all_dram, t);
      const TargetFigures* of_zero = pairs.Of(row, row.without_latency, t);
      const TargetFigures& of_rival = *pairs.Of(row, row.rival, t);
      const auto counter = [&](const char* name) {
        return OrNull(CounterAtRecall(contestant, name, at.target, rows.reading));
      };
      targets.push_back(
          {{"recall", at.target},
           {"qps", OrNull(at.qps)},
           {"qps_mad", OrNull(at.qps_mad)},
           {"ratio", OrNull(of_rival.ratio)},
           {"ratio_mad", OrNull(of_rival.ratio_mad)},
           {"of_all_dram", of_dram == nullptr ? Json(nullptr) : OrNull(of_dram->ratio)},
           {"of_all_dram_mad", of_dram == nullptr ? Json(nullptr) : OrNull(of_dram->ratio_mad)},
           {"without_latency", of_zero == nullptr
                                   ? Json(nullptr)
                                   : OrNull(against_slow.at(row.without_latency).targets[t].qps)},
           {"of_without_latency", of_zero == nullptr ? Json(nullptr) : OrNull(of_zero->ratio)},
           {"slow_reads", counter("slow_reads")},
           {"slow_bytes", counter("slow_bytes")}});
    }
    lines.push_back({{"name", row.name},
                     {"kind", row.kind},
                     {"fast_bytes", Constant(contestant, "fast_bytes")},
                     {"targets", targets}});
  }
  Json figures = ToJson(rows);
  figures["title"] = absl::StrCat("Two memories, the slow one emulated (", plan.emulated, ")");
  figures["noise"] = Noise(ReadAgainst(rows, plan.own), plan.own_again);
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    Json& contestant = figures["contestants"][i];
    contestant["program"] = plan.rows[i].program;
    contestant["kind"] = plan.rows[i].kind;
    contestant["aside"] = plan.rows[i].aside;
    contestant["label"] = ShortName(plan.rows[i], plan.label);
  }
  figures["tiers"] = {{"emulated", plan.emulated},
                      {"reference", plan.reference},
                      {"own", plan.own},
                      {"rows", lines}};
  return figures;
}

void PrintTierTables(const Json& figures, std::ostream& out) {
  const Json& tiers = figures["tiers"];
  out << DataLine(figures) << '\n';
  out << "emulated: " << tiers["emulated"].get<std::string>()
      << ", on top of this machine's DRAM\n";
  out << "x: times HNSW all slow with as many queries in flight; of DRAM: of the same search with "
         "all in DRAM\n";
  for (std::size_t t = 0; t < figures["targets"].size(); ++t) {
    std::vector<std::vector<std::string>> cells = {
        {absl::StrFormat("at recall %g", figures["targets"][t].get<double>()), "fast B a vector",
         "QPS", "+-", "x", "+-", "of DRAM", "QPS at +0 ns", "of that", "slow reads", "slow bytes"}};
    for (const Json& row : tiers["rows"])
      cells.push_back(Cells(row, t, figures["data"]["n"].get<double>()));
    PrintColumns(cells, 1, out);
  }
  PrintNoise(figures["noise"], out);
}

}  // namespace hmann
