#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/progress.h"

namespace hmann {

/// Records the files of a download folder as they first came: `manifest.json` next to
/// them, {"files": {name: {"bytes", "xxh3", "url"}}}. If a file later differs, or a new
/// download has other content, that is an error until its entry is removed by hand.
class DataManifest {
 public:
  static constexpr const char* kFileName = "manifest.json";

  struct Entry {
    std::uint64_t bytes = 0;
    std::string xxh3;  ///< XXH3-64, 16 hexadecimal digits
    std::string url;   ///< the source; for an unpacked file the archive's
  };

  /// An absent manifest is an empty one. Errors: INVALID_ARGUMENT for a manifest of
  /// another form.
  static absl::StatusOr<DataManifest> Read(const std::string& folder);

  /// nullptr if there is none.
  const Entry* Find(const std::string& name) const;

  /// Measures `path` and compares it with the entry `name`. If there is none, it makes
  /// the entry and writes the manifest. Errors: DATA_LOSS naming both sizes or checksums.
  absl::Status CheckOrPin(const std::string& path, const std::string& name, const std::string& url,
                          Progress& progress);

 private:
  absl::Status Write() const;

  std::string folder_;
  std::map<std::string, Entry> entries_;
};

/// Size and XXH3-64 of a file, streamed. Errors: as open(2).
absl::StatusOr<DataManifest::Entry> MeasureFile(const std::string& path, Progress& progress);

}  // namespace hmann
