#include "datasets/toolbox/manifest.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/checksum.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/json_reader.h"
#include "index/base/parse_json.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

constexpr std::uint64_t kMostManifestBytes = 16_MiB;
constexpr std::uint64_t kBlockBytes = 16_MiB;

}  // namespace

absl::StatusOr<DataManifest::Entry> MeasureFile(const std::string& path, Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  file.Advise(MappedFile::Access::kSequential, 0, file.bytes().size());
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  progress.Start(absl::StrCat("checksum ", path.substr(path.rfind('/') + 1)), file.bytes().size(),
                 "B");
  for (std::uint64_t offset = 0; offset < file.bytes().size(); offset += kBlockBytes) {
    const std::uint64_t bytes = std::min<std::uint64_t>(kBlockBytes, file.bytes().size() - offset);
    XXH3_64bits_update(&state, file.bytes().data() + offset, bytes);
    progress.Advance(bytes);
  }
  progress.Finish();
  return DataManifest::Entry{
      .bytes = file.bytes().size(),
      .xxh3 = absl::StrCat(absl::Hex(XXH3_64bits_digest(&state), absl::kZeroPad16)),
      .url = ""};
}

absl::StatusOr<DataManifest> DataManifest::Read(const std::string& folder) {
  DataManifest manifest;
  manifest.folder_ = folder;
  const std::string path = absl::StrCat(folder, "/", kFileName);
  const auto text = ReadTextFile(path, kMostManifestBytes);
  if (absl::IsNotFound(text.status())) return manifest;
  HMANN_RETURN_IF_ERROR(text.status());
  const auto json = ParseJson(*text);
  const absl::Status bad = InvalidArgument(path, ": not a manifest of hmann");
  if (!json.is_object() || !json.contains("files") || !json["files"].is_object()) return bad;
  for (const auto& [name, file] : json["files"].items()) {
    if (!file.is_object() || !file.contains("bytes") || !file["bytes"].is_number_unsigned() ||
        !file.contains("xxh3") || !file["xxh3"].is_string() || !file.contains("url") ||
        !file["url"].is_string()) {
      return bad;
    }
    manifest.entries_[name] = {.bytes = file["bytes"].get<std::uint64_t>(),
                               .xxh3 = file["xxh3"].get<std::string>(),
                               .url = file["url"].get<std::string>()};
  }
  return manifest;
}

const DataManifest::Entry* DataManifest::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

absl::Status DataManifest::CheckOrPin(const std::string& path, const std::string& name,
                                      const std::string& url, Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(Entry measured, MeasureFile(path, progress));
  if (const Entry* pinned = Find(name); pinned != nullptr) {
    if (pinned->bytes == measured.bytes && pinned->xxh3 == measured.xxh3) return absl::OkStatus();
    return DataLoss(
        path, ": ", measured.bytes, " bytes with checksum ", measured.xxh3, " found, ",
        pinned->bytes, " bytes with checksum ", pinned->xxh3, " expected, as in ", folder_, "/",
        kFileName,
        " since the first download; remove that entry if the publisher has changed the file");
  }
  measured.url = url;
  entries_[name] = std::move(measured);
  return Write();
}

absl::Status DataManifest::Write() const {
  nlohmann::ordered_json json;
  json["files"] = nlohmann::ordered_json::object();
  for (const auto& [name, entry] : entries_)
    json["files"][name] = {{"bytes", entry.bytes}, {"xxh3", entry.xxh3}, {"url", entry.url}};
  return WriteTextFile(absl::StrCat(folder_, "/", kFileName), JsonText(json, 2) + "\n");
}

}  // namespace hmann
