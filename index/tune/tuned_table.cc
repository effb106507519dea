#include "index/tune/tuned_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr const char* kFormat = "hmann tuned table";
constexpr std::uint64_t kMostBytes = 16u << 20;
constexpr std::size_t kMostEntries = 1000, kMostSettings = 10000;

/// Of a measurement: six digits are more than was measured. Dials are stored as they are.
double Rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

Json ToJson(const TunedSetting& setting) {
  const SearchOptions& dials = setting.options;
  return {{"walk", std::string(Name(dials.walk))},
          {"ef_l1", dials.ef_l1},
          {"ef_l0", dials.ef_l0},
          {"cells", dials.cells},
          {"width", dials.width},
          {"stop", static_cast<double>(dials.stop)},
          {"reach", static_cast<double>(dials.reach)},
          {"query_threads", dials.query_threads},
          {"recall", Rounded(setting.recall)},
          {"recall_low", Rounded(setting.recall_low)},
          {"recall_p05", Rounded(setting.recall_p05)},
          {"mean_us", Rounded(setting.mean_us)},
          {"p95_us", Rounded(setting.p95_us)},
          {"p99_us", Rounded(setting.p99_us)},
          {"predicted_us", Rounded(setting.predicted_us)}};
}

Json ToJson(const TunedEntry& entry) {
  Json settings = Json::array();
  for (const TunedSetting& setting : entry.settings) settings.push_back(ToJson(setting));
  return {{"fast", entry.placement.fast},
          {"slow", entry.placement.slow},
          {"cache", entry.placement.cache},
          {"k", entry.k},
          {"queries", entry.queries},
          {"origin", entry.origin},
          {"cpu", entry.cpu},
          {"simd", entry.simd},
          {"settings", std::move(settings)}};
}

/// Reads keys of an object; the first that is not as it should be is remembered.
class Reader {
 public:
  Reader(const Json& object, std::string where, absl::Status& status) : object_(object), where_(std::move(where)), status_(status) {}

  void Text(const char* key, std::string& value) {
    if (const Json* found = Find(key, "a text", [](const Json& json) { return json.is_string(); })) value = found->get<std::string>();
  }
  void Number(const char* key, double low, double high, double& value) {
    const Json* found = Find(key, "a number", [](const Json& json) { return json.is_number(); });
    if (found == nullptr) return;
    value = found->get<double>();
    if (!(value >= low && value <= high)) Wrong(key, absl::StrCat("a number from ", low, " to ", high), found->dump());
  }
  template <typename Integer>
  void Whole(const char* key, double low, double high, Integer& value) {
    double number = 0;
    Number(key, low, high, number);
    if (number != std::floor(number)) Wrong(key, "a whole number", absl::StrCat(number));
    if (status_.ok()) value = static_cast<Integer>(number);
  }
  /// Never more than `most` elements; nullptr: it is wrong.
  const Json* List(const char* key, std::size_t most) {
    const Json* found = Find(key, "a list", [](const Json& json) { return json.is_array(); });
    if (found == nullptr) return nullptr;
    if (!found->empty() && found->size() <= most) return found;
    Wrong(key, absl::StrCat("1 to ", most, " elements"), absl::StrCat(found->size()));
    return nullptr;
  }
  void Wrong(const char* key, const std::string& expected, const std::string& found) {
    status_.Update(absl::DataLossError(absl::StrCat(where_, ".", key, ": expected ", expected, ", found ", found)));
  }

 private:
  const Json* Find(const char* key, const char* expected, bool (*fits)(const Json&)) {
    if (!object_.is_object() || !object_.contains(key)) {
      Wrong(key, expected, "nothing");
      return nullptr;
    }
    const Json& found = object_[key];
    if (fits(found)) return &found;
    Wrong(key, expected, found.type_name());
    return nullptr;
  }

  const Json& object_;
  const std::string where_;
  absl::Status& status_;
};

TunedSetting ReadSetting(const Json& object, const std::string& where, std::uint32_t k, std::uint64_t n, absl::Status& status) {
  TunedSetting setting;
  Reader reader(object, where, status);
  std::string walk;
  double stop = -1, reach = -1;
  SearchOptions& dials = setting.options;
  reader.Text("walk", walk);
  reader.Whole("ef_l1", 1, kMaxEf, dials.ef_l1);
  reader.Whole("ef_l0", 0, kMaxEf, dials.ef_l0);
  reader.Whole("cells", -1, kMaxEf, dials.cells);
  reader.Whole("width", 0, kMaxWidth, dials.width);
  reader.Number("stop", -1, 1e6, stop);
  reader.Number("reach", -1, 1e6, reach);
  reader.Whole("query_threads", 1, 64, dials.query_threads);
  reader.Number("recall", 0, 1, setting.recall);
  reader.Number("recall_low", 0, 1, setting.recall_low);
  reader.Number("recall_p05", 0, 1, setting.recall_p05);
  reader.Number("mean_us", 0, 1e12, setting.mean_us);
  reader.Number("p95_us", 0, 1e12, setting.p95_us);
  reader.Number("p99_us", 0, 1e12, setting.p99_us);
  reader.Number("predicted_us", 0, 1e12, setting.predicted_us);
  dials.k = k;
  dials.stop = static_cast<float>(stop);
  dials.reach = static_cast<float>(reach);
  if (!status.ok()) return setting;
  const absl::StatusOr<Walk> parsed = ParseWalk(walk);
  if (parsed.ok() && *parsed != Walk::kDefault) {
    dials.walk = *parsed;
  } else {
    reader.Wrong("walk", "beams, pool or gated", walk);
  }
  if (const absl::Status valid = dials.Validate(n); !valid.ok()) {
    status.Update(absl::DataLossError(absl::StrCat(where, ": ", valid.message())));
  }
  return setting;
}

TunedEntry ReadEntry(const Json& object, const std::string& where, std::uint64_t n, absl::Status& status) {
  TunedEntry entry;
  Reader reader(object, where, status);
  reader.Text("fast", entry.placement.fast);
  reader.Text("slow", entry.placement.slow);
  reader.Text("cache", entry.placement.cache);
  reader.Whole("k", 1, kMaxEf, entry.k);
  reader.Whole("queries", 1, 1e15, entry.queries);
  reader.Text("origin", entry.origin);
  reader.Text("cpu", entry.cpu);
  reader.Text("simd", entry.simd);
  const Json* settings = reader.List("settings", kMostSettings);
  if (!status.ok()) return entry;
  for (std::size_t i = 0; i < settings->size(); ++i) {
    entry.settings.push_back(ReadSetting((*settings)[i], absl::StrCat(where, ".settings[", i, "]"), entry.k, n, status));
  }
  return entry;
}

std::string Describe(const TunedPlacement& placement, std::uint32_t k) {
  return absl::StrCat("fast ", placement.fast, ", slow ", placement.slow, ", cache ", placement.cache, ", k ", k);
}

}  // namespace

std::string TierWithoutPath(const std::string& tier) {
  for (const char* kind : {"mapped", "nvme", "dax"}) {
    if (tier.starts_with(absl::StrCat(kind, ":"))) return kind;
  }
  return tier;
}

std::string TunedPath(const std::string& index) { return absl::StrCat(index, ".tuned"); }

const TunedEntry* TunedTable::Find(const TunedPlacement& placement, std::uint32_t k) const {
  for (const TunedEntry& entry : entries) {
    if (entry.placement == placement && entry.k == k) return &entry;
  }
  return nullptr;
}

void TunedTable::Put(TunedEntry entry) {
  std::erase_if(entries, [&](const TunedEntry& old) { return old.placement == entry.placement && old.k == entry.k; });
  entries.push_back(std::move(entry));
}

absl::StatusOr<TunedSetting> TunedTable::Choose(const TunedPlacement& placement, std::uint32_t k, const Target& target) const {
  const TunedEntry* entry = Find(placement, k);
  if (entry == nullptr) {
    const std::string tuned =
        absl::StrJoin(entries, "; ", [](std::string* out, const TunedEntry& one) { *out += Describe(one.placement, one.k); });
    return absl::NotFoundError(absl::StrCat("not tuned for ", Describe(placement, k), "; tuned: ", tuned, ": run hmann tune for it"));
  }
  std::vector<Offer> offers;
  for (const TunedSetting& setting : entry->settings) offers.push_back({setting.mean_us, setting.recall, setting.recall_low});
  const BestOffer best = ChooseOffer(offers, target);
  const TunedSetting& setting = entry->settings[best.place];
  if (best.met) return setting;
  std::string asked;
  if (target.recall > 0) absl::StrAppend(&asked, "recall ", target.recall);
  if (target.latency_us > 0) absl::StrAppend(&asked, asked.empty() ? "" : " and ", "latency ", target.latency_us, "us");
  const std::string spare = target.latency_us > 0 ? absl::StrFormat("; a latency is kept with %g %% to spare", 100 * kLatencyMargin) : "";
  return absl::OutOfRangeError(absl::StrFormat("%s cannot be met at %s: the best is recall %.4f (at least %.4f) in %.1f us%s", asked,
                                               Describe(placement, k), setting.recall, setting.recall_low, setting.mean_us, spare));
}

absl::StatusOr<TunedTable> ReadTunedTable(const std::string& index, std::uint64_t content_hash, std::uint64_t n) {
  const std::string path = TunedPath(index);
  absl::StatusOr<std::string> text = ReadTextFile(path, kMostBytes);
  if (absl::IsNotFound(text.status())) return absl::NotFoundError(absl::StrCat(path, ": the index is not tuned: run hmann tune ", index));
  HMANN_RETURN_IF_ERROR(text.status());
  const Json json = Json::parse(*text, nullptr, false);
  if (json.is_discarded()) return absl::DataLossError(absl::StrCat(path, ": expected JSON, found what is none: run hmann tune again"));
  absl::Status status;
  Reader reader(json, absl::StrCat(path, ": table"), status);
  std::string format, hash;
  int version = 0;
  reader.Text("format", format);
  reader.Whole("version", 1, 1e6, version);
  reader.Text("content_hash", hash);
  HMANN_RETURN_IF_ERROR(status);
  if (format != kFormat) reader.Wrong("format", kFormat, format);
  if (version > kVersion) {
    return absl::UnimplementedError(absl::StrCat(path, ": version: expected at most ", kVersion, ", found ", version));
  }
  TunedTable table;
  if (!absl::SimpleHexAtoi(hash, &table.content_hash)) reader.Wrong("content_hash", "a hexadecimal number", hash);
  HMANN_RETURN_IF_ERROR(status);
  if (table.content_hash != content_hash) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s: stale: it is of an index with content %016x, this one has %016x: run hmann tune %s", path, table.content_hash,
                        content_hash, index));
  }
  const Json* entries = reader.List("entries", kMostEntries);
  HMANN_RETURN_IF_ERROR(status);
  for (std::size_t i = 0; i < entries->size(); ++i) {
    table.entries.push_back(ReadEntry((*entries)[i], absl::StrCat(path, ": table.entries[", i, "]"), n, status));
  }
  HMANN_RETURN_IF_ERROR(status);
  return table;
}

absl::Status WriteTunedTable(const std::string& index, const TunedTable& table) {
  Json entries = Json::array();
  for (const TunedEntry& entry : table.entries) entries.push_back(ToJson(entry));
  const Json json = {{"format", kFormat},
                     {"version", kVersion},
                     {"content_hash", absl::StrFormat("%016x", table.content_hash)},
                     {"entries", std::move(entries)}};
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  HMANN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(TunedPath(index)));
  HMANN_RETURN_IF_ERROR(file.Append(text.data(), text.size()));
  return file.Commit();
}

}  // namespace hmann
