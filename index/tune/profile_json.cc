#include <cmath>

#include "absl/strings/str_cat.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/distance/distance.h"
#include "index/tune/probes.h"
#include "nlohmann/json.hpp"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;

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
Json ToJson(const SketchProfile& one);
Json ToJson(const BlockDepth& point);
Json ToJson(const BlockProfile& block);

template <class T>
Json ToJsonList(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(ToJson(item));
  return list;
}

Json ToJson(const PageLatency& page) { return {{"page", page.page}, {"dependent_load_ns", ToJson(page.dependent_load_ns)}}; }
Json ToJson(const LoadsInFlight& point) { return {{"loads", point.loads}, {"ns_per_line", ToJson(point.ns_per_line)}}; }
Json ToJson(const MemoryProfile& memory) {
  return {{"tier", memory.tier},
          {"dependent_load", ToJsonList(memory.dependent_load)},
          {"in_flight", ToJsonList(memory.in_flight)},
          {"bandwidth_gb_per_s", ToJson(memory.bandwidth_gb_per_s)}};
}
Json ToJson(const DistanceProfile& one) {
  return {{"dtype", std::string(Name(one.dtype))}, {"dim", one.dim}, {"ns_per_distance", ToJson(one.ns_per_distance)}};
}
Json ToJson(const SketchProfile& one) {
  return {{"dim", one.dim},
          {"bits", one.bits},
          {"ns_per_estimate_cell", ToJson(one.ns_per_estimate_cell)},
          {"ns_per_estimate_gathered", ToJson(one.ns_per_estimate_gathered)},
          {"ns_per_query", ToJson(one.ns_per_query)}};
}
Json ToJson(const BlockDepth& point) {
  return {{"depth", point.depth}, {"read_us", ToJson(point.read_us)}, {"reads_per_s", ToJson(point.reads_per_s)}};
}
Json ToJson(const BlockProfile& block) {
  return {{"tier", block.tier}, {"device", block.device}, {"file_bytes", block.file_bytes}, {"depths", ToJsonList(block.depths)}};
}

/// Reads fields of an object; keeps the first error, and what is read after it is empty.
class Fields {
 public:
  Fields(const Json& json, std::string where, absl::Status* status) : json_(json), where_(std::move(where)), status_(status) {
    if (!json_.is_object()) Fail("", "an object", json_);
  }

  void Read(const char* key, std::string* out) {
    if (const Json* found = Find(key); found != nullptr) found->is_string() ? void(*out = *found) : Fail(key, "a text", *found);
  }
  template <class Number>
    requires std::is_arithmetic_v<Number>
  void Read(const char* key, Number* out) {
    const Json* found = Find(key);
    if (found == nullptr) return;
    // 2^53: beyond it a double, and so a JSON number, is no longer exact.
    const double value = found->is_number() ? found->get<double>() : -1;
    const double most = std::is_same_v<Number, double> ? 1e18 : std::is_same_v<Number, std::uint64_t> ? 0x1p53 : 1e6;
    if (!(value >= 0 && value <= most)) return Fail(key, absl::StrCat("a number from 0 to ", most), *found);
    *out = static_cast<Number>(value);
  }
  void Read(const char* key, Figure* out) {
    if (const Json* found = Find(key); found != nullptr) {
      Fields figure(*found, absl::StrCat(where_, ".", key), status_);
      figure.Read("median", &out->median);
      figure.Read("spread", &out->spread);
    }
  }
  void Read(const char* key, DType* out) {
    std::string name;
    Read(key, &name);
    const absl::StatusOr<DType> dtype = ParseDType(name);
    if (dtype.ok()) *out = *dtype;
    if (!dtype.ok() && status_->ok()) Fail(key, "u8, i8 or f32", Json(name));
  }
  /// read(Fields&, T&) for each item of a list.
  template <class T, class Body>
  void ReadList(const char* key, std::vector<T>* out, const Body& read) {
    const Json* found = Find(key);
    if (found == nullptr) return;
    if (!found->is_array()) return Fail(key, "a list", *found);
    for (std::size_t i = 0; i < found->size() && status_->ok(); ++i) {
      Fields item((*found)[i], absl::StrCat(where_, ".", key, "[", i, "]"), status_);
      read(item, out->emplace_back());
    }
  }
  template <class Body>
  void ReadObject(const char* key, const Body& read) {
    if (const Json* found = Find(key); found != nullptr) {
      Fields object(*found, absl::StrCat(where_, ".", key), status_);
      read(object);
    }
  }

 private:
  const Json* Find(const char* key) {
    if (!status_->ok()) return nullptr;
    const auto found = json_.find(key);
    if (found == json_.end()) Fail(key, "it to be there", Json("nothing"));
    return found == json_.end() ? nullptr : &*found;
  }
  void Fail(const std::string& key, const std::string& expected, const Json& found) {
    if (status_->ok()) {
      *status_ = absl::InvalidArgumentError(
          absl::StrCat(where_, key.empty() ? "" : ".", key, ": expected ", expected, ", found ", found.dump().substr(0, 80)));
    }
  }

  const Json& json_;
  std::string where_;
  absl::Status* status_;
};

void ReadMemory(Fields& in, MemoryProfile& memory) {
  in.Read("tier", &memory.tier);
  in.ReadList("dependent_load", &memory.dependent_load, [](Fields& item, PageLatency& page) {
    item.Read("page", &page.page);
    item.Read("dependent_load_ns", &page.dependent_load_ns);
  });
  in.ReadList("in_flight", &memory.in_flight, [](Fields& item, LoadsInFlight& point) {
    item.Read("loads", &point.loads);
    item.Read("ns_per_line", &point.ns_per_line);
  });
  in.Read("bandwidth_gb_per_s", &memory.bandwidth_gb_per_s);
}

void ReadBlock(Fields& in, BlockProfile& block) {
  in.Read("tier", &block.tier);
  in.Read("device", &block.device);
  in.Read("file_bytes", &block.file_bytes);
  in.ReadList("depths", &block.depths, [](Fields& item, BlockDepth& point) {
    item.Read("depth", &point.depth);
    item.Read("read_us", &point.read_us);
    item.Read("reads_per_s", &point.reads_per_s);
  });
}

void ReadKernels(Fields& in, DeviceProfile& profile) {
  in.ReadList("distances", &profile.distances, [](Fields& item, DistanceProfile& one) {
    item.Read("dtype", &one.dtype);
    item.Read("dim", &one.dim);
    item.Read("ns_per_distance", &one.ns_per_distance);
  });
  in.ReadList("sketches", &profile.sketches, [](Fields& item, SketchProfile& one) {
    item.Read("dim", &one.dim);
    item.Read("bits", &one.bits);
    item.Read("ns_per_estimate_cell", &one.ns_per_estimate_cell);
    item.Read("ns_per_estimate_gathered", &one.ns_per_estimate_gathered);
    item.Read("ns_per_query", &one.ns_per_query);
  });
}

/// What the lookups divide by or go through in order.
absl::Status CheckPoints(const DeviceProfile& profile, const std::string& path) {
  const auto wrong = [&](const std::string& what) { return absl::InvalidArgumentError(absl::StrCat(path, ": ", what)); };
  for (const MemoryProfile& memory : profile.memory) {
    if (memory.in_flight.empty() || memory.in_flight[0].loads != 1 || memory.dependent_load.empty()) {
      return wrong(absl::StrCat("memory ", memory.tier, ": expected latencies, and loads in flight from 1 on"));
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
  for (const SketchProfile& one : profile.sketches) {
    if (one.dim == 0 || one.bits < 1 || one.bits > 4) return wrong("sketches: expected a dimension and 1 to 4 bits");
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
                     {"sketches", ToJsonList(profile.sketches)},
                     {"blocks", ToJsonList(profile.blocks)},
                     {"thread_wake_us", ToJson(profile.thread_wake_us)}};
  const std::string text = absl::StrCat(json.dump(2, ' ', false, Json::error_handler_t::replace), "\n");
  HMANN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  HMANN_RETURN_IF_ERROR(file.Append(text.data(), text.size()));
  return file.Commit();
}

absl::StatusOr<DeviceProfile> ReadProfile(const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, 16_MiB));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a device profile in JSON, found ", text.size(), " bytes of something else"));
  absl::Status status;
  Fields in(json, path, &status);
  int version = 0;
  in.Read("hmann_profile", &version);
  HMANN_RETURN_IF_ERROR(status);
  if (version != kVersion)
    return absl::InvalidArgumentError(absl::StrCat(path, ".hmann_profile: expected version ", kVersion, ", found ", version));
  DeviceProfile profile;
  in.ReadObject("machine", [&](Fields& machine) {
    machine.Read("cpu_model", &profile.machine.cpu_model);
    machine.Read("cores", &profile.machine.cores);
    machine.Read("memory_bytes", &profile.machine.memory_bytes);
    machine.Read("simd", &profile.machine.simd);
  });
  in.ReadObject("noise", [&](Fields& noise) {
    noise.Read("repeats", &profile.noise.repeats);
    noise.Read("median_spread", &profile.noise.median_spread);
    noise.Read("worst_spread", &profile.noise.worst_spread);
    noise.Read("steal_share", &profile.noise.steal_share);
    noise.Read("busy_share", &profile.noise.busy_share);
  });
  in.Read("seconds", &profile.seconds);
  in.ReadList("memory", &profile.memory, ReadMemory);
  ReadKernels(in, profile);
  in.ReadList("blocks", &profile.blocks, ReadBlock);
  in.Read("thread_wake_us", &profile.thread_wake_us);
  HMANN_RETURN_IF_ERROR(status);
  HMANN_RETURN_IF_ERROR(CheckPoints(profile, path));
  return profile;
}

}  // namespace hmann
