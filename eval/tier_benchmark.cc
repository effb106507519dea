#include "eval/tier_benchmark.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/builtin_systems.h"
#include "eval/structure.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/tiers/emulation.h"

namespace hmann::eval {
namespace {

constexpr const char* kNoLatency = "lat=0ns";
constexpr const char* kReference = "HNSW all slow";

std::string Label(const EmulationSpec& spec) {
  std::string label = absl::StrCat(", emulated +", spec.latency_ns, " ns");
  if (spec.bytes_per_second > 0)
    absl::StrAppend(
        &label, absl::StrFormat(", %.3g GB/s", static_cast<double>(spec.bytes_per_second) / 1e9));
  return label;
}

std::string Bytes(double bytes) { return absl::StrFormat(", %g B", bytes); }

Json With(Json setting, const Json& more) {
  setting.update(more);
  return setting;
}

/// A setting for each width and curve. Settings of different curves alternate, so that
/// the curves take turns within a round.
Json Ladder(const std::vector<int>& widths, const std::vector<CurveSpec>& curves) {
  Json settings = Json::array();
  for (const int width : widths) {
    for (const CurveSpec& curve : curves) {
      Json params = {{"ef", width}};
      if (curve.match.contains("mode")) {
        const Json& mode = curve.match["mode"];
        params = mode == "graph"       ? Json{{"ef_l1", 4}, {"ef_l0", width}}
                 : mode == "quantized" ? Json{{"ef_l1", 16}, {"ef_l0", width}, {"nprobe", 0}}
                                       : Json{{"ef_l1", width}, {"ef_l0", 1}};
      }
      settings.push_back(With(curve.match, params));
    }
  }
  return settings;
}

/// The participants, while they are being added.
class Lineup {
 public:
  Lineup(const TierBenchmark& comparison, std::string label, Benchmark* benchmark)
      : comparison_(comparison), label_(std::move(label)), benchmark_(*benchmark) {}

  /// Adds hmann's programs for `bytes` per vector: one without codes, and one with the
  /// codes that fit, for the quantized mode. `again` adds the first one twice, to show
  /// noise.
  absl::Status AddHmann(const PlanShape& shape, double bytes, bool again) {
    HMANN_ASSIGN_OR_RETURN(const PlanStructure plain, StructureForBytes(shape, bytes, 0));
    HMANN_RETURN_IF_ERROR(
        AddStructure(BuildSettingsOf(shape, plain), Bytes(bytes), {"graph", "multi-start"}, again));
    const std::uint32_t bits = BitsForBytes(shape, bytes);
    if (bits == 0) return absl::OkStatus();
    HMANN_ASSIGN_OR_RETURN(const PlanStructure coded, StructureForBytes(shape, bytes, bits));
    return AddStructure(BuildSettingsOf(shape, coded),
                        absl::StrCat(Bytes(bytes), ", ", bits, bits == 1 ? " bit" : " bits"),
                        {"quantized"}, false);
  }

  /// Adds one program with one index for all HNSW curves.
  absl::Status AddHnsw(std::uint64_t n) {
    HMANN_ASSIGN_OR_RETURN(SystemSpec spec, BuiltinSystem("hnsw-tiers"));
    spec.name = "HNSW";
    spec.curves.push_back({dram_, {{"placement", "dram"}, {"ahead", "own"}}});
    AddPlacement("", "slow", "own", kReference, &spec);
    AddPlacement("", "slow", "neighbors", "HNSW all slow, neighbors fetched at once", &spec);
    AddPlacement("", "fast-upper", "own", "HNSW fast upper layers", &spec);
    AddPlacement("", "fast-upper", "neighbors", "HNSW fast upper layers, neighbors fetched at once",
                 &spec);
    for (const double bytes : comparison_.fast_bytes) {
      const auto total = static_cast<std::uint64_t>(bytes * static_cast<double>(n));
      for (const auto& [name, placement] : {std::pair("Memory Mode", "memory-mode"),
                                            {"Memory Mode, fully associative", "memory-mode-lru"},
                                            {"first-touch in load order", "first-touch"},
                                            {"first-touch in query order", "first-touch-queries"}})
        AddPlacement("model", placement, "own", absl::StrCat(name, Bytes(bytes), ", model"), &spec,
                     {{"fast_bytes", total}});
    }
    spec.settings = Ladder(comparison_.widths, spec.curves);
    benchmark_.systems.push_back(std::move(spec));
    return absl::OkStatus();
  }

 private:
  /// Adds a placement of HNSW on the slow tier, and at +0 ns.
  void AddPlacement(const std::string& kind, const char* placement, const char* ahead,
                    const std::string& name, SystemSpec* spec, const Json& more = Json::object()) {
    const Json match = With({{"placement", placement}, {"ahead", ahead}}, more);
    AddPair(name, kind.empty() ? "emulated" : kind, dram_,
            With(match, {{"emulated", comparison_.emulated}}),
            With(match, {{"emulated", kNoLatency}}), &spec->curves, &spec->curves);
  }

  void AddPair(const std::string& name, const std::string& kind, const std::string& dram,
               const Json& match, const Json& match_zero, std::vector<CurveSpec>* slow,
               std::vector<CurveSpec>* zero) {
    const std::string at_zero = name + ", emulated +0 ns",
                      reference = absl::StrCat(kReference, label_);
    slow->push_back({name + label_,
                     match,
                     kind,
                     false,
                     {{"reference", reference}, {"dram", dram}, {"zero", at_zero}}});
    zero->push_back({at_zero, match_zero, kind, true, {{"dram", dram}}});
  }

  /// Adds hmann's programs of one structure: in DRAM, on the slow tier, and on one that
  /// adds nothing. Over hnswlib's graph it adds only the slow tier.
  absl::Status AddStructure(const Json& structure, const std::string& of,
                            const std::vector<std::string>& modes, bool again) {
    std::vector<CurveSpec> in_dram, slow, zero, theirs, twice;
    for (const char* prefetch : {"ahead", "off"}) {
      const bool ahead = prefetch == std::string_view("ahead");
      for (const std::string& mode : modes) {
        const Json match = {{"mode", mode}, {"prefetch", prefetch}};
        const std::string name = absl::StrCat("hmann ", mode, ahead ? "" : ", no prefetch", of),
                          dram = absl::StrCat("hmann ", mode, of, ", all DRAM");
        AddPair(name, "emulated", dram, match, match, &slow, &zero);
        if (ahead) in_dram.push_back({dram, match});
        theirs.push_back({absl::StrCat(name, ", hnswlib's graph", label_),
                          match,
                          "emulated",
                          false,
                          {{"reference", absl::StrCat(kReference, label_)}}});
        if (ahead && twice.empty())
          twice.push_back({absl::StrCat(name, label_, ", again"),
                           match,
                           "emulated",
                           true,
                           {{"again", name + label_}}});
      }
    }
    const std::string name = "hmann" + of;
    const std::string tier = absl::StrCat("emulated:", comparison_.emulated);
    HMANN_RETURN_IF_ERROR(Add(name + " in DRAM", "dram", structure, in_dram));
    HMANN_RETURN_IF_ERROR(Add(name, tier, structure, slow));
    HMANN_RETURN_IF_ERROR(
        Add(name + " at +0 ns", absl::StrCat("emulated:", kNoLatency), structure, zero));
    if (again) HMANN_RETURN_IF_ERROR(Add(name + " again", tier, structure, twice));
    if (comparison_.baseline_graph.empty()) return absl::OkStatus();
    return Add(name + ", hnswlib's graph", tier,
               With(structure, {{"from_hnswlib", comparison_.baseline_graph}}), theirs);
  }

  absl::Status Add(const std::string& name, const std::string& slow, const Json& build,
                   const std::vector<CurveSpec>& curves) {
    HMANN_ASSIGN_OR_RETURN(SystemSpec spec, BuiltinSystem("hmann", With(build, {{"slow", slow}})));
    spec.name = name;
    spec.curves = curves;
    spec.settings = Ladder(comparison_.widths, curves);
    benchmark_.systems.push_back(std::move(spec));
    return absl::OkStatus();
  }

  const TierBenchmark& comparison_;
  std::string label_, dram_ = "HNSW, all DRAM";
  Benchmark& benchmark_;
};

}  // namespace

absl::Status AddTiers(const TierBenchmark& comparison, const PlanShape& shape,
                      Benchmark* benchmark) {
  HMANN_ASSIGN_OR_RETURN(const EmulationSpec spec, EmulationSpec::Parse(comparison.emulated));
  if (spec.latency_ns == 0)
    return InvalidArgument("emulated: expected a latency above 0: +0 ns always runs as well");
  benchmark->title = absl::StrCat("Two memories, the slow one emulated (", spec.ToString(), ")");
  benchmark->options["emulated"] = spec.ToString();
  benchmark->reference = absl::StrCat(kReference, Label(spec));
  if (benchmark->shapes.empty()) benchmark->shapes = AllShapes({1}, {1, 4});
  Lineup lineup(comparison, Label(spec), benchmark);
  for (const double bytes : comparison.fast_bytes)
    HMANN_RETURN_IF_ERROR(lineup.AddHmann(shape, bytes, bytes == comparison.fast_bytes.back()));
  HMANN_RETURN_IF_ERROR(lineup.AddHnsw(shape.n));
  for (SystemSpec& program : benchmark->systems) program.keeps_several = true;
  return absl::OkStatus();
}

absl::StatusOr<std::string> BuildBaselineGraph(const BenchmarkData& job) {
  HMANN_RETURN_IF_ERROR(MakeFolders(job.folder));
  HMANN_ASSIGN_OR_RETURN(const SystemSpec spec, BuiltinSystem("hnsw-tiers"));
  HMANN_ASSIGN_OR_RETURN(System baseline, System::Start(spec, job));
  const std::string graph = baseline.ready()["index_file"].get<std::string>();
  HMANN_RETURN_IF_ERROR(baseline.Stop());
  return graph;
}

}  // namespace hmann::eval
