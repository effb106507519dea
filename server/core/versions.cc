#include "server/core/versions.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann::server {
namespace {

/// Takes a number off the front of `text`, without leading zeros.
std::string_view TakeNumber(std::string_view* text) {
  std::size_t end = 0;
  while (end < text->size() && absl::ascii_isdigit(static_cast<unsigned char>((*text)[end]))) ++end;
  std::string_view number = text->substr(0, end);
  text->remove_prefix(end);
  while (!number.empty() && number.front() == '0') number.remove_prefix(1);
  return number;
}

}  // namespace

bool NaturalLess(std::string_view a, std::string_view b) {
  const auto digit = [](std::string_view text) {
    return absl::ascii_isdigit(static_cast<unsigned char>(text.front()));
  };
  std::string_view x = a, y = b;
  while (!x.empty() && !y.empty()) {
    if (digit(x) && digit(y)) {
      const std::string_view m = TakeNumber(&x), n = TakeNumber(&y);
      if (m != n) return m.size() != n.size() ? m.size() < n.size() : m < n;
    } else if (x.front() != y.front()) {
      return x.front() < y.front();
    } else {
      x.remove_prefix(1);
      y.remove_prefix(1);
    }
  }
  return x.empty() && y.empty() ? a < b : x.empty();
}

absl::StatusOr<std::vector<std::string>> VersionsIn(const std::string& folder) {
  std::vector<std::string> names, paths;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".hmann") names.push_back(entry->path().filename());
  }
  if (error) return ErrnoError(error.value(), "read the folder", folder);
  std::sort(names.begin(), names.end(),
            [](const auto& a, const auto& b) { return NaturalLess(b, a); });
  for (const std::string& name : names) paths.push_back(std::filesystem::path(folder) / name);
  return paths;
}

absl::StatusOr<FileVersion> VersionList::Newest(const IndexSpec& spec) {
  std::vector<std::string> paths = {spec.path};
  if (spec.versions) {
    HMANN_ASSIGN_OR_RETURN(paths, VersionsIn(spec.path));
  }
  FileVersion newest;
  std::map<std::string, Seen> now;
  for (const std::string& path : paths) {
    const FileStamp stamp = StampOf(path);
    if (spec.versions && stamp == FileStamp{}) continue;  // it has just been removed
    const auto before = seen_.find(path);
    const bool known = before != seen_.end() && before->second.stamp == stamp;
    const bool refused = known && before->second.refused;
    now[path] = {stamp, refused};
    const bool settled = known || !spec.versions || seen_.empty();
    if (newest.path.empty() && settled && !refused) newest = {path, stamp};
  }
  seen_ = std::move(now);
  if (!seen_.empty()) return newest;
  return NotFound(spec.path, ": no file *.hmann: copy one there under another name, and rename it");
}

}  // namespace hmann::server
