#include "absl/strings/str_cat.h"
#include "index/base/file.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/codes/code_layout.h"
#include "index/distance/distance.h"
#include "index/tune/probes.h"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;
using Reader = JsonReader<Json>;

constexpr int kVersion = 1;

Json ToJson(const Figure& figure) {
  Json json = {{"median", Rounded(figure)}, {"spread", Rounded({figure.spread, 0.1})}};
  if (figure.noisy()) json["noisy"] = true;
  return json;
}

Json ToJson(const PageLatency& page);
Json ToJson(const LoadsInFlight& point);
Json ToJson(const MemoryProfile& memory);
Json ToJson(const DistanceProfile& one);
Json ToJson(const CodeProfile& one);
Json ToJson(const BlockDepth& point);
Json ToJson(const BlockProfile& block);

template <class T>
Json ToJsonList(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(ToJson(item));
  return list;
}

Json ToJson(const PageLatency& page) {
  return {{"page", page.page}, {"dependent_load_ns", ToJson(page.dependent_load_ns)}};
}
Json ToJson(const LoadsInFlight& point) {
  return {{"loads", point.loads}, {"ns_per_line", ToJson(point.ns_per_line)}};
}
Json ToJson(const MemoryProfile& memory) {
  return {{"tier", memory.tier},
          {"dependent_load", ToJsonList(memory.dependent_load)},
          {"in_flight", ToJsonList(memory.in_flight)},
          {"bandwidth_gb_per_s", ToJson(memory.bandwidth_gb_per_s)}};
}
Json ToJson(const DistanceProfile& one) {
  return {{"dtype", std::string(Name(one.dtype))},
          {"dim", one.dim},
          {"ns_per_distance", ToJson(one.ns_per_distance)}};
}
Json ToJson(const CodeProfile& one) {
  return {{"dim", one.dim},
          {"bits", one.bits},
          {"ns_per_estimate_cell", ToJson(one.ns_per_estimate_cell)},
          {"ns_per_estimate_gathered", ToJson(one.ns_per_estimate_gathered)},
          {"ns_per_query", ToJson(one.ns_per_query)}};
}
Json ToJson(const BlockDepth& point) {
  return {{"depth", point.depth},
          {"read_us", ToJson(point.read_us)},
          {"reads_per_s", ToJson(point.reads_per_s)}};
}
Json ToJson(const BlockProfile& block) {
  return {{"tier", block.tier},
          {"device", block.device},
          {"file_bytes", block.file_bytes},
          {"depths", ToJsonList(block.depths)}};
}

/// Counts and sizes are far below; more comes of damage.
constexpr int kMostCount = 1'000'000;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 53;
constexpr double kMostFigure = 1e18;

void ReadFigure(Reader& in, const char* key, Figure* out) {
  in.Object(key, [&](Reader& figure) {
    figure.Number("median", 0, kMostFigure, &out->median);
    figure.Number("spread", 0, kMostFigure, &out->spread);
  });
}

/// read(Reader&, T&) for each item of a list.
template <class T, class Read>
void ReadList(Reader& in, const char* key, std::vector<T>* out, const Read& read) {
  in.List(key, 0, kMostCount, [&](Reader& item) { read(item, out->emplace_back()); });
}

void ReadDType(Reader& in, DType* out) {
  std::string name;
  in.Text("dtype", &name);
  if (!in.ok()) return;
  const absl::StatusOr<DType> dtype = ParseDType(name);
  dtype.ok() ? void(*out = *dtype) : in.Wrong("dtype", "u8, i8 or f32", name);
}

void ReadMemory(Reader& in, MemoryProfile& memory) {
  in.Text("tier", &memory.tier);
  ReadList(in, "dependent_load", &memory.dependent_load, [](Reader& item, PageLatency& page) {
    item.Text("page", &page.page);
    ReadFigure(item, "dependent_load_ns", &page.dependent_load_ns);
  });
  ReadList(in, "in_flight", &memory.in_flight, [](Reader& item, LoadsInFlight& point) {
    item.Whole("loads", 0, kMostCount, &point.loads);
    ReadFigure(item, "ns_per_line", &point.ns_per_line);
  });
  ReadFigure(in, "bandwidth_gb_per_s", &memory.bandwidth_gb_per_s);
}

void ReadBlock(Reader& in, BlockProfile& block) {
  in.Text("tier", &block.tier);
  in.Text("device", &block.device);
  in.Whole("file_bytes", 0, kMostBytes, &block.file_bytes);
  ReadList(in, "depths", &block.depths, [](Reader& item, BlockDepth& point) {
    item.Whole("depth", 0, kMostCount, &point.depth);
    ReadFigure(item, "read_us", &point.read_us);
    ReadFigure(item, "reads_per_s", &point.reads_per_s);
  });
}

void ReadKernels(Reader& in, DeviceProfile& profile) {
  ReadList(in, "distances", &profile.distances, [](Reader& item, DistanceProfile& one) {
    ReadDType(item, &one.dtype);
    item.Whole("dim", 0, kMostCount, &one.dim);
    ReadFigure(item, "ns_per_distance", &one.ns_per_distance);
  });
  ReadList(in, "codes", &profile.codes, [](Reader& item, CodeProfile& one) {
    item.Whole("dim", 0, kMostCount, &one.dim);
    item.Whole("bits", 0, kMostCount, &one.bits);
    ReadFigure(item, "ns_per_estimate_cell", &one.ns_per_estimate_cell);
    ReadFigure(item, "ns_per_estimate_gathered", &one.ns_per_estimate_gathered);
    ReadFigure(item, "ns_per_query", &one.ns_per_query);
  });
}

/// What the lookups divide by or go through in order.
absl::Status CheckPoints(const DeviceProfile& profile, const std::string& path) {
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
  };
  for (const MemoryProfile& memory : profile.memory) {
    if (memory.in_flight.empty() || memory.in_flight[0].loads != 1 ||
        memory.dependent_load.empty()) {
      return wrong(absl::StrCat("memory ", memory.tier,
                                ": expected latencies, and loads in flight from 1 on"));
    }
    for (std::size_t i = 1; i < memory.in_flight.size(); ++i) {
      if (memory.in_flight[i].loads <= memory.in_flight[i - 1].loads)
        return wrong(absl::StrCat("memory ", memory.tier, ": expected ascending loads"));
    }
  }
  for (const BlockProfile& block : profile.blocks) {
    if (block.depths.empty() || block.depths[0].depth != 1)
      return wrong(absl::StrCat("blocks ", block.tier, ": expected depths from 1 on"));
    for (std::size_t i = 1; i < block.depths.size(); ++i) {
      if (block.depths[i].depth <= block.depths[i - 1].depth)
        return wrong(absl::StrCat("blocks ", block.tier, ": expected ascending depths"));
    }
  }
  for (const DistanceProfile& one : profile.distances) {
    if (one.dim == 0) return wrong("distances: expected a dimension, found 0");
  }
  for (const CodeProfile& one : profile.codes) {
    if (one.dim == 0 || !IsCodeBits(one.bits))
      return wrong("codes: expected a dimension and 1, 2 or 4 bits");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteProfile(const DeviceProfile& profile, const std::string& path) {
  const MeasurementNoise& noise = profile.noise;
  const auto share = [](double value) { return Rounded({value, 0.1}); };
  const Json json = {{"hmann_profile", kVersion},
                     {"machine",
                      {{"cpu_model", profile.machine.cpu_model},
                       {"cores", profile.machine.cores},
                       {"memory_bytes", profile.machine.memory_bytes},
                       {"simd", profile.machine.simd}}},
                     {"noise",
                      {{"repeats", noise.repeats},
                       {"median_spread", share(noise.median_spread)},
                       {"worst_spread", share(noise.worst_spread)},
                       {"steal_share", share(noise.steal_share)},
                       {"busy_share", share(noise.busy_share)}}},
                     {"seconds", Rounded({profile.seconds, 0.01})},
                     {"memory", ToJsonList(profile.memory)},
                     {"distances", ToJsonList(profile.distances)},
                     {"codes", ToJsonList(profile.codes)},
                     {"blocks", ToJsonList(profile.blocks)},
                     {"thread_wake_us", ToJson(profile.thread_wake_us)}};
  return WriteTextFile(path, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

absl::StatusOr<DeviceProfile> ReadProfile(const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, 16_MiB));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return absl::InvalidArgumentError(absl::StrCat(path,
                                                   ": expected a device profile in JSON, found ",
                                                   text.size(), " bytes of something else"));
  absl::Status status;
  Reader in(json, absl::StrCat(path, "."), absl::StatusCode::kInvalidArgument, &status);
  int version = 0;
  in.Whole("hmann_profile", 0, kMostCount, &version);
  HMANN_RETURN_IF_ERROR(status);
  if (version != kVersion)
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".hmann_profile: expected version ", kVersion, ", found ", version));
  DeviceProfile profile;
  in.Object("machine", [&](Reader& machine) {
    machine.Text("cpu_model", &profile.machine.cpu_model);
    machine.Whole("cores", 0, kMostCount, &profile.machine.cores);
    machine.Whole("memory_bytes", 0, kMostBytes, &profile.machine.memory_bytes);
    machine.Text("simd", &profile.machine.simd);
  });
  in.Object("noise", [&](Reader& noise) {
    noise.Whole("repeats", 0, kMostCount, &profile.noise.repeats);
    noise.Number("median_spread", 0, kMostFigure, &profile.noise.median_spread);
    noise.Number("worst_spread", 0, kMostFigure, &profile.noise.worst_spread);
    noise.Number("steal_share", 0, kMostFigure, &profile.noise.steal_share);
    noise.Number("busy_share", 0, kMostFigure, &profile.noise.busy_share);
  });
  in.Number("seconds", 0, kMostFigure, &profile.seconds);
  ReadList(in, "memory", &profile.memory, ReadMemory);
  ReadKernels(in, profile);
  ReadList(in, "blocks", &profile.blocks, ReadBlock);
  ReadFigure(in, "thread_wake_us", &profile.thread_wake_us);
  HMANN_RETURN_IF_ERROR(status);
  HMANN_RETURN_IF_ERROR(CheckPoints(profile, path));
  return profile;
}

}  // namespace hmann
