#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/options.h"
#include "server/core/registry.h"

namespace hmann::server {

/// The natural order of file names: digits compare as numbers, so v9 is before v10.
bool NaturalLess(std::string_view a, std::string_view b);

/// The paths of the files *.hmann in a folder, the last one in natural order first.
/// Errors: those of opendir(3).
absl::StatusOr<std::vector<std::string>> VersionsIn(const std::string& folder);

/// A file as it was at some moment; no path: none.
struct FileVersion {
  std::string path;
  FileStamp stamp{};
  bool operator==(const FileVersion&) const = default;
};

/// The files that an index may serve, as they were seen last.
class VersionList {
 public:
  /// The file to serve: the one that `spec` names, or the newest in its folder. It passes
  /// over those that were refused and have not changed since. It also passes over files
  /// that came or changed since the last look, unless that found none: they may still be
  /// written to. No path: nothing can be served. Errors: NOT_FOUND for a folder without
  /// versions; those of VersionsIn.
  absl::StatusOr<FileVersion> Newest(const IndexSpec& spec);
  void Refuse(const FileVersion& version) { seen_[version.path] = {version.stamp, true}; }

 private:
  struct Seen {
    FileStamp stamp{};
    bool refused = false;
  };
  std::map<std::string, Seen> seen_;  // by path
};

}  // namespace hmann::server
