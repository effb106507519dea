#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "eval/hardware_limit.h"
#include "eval/results.h"
#include "index/base/statistics.h"

namespace hmann::eval {
namespace {

constexpr double kBlockBytes = 4096;

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

/// The lines of one kind.
std::vector<const Json*> Of(const std::vector<Json>& lines, const char* kind) {
  std::vector<const Json*> found;
  for (const Json& line : lines)
    if (line["kind"] == kind) found.push_back(&line);
  return found;
}

double MostIops(const std::vector<const Json*>& devices) {
  double most = 0;
  for (const Json* device : devices)
    for (const Json& at : (*device)["depths"]) most = std::max(most, at["iops"].get<double>());
  return most;
}

/// Reads all curves, and finds the curves that they are compared with.
class Reader {
 public:
  explicit Reader(const std::vector<Json>& lines)
      : lines_(lines), head_(lines[0]), curves_(CurvesOf(lines)) {
    const Json& data = head_["data"];
    reading_ = {data.value("query_count", std::uint64_t{1}), data.value("k", 1u),
                head_.value("clock", "wall") == "cpu" ? RunClock::kCpu : RunClock::kWall};
    for (const Curve& curve : curves_) readers_.emplace_back(curve, reading_);
  }

  Json Systems() const {
    Json rows = Json::array();
    for (const CurveReader& reader : readers_) rows.push_back(Row(reader));
    return rows;
  }

  Json Noise() const {
    Json noise = Json::array();
    for (const CurveReader& reader : readers_) {
      const CurveReader* first = Beside(reader.curve(), "again");
      if (first == nullptr) continue;
      for (const Json& target : head_["targets"]) {
        const auto ratio = reader.RatioTo(*first, target.get<double>());
        if (!ratio) continue;
        noise.push_back({{"system", reader.curve().label},
                         {"recall", target},
                         {"ratio", ratio->median},
                         {"ratio_mad", ratio->mad}});
      }
    }
    return noise;
  }

 private:
  /// The curve that `curve` is compared with: over the same data, with as many threads,
  /// and with as many queries in flight or one at a time. nullptr: none.
  const CurveReader* Beside(const Curve& curve, const std::string& as) const {
    const Json& beside = curve.spec["beside"];
    const std::string name = beside.contains(as) ? beside[as].get<std::string>()
                             : as == "reference" ? head_.value("reference", std::string())
                                                 : "";
    const CurveReader* found = nullptr;
    for (const CurveReader& other : readers_) {
      const Curve& its = other.curve();
      if (its.name != name || its.system["data"] != curve.system["data"] ||
          its.shape.threads != curve.shape.threads)
        continue;
      if (its.shape.in_flight == curve.shape.in_flight) return &other;
      if (its.shape.in_flight == 1) found = &other;
    }
    return found;
  }

  /// The limit of memory or drive alone.
  std::optional<double> LimitQps(const CurveReader& reader, double target) const {
    const Curve& curve = reader.curve();
    const RunShape& shape = curve.shape;
    const Json& place = curve.system["place"];
    const std::string slow = place.value("slow", std::string());
    if (slow.starts_with("nvme")) {
      const auto reads = reader.ValueAt("io_reads", target), hops = reader.ValueAt("hops", target);
      for (const Json* device : Of(lines_, "device")) {
        if ((*device)["data"] != curve.system["data"] ||
            (*device)["system"] != curve.system.value("device", (*device)["system"]))
          continue;
        if (reads && hops)
          return DriveLimitQps((*device)["depths"], *reads, *hops, shape.threads * shape.in_flight);
      }
      return std::nullopt;
    }
    if (curve.system.value("waits", false) || curve.spec["kind"] != "measured") return std::nullopt;
    for (const Json* dram : Of(lines_, "dram")) {
      if ((*dram)["data"] != curve.system["data"]) continue;
      const auto one = MemoryLimitQps((*dram)["gathers"], reader.ValueAt("lines", target));
      if (one) return shape.threads * *one;
    }
    return std::nullopt;
  }

  Json Target(const CurveReader& reader, double target) const {
    const std::optional<TargetFigures> at = reader.At(target);
    const double qps = at ? at->qps.median : 0;
    Json reported = {{"recall", target},
                     {"qps", at ? Json(qps) : Json()},
                     {"qps_mad", at ? Json(at->qps.mad) : Json()},
                     {"at_recall", at ? Json(at->at_recall) : Json()}};
    for (const auto& [as, key] : {std::pair("reference", "ratio"),
                                  {"dram", "of_all_dram"},
                                  {"zero", "of_without_latency"}}) {
      const CurveReader* other = Beside(reader.curve(), as);
      const auto ratio = other == nullptr ? std::nullopt : reader.RatioTo(*other, target);
      reported[key] = ratio ? Json(ratio->median) : Json();
      reported[absl::StrCat(key, "_mad")] = ratio ? Json(ratio->mad) : Json();
    }
    for (const char* name : {"mean_us", "p99_us", "cpu_us", "distances", "estimates", "node_reads",
                             "node_bytes", "hops", "io_reads", "lines"})
      reported[name] = OrNull(reader.ValueAt(name, target));
    const std::optional<double> bytes = reader.ValueAt("read_bytes", target),
                                limit = LimitQps(reader, target);
    reported["blocks"] = bytes ? Json(*bytes / kBlockBytes) : Json();
    reported["limit_qps"] = OrNull(limit);
    reported["of_limit"] = limit && at ? Json(qps / *limit) : Json();
    const double most = MostIops(Of(lines_, "device"));
    reported["disk_share"] =
        bytes && at && most > 0 ? Json(*bytes / kBlockBytes * qps / most) : Json();
    return reported;
  }

  Json Row(const CurveReader& reader) const {
    const Curve& curve = reader.curve();
    Json row = {{"name", curve.label}, {"curve", curve.name}};
    for (const auto& [key, value] : curve.system.items())
      if (key != "kind" && key != "curves") row[key] = value;
    row["kind"] = curve.spec["kind"];
    row["aside"] = curve.spec["aside"];
    row["threads"] = curve.shape.threads;
    row["in_flight"] = curve.shape.in_flight;
    row["wall_over_cpu"] = reader.WallOverCpu();
    row["fast_bytes"] = nullptr;
    std::size_t noisy = 0;
    for (const SettingRuns& runs : curve.settings)
      noisy += static_cast<std::size_t>(std::count(runs.noisy.begin(), runs.noisy.end(), true));
    row["noisy"] = noisy;
    row["points"] = Json::array();
    for (const PointFigures& point : reader.points()) {
      row["points"].push_back({{"setting", point.setting},
                               {"recall", point.recall},
                               {"qps", point.qps},
                               {"qps_mad", point.qps_mad},
                               {"front", point.front},
                               {"counters", point.counters}});
      if (point.counters.is_object() && point.counters.contains("fast_bytes"))
        row["fast_bytes"] = point.counters["fast_bytes"];
    }
    row["targets"] = Json::array();
    for (const Json& target : head_["targets"])
      row["targets"].push_back(Target(reader, target.get<double>()));
    return row;
  }

  const std::vector<Json>& lines_;
  const Json& head_;
  std::vector<Curve> curves_;
  Reading reading_;
  std::vector<CurveReader> readers_;
};

/// The share of the machine that other processes took.
Json QuietOf(const std::vector<Json>& lines) {
  int runs = 0, noisy = 0;
  std::vector<double> busy, steal;
  for (const Json& line : lines) {
    const bool is_run = line["kind"] == "run" || line["kind"] == "step";
    runs += is_run ? 1 : 0;
    noisy += is_run && line.value("noisy", false) ? 1 : 0;
    if (line["kind"] != "round") continue;
    busy.push_back(line.value("others_busy", 0.0));
    steal.push_back(line.value("others_steal", 0.0));
  }
  return {{"runs", runs},
          {"noisy", noisy},
          {"busy", busy.empty() ? Json() : Json(Median(busy))},
          {"steal", steal.empty() ? Json() : Json(Median(steal))}};
}

Json WithoutKind(const Json& line) {
  Json rest = line;
  rest.erase("kind");
  return rest;
}

}  // namespace

Json FiguresOf(const std::vector<Json>& lines) {
  const Reader reader(lines);
  Json figures = WithoutKind(lines[0]);
  const Json rows = reader.Systems();
  const auto is_reference = [&](const Json& row) { return row["curve"] == figures["reference"]; };
  if (std::none_of(rows.begin(), rows.end(), is_reference)) figures["reference"] = nullptr;
  figures["systems"] = rows;
  figures["noise"] = reader.Noise();
  figures["quiet"] = QuietOf(lines);
  const std::vector<const Json*> dram = Of(lines, "dram"), devices = Of(lines, "device"),
                                 sizes = Of(lines, "data");
  if (!dram.empty()) figures["memory"] = (*dram[0])["gathers"];
  if (!devices.empty()) {
    Json& disk = figures["disk"];
    disk = {{"most_iops", MostIops(devices)}, {"measured", Json::array()}};
    for (const Json* device : devices) disk["measured"].push_back(WithoutKind(*device));
    for (const Json* memory : Of(lines, "memory"))
      disk["memory"]["systems"].push_back(WithoutKind(*memory));
  }
  for (const Json* size : sizes) figures["sizes"].push_back(WithoutKind(*size));
  for (const Json* run : Of(lines, "run"))
    if (run->contains("offered")) figures["load"].push_back(WithoutKind(*run));
  for (const Json* step : Of(lines, "step")) figures["steps"].push_back(WithoutKind(*step));
  for (const Json* book : Of(lines, "runbook")) figures["runbooks"].push_back(WithoutKind(*book));
  for (const Json* claim : Of(lines, "claim")) figures["claims"].push_back(WithoutKind(*claim));
  return figures;
}

}  // namespace hmann::eval
