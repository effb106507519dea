#include "hmann/tuned_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "index/base/file.h"
#include "index/base/json_reader.h"
#include "index/base/parse_json.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"
#include "index/params/params_json.h"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;
using Reader = JsonReader<Json>;

constexpr int kVersion = 3;
constexpr const char* kFormat = "hmann tuned table";
constexpr std::uint64_t kMostBytes = 16u << 20;
constexpr std::size_t kMostEntries = 1000, kMostSettings = 10000;

/// Rounds a measurement: six digits exceed its precision. ResolvedParams are stored
/// exactly.
double Rounded(double value) { return RoundToDigits(value, 6); }

/// A measured figure, stored next to the parameters.
struct Figure {
  const char* name;
  double TunedSetting::*value;
  double most;
};
constexpr Figure kFigures[] = {
    {"recall", &TunedSetting::recall, 1},         {"recall_low", &TunedSetting::recall_low, 1},
    {"recall_p05", &TunedSetting::recall_p05, 1}, {"mean_us", &TunedSetting::mean_us, 1e12},
    {"p95_us", &TunedSetting::p95_us, 1e12},      {"p99_us", &TunedSetting::p99_us, 1e12}};

Json ToJson(const TunedSetting& setting) {
  Json json = hmann::ToJson(setting.params);
  for (const Figure& figure : kFigures) json[figure.name] = Rounded(setting.*figure.value);
  return json;
}

Json ToJson(const TunedEntry& entry) {
  Json settings = Json::array();
  for (const TunedSetting& setting : entry.settings) settings.push_back(ToJson(setting));
  Json json = {{"fast", entry.placement.fast},
               {"slow", entry.placement.slow},
               {"cache", entry.placement.cache},
               {"k", entry.k},
               {"queries", entry.queries},
               {"origin", entry.origin},
               {"cpu", entry.cpu},
               {"simd", entry.simd}};
  if (entry.of_shards > 1) json["of_shards"] = entry.of_shards;
  if (entry.in_flight > 0) {
    json["in_flight"] = entry.in_flight;
    json["in_flight_gain"] = Rounded(entry.in_flight_gain);
  }
  json["settings"] = std::move(settings);
  return json;
}

void ReadSetting(Reader& in, std::uint32_t k, std::uint64_t n, TunedSetting& setting) {
  for (const Figure& figure : kFigures)
    in.Number(figure.name, 0, figure.most, &(setting.*figure.value));
  if (!in.ok()) return;
  SearchParams options{.k = k};
  absl::Status valid = ParamsFromJson(in.object(), &options);
  if (valid.ok()) valid = options.Validate(n);
  setting.params.k = k;
  setting.params.mode = options.mode.value_or(setting.params.mode);
  for (const ParamInfo& param : ParamTable()) {
    const std::optional<double> value = param.requested(options);
    if (value.has_value()) param.set(setting.params, *value);
    // Parameters that are only sometimes in force may be absent; the others may not.
    const bool needed =
        param.modes.Contains(setting.params.mode) && param.running(ResolvedParams()).has_value();
    if (needed && !value.has_value()) {
      valid.Update(InvalidArgument(std::string(param.name),
                                   ": expected a parameter of this mode, found nothing"));
    }
  }
  if (!valid.ok()) in.Reject(valid.message());
}

void ReadEntry(Reader& in, std::uint64_t n, TunedEntry& entry) {
  in.Text("fast", &entry.placement.fast);
  in.Text("slow", &entry.placement.slow);
  in.Text("cache", &entry.placement.cache);
  in.Whole("k", 1, kMaxEf, &entry.k);
  if (in.Has("of_shards")) in.Whole("of_shards", 1, 1u << 31, &entry.of_shards);
  in.Whole("queries", 1, 1'000'000'000'000'000, &entry.queries);
  in.Text("origin", &entry.origin);
  in.Text("cpu", &entry.cpu);
  in.Text("simd", &entry.simd);
  if (in.Has("in_flight")) {
    in.Whole("in_flight", 1, kMostInFlight, &entry.in_flight);
    in.Number("in_flight_gain", 0, 1e6, &entry.in_flight_gain);
  }
  in.List("settings", 1, kMostSettings, [&](Reader& setting) {
    ReadSetting(setting, entry.k, n, entry.settings.emplace_back());
  });
}

/// The names of the modes in Calibration::Way.
constexpr SearchMode kCalibrated[] = {SearchMode::kGraph, SearchMode::kQuantized,
                                      SearchMode::kUpper, SearchMode::kScan};

Json ToJson(const Calibration& calibration) {
  Json curves = Json::array();
  for (const Calibration::Curve& curve : calibration.curves) {
    Json points = Json::array();
    for (const Calibration::Point& point : curve.points)
      points.push_back({{"ef_scale", Rounded(double{point.ef_scale})},
                        {"recall", Rounded(point.recall)},
                        {"distances", Rounded(point.distances)}});
    curves.push_back({{"mode", std::string(Name(curve.way.mode))},
                      {"cells", curve.way.cells ? 1 : 0},
                      {"scalar_bits", curve.way.scalar_bits},
                      {"k", curve.k},
                      {"queries", curve.queries},
                      {"points", std::move(points)}});
  }
  Json difficulties = Json::array();
  for (const Calibration::Difficulty& at : calibration.difficulties)
    difficulties.push_back({{"k", at.k},
                            {"typical_distance", Rounded(double{at.typical})},
                            {"epsilon_rise", Rounded(double{at.rise})}});
  Json json = {{"origin", calibration.origin}, {"curves", std::move(curves)}};
  if (!difficulties.empty()) json["difficulties"] = std::move(difficulties);
  return json;
}

void ReadCurve(Reader& in, Calibration::Curve& curve) {
  std::string mode;
  int cells = 0;
  in.Text("mode", &mode);
  in.Whole("cells", 0, 1, &cells);
  in.Whole("scalar_bits", 0, 8, &curve.way.scalar_bits);
  in.Whole("k", 1, kMaxEf, &curve.k);
  in.Whole("queries", 1, 1'000'000'000'000'000, &curve.queries);
  curve.way.cells = cells != 0;
  const auto* named = std::find_if(std::begin(kCalibrated), std::end(kCalibrated),
                                   [&](SearchMode kind) { return Name(kind) == mode; });
  if (named == std::end(kCalibrated))
    return in.Wrong("mode", "graph, quantized, upper or scan", mode);
  curve.way.mode = *named;
  in.List("points", 1, kMostSettings, [&](Reader& point) {
    const Calibration::Point before =
        curve.points.empty() ? Calibration::Point{.ef_scale = 0, .recall = 0} : curve.points.back();
    Calibration::Point& read = curve.points.emplace_back();
    point.Number("ef_scale", 1e-3f, 1e3f, &read.ef_scale);
    point.Number("recall", 0, 1, &read.recall);
    if (point.Has("distances")) point.Number("distances", 0, 1e15, &read.distances);
    if (!(read.ef_scale > before.ef_scale && read.recall >= before.recall))
      point.Reject("expected an ef_scale and a recall that rise");
  });
}

void ReadCalibration(Reader& in, Calibration& calibration) {
  in.Text("origin", &calibration.origin);
  in.List("curves", 1, kMostEntries,
          [&](Reader& curve) { ReadCurve(curve, calibration.curves.emplace_back()); });
  const auto apart = [](const Calibration::Curve& curve) { return std::tuple(curve.way, curve.k); };
  for (std::size_t i = 1; i < calibration.curves.size() && in.ok(); ++i) {
    if (!(apart(calibration.curves[i - 1]) < apart(calibration.curves[i])))
      in.Reject("expected its curves by mode, cells, scalar_bits and k");
  }
  if (!in.Has("difficulties")) return;
  in.List("difficulties", 1, kMostEntries, [&](Reader& read) {
    const std::uint32_t before =
        calibration.difficulties.empty() ? 0 : calibration.difficulties.back().k;
    Calibration::Difficulty& at = calibration.difficulties.emplace_back();
    read.Whole("k", before + 1, kMaxEf, &at.k);
    read.Number("typical_distance", 0, 1e30f, &at.typical);
    read.Number("epsilon_rise", 0, 1e30f, &at.rise);
  });
}

/// Whether two settings differ only in ef_scale. Then a setting between them can be run,
/// and its results lie between theirs.
bool DifferInEfScale(const ResolvedParams& a, const ResolvedParams& b) {
  return a.mode == b.mode && a.beam_width == b.beam_width && a.prefetch == b.prefetch &&
         a.query_threads == b.query_threads && a.epsilon.has_value() == b.epsilon.has_value() &&
         a.error_bound.has_value() == b.error_bound.has_value() &&
         (a.nprobe > 0) == (b.nprobe > 0) && (a.ef_l0 > 0) == (b.ef_l0 > 0);
}

/// ResolvedParams, times and recalls at `share` of the way from a to b: widths and times
/// on a logarithmic scale, recalls by their logits, and bounds on a linear scale, since
/// the logit of the recall rises linearly with epsilon (doc/notes/tuning.md).
TunedSetting Between(const TunedSetting& a, const TunedSetting& b, double share) {
  const auto geometric = [share](double x, double y) {
    return x <= 0 || y <= 0 ? x + share * (y - x) : x * std::pow(y / x, share);
  };
  TunedSetting between = a;
  for (auto param : {&ResolvedParams::ef_l1, &ResolvedParams::ef_l0, &ResolvedParams::nprobe})
    between.params.*param =
        static_cast<std::uint32_t>(std::ceil(geometric(a.params.*param, b.params.*param) - 1e-6));
  for (auto param : {&ResolvedParams::epsilon, &ResolvedParams::error_bound}) {
    if ((a.params.*param).has_value())
      between.params.*param =
          std::lerp(*(a.params.*param), *(b.params.*param), static_cast<float>(share));
  }
  for (auto time : {&TunedSetting::mean_us, &TunedSetting::p95_us, &TunedSetting::p99_us})
    between.*time = geometric(a.*time, b.*time);
  for (auto recall :
       {&TunedSetting::recall, &TunedSetting::recall_low, &TunedSetting::recall_p05}) {
    const double low = Logit(a.*recall), high = Logit(b.*recall);
    between.*recall = 1 / (1 + std::exp(-low - share * (high - low)));
  }
  return between;
}

/// A setting nearer to the target than `settings[place]`, the best measured one.
TunedSetting Closer(const std::vector<TunedSetting>& settings, std::size_t place,
                    const Target& target) {
  const TunedSetting& best = settings[place];
  const bool by_recall = target.recall > 0;
  if ((target.recall > 0) == (target.latency_us > 0)) return best;
  if (by_recall ? place == 0 : place + 1 == settings.size()) return best;
  const TunedSetting& other = settings[by_recall ? place - 1 : place + 1];
  if (!DifferInEfScale(best.params, other.params)) return best;
  const double share =
      by_recall
          ? (Logit(best.recall) - Logit(target.recall)) / (Logit(best.recall) - Logit(other.recall))
          : std::log(target.latency_us / (1 + kLatencyMargin) / best.mean_us) /
                std::log(other.mean_us / best.mean_us);
  if (!(share > 0 && share < 1)) return best;
  TunedSetting closer = Between(best, other, share);
  if (by_recall) closer.recall = std::max(closer.recall, target.recall);
  return closer.recall_low >= target.recall - RecallSlack(target.recall) ? closer : best;
}

std::string Describe(const TunedEntryKey& placement, std::uint32_t k) {
  return absl::StrCat("fast ", placement.fast, ", slow ", placement.slow, ", cache ",
                      placement.cache, ", k ", k);
}

}  // namespace

std::string TierWithoutPath(const std::string& tier) {
  for (const char* kind : {"mapped", "nvme", "dax"}) {
    if (tier.starts_with(absl::StrCat(kind, ":"))) return kind;
  }
  return tier;
}

std::string TunedPath(const std::string& index) {
  return absl::StrCat(FileToWrite(index).value_or(index), ".tuned");
}

const TunedEntry* TunedTable::Find(const TunedEntryKey& placement, std::uint32_t k) const {
  for (const TunedEntry& entry : entries) {
    if (entry.placement == placement && entry.k == k) return &entry;
  }
  return nullptr;
}

void TunedTable::Put(TunedEntry entry) {
  std::erase_if(entries, [&](const TunedEntry& old) {
    return old.placement == entry.placement && old.k == entry.k;
  });
  entries.push_back(std::move(entry));
}

absl::StatusOr<TunedSetting> TunedTable::Choose(const TunedEntryKey& placement, std::uint32_t k,
                                                const Target& target) const {
  const TunedEntry* entry = Find(placement, k);
  if (entry == nullptr) {
    const std::string tuned = absl::StrJoin(
        entries, "; ",
        [](std::string* out, const TunedEntry& one) { *out += Describe(one.placement, one.k); });
    const bool usual = placement == TunedEntryKey{"dram", "mapped", "none"};
    return NotFound("not tuned for ", usual ? absl::StrCat("k ", k) : Describe(placement, k),
                    entries.empty() ? "" : "; tuned: ", tuned,
                    ": run hmann tune INDEX --queries Q --k ", k, usual ? "" : " with these tiers");
  }
  std::vector<Offer> offers;
  offers.reserve(entry->settings.size());
  for (const TunedSetting& setting : entry->settings)
    offers.push_back({setting.mean_us, setting.recall, setting.recall_low});
  const BestOffer best = ChooseOffer(offers, target);
  const TunedSetting& setting = entry->settings[best.place];
  if (best.met) return Closer(entry->settings, best.place, target);
  std::string requested;
  if (target.recall > 0) absl::StrAppend(&requested, "recall ", target.recall);
  if (target.latency_us > 0)
    absl::StrAppend(&requested, requested.empty() ? "" : " and ", "latency ", target.latency_us,
                    "us");
  const std::string spare =
      target.latency_us > 0
          ? absl::StrFormat("; a latency is kept with %g %% to spare", 100 * kLatencyMargin)
          : "";
  return absl::OutOfRangeError(absl::StrFormat(
      "%s cannot be met at %s: the best is recall %.4f (at least %.4f) in %.1f us%s", requested,
      Describe(placement, k), setting.recall, setting.recall_low, setting.mean_us, spare));
}

absl::StatusOr<TunedTable> ReadTunedTable(const std::string& index, std::uint64_t content_hash,
                                          std::uint64_t n) {
  const std::string path = TunedPath(index);
  absl::StatusOr<std::string> text = ReadTextFile(path, kMostBytes);
  if (absl::IsNotFound(text.status()))
    return NotFound(path, ": the index is not tuned: run hmann tune ", index);
  HMANN_RETURN_IF_ERROR(text.status());
  const Json json = ParseJson<Json>(*text);
  if (json.is_discarded())
    return DataLoss(path, ": expected JSON, found what is none: run hmann tune again");
  absl::Status status;
  Reader reader(json, absl::StrCat(path, ": table."), absl::StatusCode::kDataLoss, &status);
  std::string format, hash;
  int version = 0;
  reader.Text("format", &format);
  reader.Whole("version", 1, 1'000'000, &version);
  reader.Text("content_hash", &hash);
  HMANN_RETURN_IF_ERROR(status);
  if (format != kFormat) reader.Wrong("format", kFormat, format);
  if (version != kVersion) {
    return Unimplemented(path, ": is version ", version, "; this program reads ", kVersion,
                         ": run hmann tune ", index);
  }
  TunedTable table;
  if (!absl::SimpleHexAtoi(hash, &table.content_hash))
    reader.Wrong("content_hash", "a hexadecimal number", hash);
  HMANN_RETURN_IF_ERROR(status);
  if (table.content_hash != content_hash) {
    return FailedPrecondition(absl::StrFormat(
        "%s: stale: it is of an index with content %016x, this one has %016x: run hmann tune %s",
        path, table.content_hash, content_hash, index));
  }
  reader.List("entries", 0, kMostEntries,
              [&](Reader& entry) { ReadEntry(entry, n, table.entries.emplace_back()); });
  if (reader.Has("calibration"))
    reader.Object("calibration",
                  [&](Reader& in) { ReadCalibration(in, table.calibration.emplace()); });
  HMANN_RETURN_IF_ERROR(status);
  return table;
}

absl::Status WriteTunedTable(const std::string& index, const TunedTable& table) {
  Json entries = Json::array();
  for (const TunedEntry& entry : table.entries) entries.push_back(ToJson(entry));
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"content_hash", absl::StrFormat("%016x", table.content_hash)},
               {"entries", std::move(entries)}};
  if (table.calibration.has_value()) json["calibration"] = ToJson(*table.calibration);
  return WriteTextFile(TunedPath(index), JsonText(json, 1) + "\n");
}

}  // namespace hmann
