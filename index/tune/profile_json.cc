#include <algorithm>
#include <concepts>

#include "absl/strings/str_cat.h"
#include "index/base/file.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tune/probes.h"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;
using Reader = JsonReader<Json>;

constexpr int kVersion = 1;

/// Counts and sizes are far below; more comes of damage.
constexpr int kMostCount = 1'000'000;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 53;
constexpr double kMostFigure = 1e18;

// The fields of the file, each said once, for FieldWriter and FieldReader.
void Fields(auto& io, PageLatency& x) {
  io("page", x.page, "dependent_load_ns", x.dependent_load_ns);
}
void Fields(auto& io, LoadsInFlight& x) { io("loads", x.loads, "ns_per_line", x.ns_per_line); }
void Fields(auto& io, MemoryProfile& x) {
  io("tier", x.tier, "dependent_load", x.dependent_load, "in_flight", x.in_flight,
     "bandwidth_gb_per_s", x.bandwidth_gb_per_s);
}
void Fields(auto& io, BlockDepth& x) {
  io("depth", x.depth, "read_us", x.read_us, "reads_per_s", x.reads_per_s);
}
void Fields(auto& io, BlockProfile& x) {
  io("tier", x.tier, "device", x.device, "file_bytes", x.file_bytes, "depths", x.depths);
}
void Fields(auto& io, MachineIdentity& x) {
  io("cpu_model", x.cpu_model, "cores", x.cores, "memory_bytes", x.memory_bytes, "simd", x.simd);
}
void Fields(auto& io, MeasurementNoise& x) {
  io("repeats", x.repeats, "median_spread", x.median_spread, "worst_spread", x.worst_spread,
     "steal_share", x.steal_share, "busy_share", x.busy_share);
}
void Fields(auto& io, DeviceProfile& x) {
  io("machine", x.machine, "noise", x.noise, "seconds", x.seconds, "memory", x.memory, "blocks",
     x.blocks);
}

/// Figures are written with the digits that their spread allows.
struct FieldWriter {
  Json& json;

  template <class T, class... More>
  void operator()(const char* key, T& value, More&&... more) {
    json[key] = Written(value);
    if constexpr (sizeof...(more) > 0) (*this)(more...);
  }

  static Json Written(std::string& text) { return text; }
  static Json Written(std::integral auto& count) { return count; }
  static Json Written(double& value) { return Rounded({value, 0.1}); }
  static Json Written(Figure& figure) {
    Json fields = {{"median", Rounded(figure)}, {"spread", Written(figure.spread)}};
    if (figure.noisy()) fields["noisy"] = true;
    return fields;
  }
  template <class T>
  static Json Written(std::vector<T>& items) {
    Json list = Json::array();
    for (T& item : items) list.push_back(Written(item));
    return list;
  }
  template <class T>
  static Json Written(T& item) {
    Json fields;
    FieldWriter writer{fields};
    Fields(writer, item);
    return fields;
  }
};

struct FieldReader {
  Reader& in;

  template <class T, class... More>
  void operator()(const char* key, T& value, More&&... more) {
    Read(key, value);
    if constexpr (sizeof...(more) > 0) (*this)(more...);
  }

  void Read(const char* key, std::string& text) { in.Text(key, &text); }
  template <std::integral T>
  void Read(const char* key, T& count) {
    in.Whole(key, 0, static_cast<T>(sizeof(T) == 8 ? kMostBytes : kMostCount), &count);
  }
  void Read(const char* key, double& value) { in.Number(key, 0, kMostFigure, &value); }
  template <class T>
  void Read(const char* key, std::vector<T>& items) {
    in.List(key, 0, kMostCount,
            [&](Reader& item) { FieldReader{item}.Read(items.emplace_back()); });
  }
  template <class T>
  void Read(const char* key, T& item) {
    in.Object(key, [&](Reader& fields) { FieldReader{fields}.Read(item); });
  }
  void Read(Figure& figure) { (*this)("median", figure.median, "spread", figure.spread); }
  void Read(auto& item) { Fields(*this, item); }
};

template <class T>
bool AscendFromOne(const std::vector<T>& points, std::uint32_t T::*value) {
  return !points.empty() && points[0].*value == 1 &&
         std::is_sorted(points.begin(), points.end(),
                        [value](const T& a, const T& b) { return a.*value <= b.*value; });
}

/// What the lookups divide by or go through in order.
absl::Status CheckPoints(const DeviceProfile& profile, const std::string& path) {
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
  };
  for (const MemoryProfile& memory : profile.memory) {
    if (memory.dependent_load.empty() || !AscendFromOne(memory.in_flight, &LoadsInFlight::loads)) {
      return wrong(absl::StrCat("memory ", memory.tier,
                                ": expected latencies, and ascending loads in flight from 1 on"));
    }
  }
  for (const BlockProfile& block : profile.blocks) {
    if (!AscendFromOne(block.depths, &BlockDepth::depth))
      return wrong(absl::StrCat("blocks ", block.tier, ": expected ascending depths from 1 on"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteProfile(const DeviceProfile& profile, const std::string& path) {
  Json json = {{"hmann_profile", kVersion}};
  DeviceProfile fields = profile;  // which Fields takes as what may be written to
  FieldWriter writer{json};
  Fields(writer, fields);
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
  FieldReader{in}.Read(profile);
  HMANN_RETURN_IF_ERROR(status);
  HMANN_RETURN_IF_ERROR(CheckPoints(profile, path));
  return profile;
}

}  // namespace hmann
