#include "index/collection/manifest.h"

#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/json_reader.h"
#include "index/base/parse_json.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr const char* kFormat = "hmann collection";
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kMost = ~std::uint64_t{0};

std::string Hex(std::uint64_t value) { return absl::StrFormat("%016x", value); }

/// "f32", "cosine": the names that DType and Metric are parsed by.
template <typename T, typename Parse>
void ReadName(JsonReader<nlohmann::json>& reader, const char* key, const Parse& parse, T* value) {
  std::string name;
  reader.Text(key, &name);
  if (!reader.ok()) return;
  const absl::StatusOr<T> parsed = parse(name);
  if (parsed.ok()) {
    *value = *parsed;
  } else {
    reader.Wrong(key, "a name", name);
  }
}

void ReadBuild(JsonReader<nlohmann::json>& reader, BuildOptions* build) {
  ReadName(reader, "metric", ParseMetric, &build->metric);
  reader.Whole("m", 2, 512, &build->m);
  reader.Whole("ef_construction", 1, 100'000, &build->ef_construction);
  reader.Number("alpha", 1, 2, &build->alpha);
  reader.Number("promote", 0, 1, &build->promote);
  reader.Whole("bits", 0, 4, &build->bits);
  reader.Whole("replicas", 1, 2, &build->replicas);
  reader.Whole("seed", 0, kMost, &build->seed);
  if (reader.Has("method")) {
    BuildMethod method = BuildMethod::kPartition;
    ReadName(reader, "method", ParseBuildMethod, &method);
    build->method = method;
  }
}

void ReadSealed(JsonReader<nlohmann::json>& reader, Manifest* manifest) {
  std::string hash;
  reader.Whole("generation", 0, kMost, &manifest->generation);
  reader.Whole("rows", 0, kMost, &manifest->rows);
  reader.Whole("covered", 0, kMost, &manifest->covered);
  reader.Text("content_hash", &hash);
  if (!reader.ok()) return;
  if (hash.size() != 16 || !absl::SimpleHexAtoi(hash, &manifest->content_hash))
    reader.Wrong("content_hash", "16 hexadecimal digits", hash);
}

}  // namespace

std::string Manifest::SealedIn(const std::string& folder, std::uint64_t generation) {
  return absl::StrFormat("%s/sealed-%06d.hmann", folder, generation);
}

std::optional<std::uint64_t> Manifest::GenerationOf(std::string_view name) {
  constexpr std::string_view kPrefix = "sealed-";
  std::uint64_t generation = 0;
  const std::size_t dot = name.find('.');
  if (!name.starts_with(kPrefix) || dot == name.npos) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size(), dot - kPrefix.size());
  if (!absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &generation))
    return std::nullopt;
  const std::string made = SealedIn("", generation).substr(1);
  const bool is_made = name == made || name == made + ".tuned" || name == made + ".attrs";
  return is_made ? std::optional(generation) : std::nullopt;
}

absl::StatusOr<Manifest> Manifest::Read(const std::string& folder) {
  const std::string path = PathIn(folder);
  HMANN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, 16 << 20));
  const auto json = ParseJson(text);
  absl::Status status;
  if (json.is_discarded()) return DataLoss(path, ": no JSON");
  JsonReader reader(json, path + ": ", absl::StatusCode::kDataLoss, &status);
  std::string format;
  std::uint32_t version = 0;
  reader.Text("format", &format);
  if (reader.ok() && format != kFormat) reader.Wrong("format", kFormat, format);
  reader.Whole("version", 1, ~std::uint32_t{0}, &version);
  HMANN_RETURN_IF_ERROR(status);
  if (version != kVersion) {
    return Unimplemented(path, ": is of version ", version, ", this program reads ", kVersion,
                         ": use a newer hmann");
  }
  Manifest manifest;
  std::optional<std::string> queries;
  reader.Text("id", &manifest.id);
  ReadName(reader, "dtype", ParseDType, &manifest.dtype);
  reader.Whole("dim", 1, kMaxDim, &manifest.dim);
  reader.Object("build", [&](auto& build) { ReadBuild(build, &manifest.build); });
  reader.Text("queries", &queries);
  manifest.queries = queries.value_or("");
  reader.Object("sealed", [&](auto& sealed) { ReadSealed(sealed, &manifest); });
  HMANN_RETURN_IF_ERROR(status);
  if (manifest.queries.find('/') != std::string::npos)
    return DataLoss(path, ": queries: expected a file in the folder, found ", manifest.queries);
  return manifest;
}

absl::Status Manifest::Write(const std::string& folder) const {
  nlohmann::ordered_json json;
  json["format"] = kFormat;
  json["version"] = kVersion;
  json["id"] = id;
  json["dtype"] = Name(dtype);
  json["dim"] = dim;
  auto& parameters = json["build"];
  parameters["metric"] = Name(build.metric);
  if (build.m.has_value()) parameters["m"] = *build.m;
  parameters["ef_construction"] = build.ef_construction;
  parameters["alpha"] = build.alpha;
  parameters["seed"] = build.seed;
  if (build.promote.has_value()) parameters["promote"] = *build.promote;
  if (build.bits.has_value()) parameters["bits"] = *build.bits;
  if (build.replicas.has_value()) parameters["replicas"] = *build.replicas;
  if (build.method.has_value()) parameters["method"] = Name(*build.method);
  if (!queries.empty()) json["queries"] = queries;
  json["sealed"] = {{"generation", generation},
                    {"rows", rows},
                    {"covered", covered},
                    {"content_hash", Hex(content_hash)}};
  return WriteTextFile(PathIn(folder), JsonText(json, 2) + "\n");
}

}  // namespace hmann
