#include "eval/scale_file.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

absl::Status CheckSame(const std::string& path, const Json& kept, const Json& head) {
  for (const auto& [key, value] : head.items()) {
    const Json found = kept.value(key, Json());
    if (found == value) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": expected ", key, " ", value.dump(), ", found ", found.dump(),
                     ": its sizes were measured of something else (another --out)"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ScaleFile> ScaleFile::Open(const std::string& folder, const Json& head) {
  ScaleFile file;
  file.path_ = absl::StrCat(folder, "/scale.jsonl");
  file.head_ = head;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return ErrnoError(error.value(), "mkdir", folder);
  if (!fs::exists(file.path_, error)) {
    if (!fs::is_empty(folder, error)) {
      return absl::FailedPreconditionError(absl::StrCat(
          folder, ": expected an empty folder, or one with scale.jsonl, found something else"));
    }
    HMANN_RETURN_IF_ERROR(file.Write());
    return file;
  }
  HMANN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file.path_, 64_MiB));
  std::size_t number = 0;
  for (const auto line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    ++number;
    Json json = Json::parse(line.begin(), line.end(), nullptr, false);
    const std::string kind = json.is_object() && json.contains("kind") && json["kind"].is_string()
                                 ? json["kind"].get<std::string>()
                                 : "";
    const bool is_size = kind == "size" && json.contains("n") && json["n"].is_number_unsigned();
    if (number == 1 ? kind != "scale" : !is_size) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path_, ": line ", number, ": expected an object of kind ",
                       number == 1 ? "scale" : "size, with n", ", found something else"));
    }
    if (number == 1) {
      HMANN_RETURN_IF_ERROR(CheckSame(file.path_, json, head));
      continue;
    }
    const auto n = json["n"].get<std::uint64_t>();
    file.lines_[n] = std::move(json);
  }
  if (number == 0)
    return absl::InvalidArgumentError(
        absl::StrCat(file.path_, ": line 1: expected an object of kind scale, found no line"));
  return file;
}

const Json* ScaleFile::Find(std::uint64_t n) const {
  const auto found = lines_.find(n);
  return found == lines_.end() ? nullptr : &found->second;
}

absl::Status ScaleFile::Add(const Json& line) {
  lines_[line["n"].get<std::uint64_t>()] = line;
  return Write();
}

absl::Status ScaleFile::Write() const {
  std::string text = head_.dump() + "\n";
  for (const auto& [n, line] : lines_)
    absl::StrAppend(&text, line.dump(-1, ' ', false, Json::error_handler_t::replace), "\n");
  return WriteTextFile(path_, text);
}

}  // namespace hmann
