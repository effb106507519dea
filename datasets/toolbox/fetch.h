#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/toolbox/catalog.h"
#include "hmann/progress.h"

namespace hmann {

struct FetchOptions {
  std::string folder;  ///< created if absent; empty: data/<selection folder>
  /// Replaces scheme and host of each URL: "http://127.0.0.1:8080", a mirror with the
  /// same paths.
  std::string base_url;
  int attempts = 6;     ///< of a download without progress
  int pause_ms = 1000;  ///< before the second attempt
};

/// A file that `Fetch` has made available.
struct FetchedFile {
  std::string path;
  Content content = Content::kVectors;
  bool was_there = false;  ///< existed before, with its pinned checksum
};

/// Downloads the files of a selection into a folder. A file is downloaded to
/// `<name>.part` and gets its name only when it is complete. Then its size equals that
/// computed from the format, its header is checked, and n is rewritten for a prefix. The
/// first download pins the checksum in the folder's manifest (see DataManifest); later
/// ones compare it. The next call resumes an interrupted download. Archives are unpacked
/// and removed.
///
/// Errors: those of Download, UnpackArchive and DataManifest; INVALID_ARGUMENT if a
/// header contradicts the catalog.
absl::StatusOr<std::vector<FetchedFile>> Fetch(const Selection& selection,
                                               const FetchOptions& options, Progress& progress);

}  // namespace hmann
