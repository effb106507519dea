#include "index/tune/tuned_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "index/base/file.h"
#include "index/base/json_reader.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;
using Reader = JsonReader<Json>;

constexpr int kVersion = 1;
constexpr const char* kFormat = "hmann tuned table";
constexpr std::uint64_t kMostBytes = 16u << 20;
constexpr std::size_t kMostEntries = 1000, kMostSettings = 10000;

/// Six digits are more than was measured.
double Rounded(double value) { return RoundToDigits(value, 6); }

Json ToJson(const TunedSetting& setting) {
  const SearchOptions& dials = setting.options;
  return {{"walk", std::string(Name(dials.walk))},
          {"ef_l1", dials.ef_l1},
          {"ef_l0", dials.ef_l0},
          {"cells", dials.cells},
          {"width", dials.width},
          {"stop", Rounded(static_cast<double>(dials.stop))},
          {"reach", Rounded(static_cast<double>(dials.reach))},
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

void ReadSetting(Reader& in, std::uint32_t k, std::uint64_t n, TunedSetting& setting) {
  std::string walk;
  SearchOptions& dials = setting.options;
  dials.k = k;
  in.Text("walk", &walk);
  in.Whole("ef_l1", 1, kMaxEf, &dials.ef_l1);
  in.Whole("ef_l0", 0, kMaxEf, &dials.ef_l0);
  in.Whole("cells", -1, kMaxEf, &dials.cells);
  in.Whole("width", 0, kMaxWidth, &dials.width);
  in.Number("stop", -1, 1e6f, &dials.stop);
  in.Number("reach", -1, 1e6f, &dials.reach);
  in.Whole("query_threads", 1, 64, &dials.query_threads);
  in.Number("recall", 0, 1, &setting.recall);
  in.Number("recall_low", 0, 1, &setting.recall_low);
  in.Number("recall_p05", 0, 1, &setting.recall_p05);
  in.Number("mean_us", 0, 1e12, &setting.mean_us);
  in.Number("p95_us", 0, 1e12, &setting.p95_us);
  in.Number("p99_us", 0, 1e12, &setting.p99_us);
  in.Number("predicted_us", 0, 1e12, &setting.predicted_us);
  if (!in.ok()) return;
  const absl::StatusOr<Walk> parsed = ParseWalk(walk);
  if (!parsed.ok() || *parsed == Walk::kDefault) return in.Wrong("walk", "beams, pool or gated", walk);
  dials.walk = *parsed;
  if (const absl::Status valid = dials.Validate(n); !valid.ok()) in.Reject(valid.message());
}

void ReadEntry(Reader& in, std::uint64_t n, TunedEntry& entry) {
  in.Text("fast", &entry.placement.fast);
  in.Text("slow", &entry.placement.slow);
  in.Text("cache", &entry.placement.cache);
  in.Whole("k", 1, kMaxEf, &entry.k);
  in.Whole("queries", 1, 1'000'000'000'000'000, &entry.queries);
  in.Text("origin", &entry.origin);
  in.Text("cpu", &entry.cpu);
  in.Text("simd", &entry.simd);
  in.List("settings", 1, kMostSettings, [&](Reader& setting) { ReadSetting(setting, entry.k, n, entry.settings.emplace_back()); });
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
  Reader reader(json, absl::StrCat(path, ": table."), absl::StatusCode::kDataLoss, &status);
  std::string format, hash;
  int version = 0;
  reader.Text("format", &format);
  reader.Whole("version", 1, 1'000'000, &version);
  reader.Text("content_hash", &hash);
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
  reader.List("entries", 1, kMostEntries, [&](Reader& entry) { ReadEntry(entry, n, table.entries.emplace_back()); });
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
  return WriteTextFile(TunedPath(index), json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace hmann
