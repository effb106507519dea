#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/toolbox/catalogue.h"
#include "hmann/progress.h"

namespace hmann {

struct FetchOptions {
  std::string folder;    ///< made if absent; empty: data/<selection folder>
  std::string base_url;  ///< instead of each address's scheme and host: "http://127.0.0.1:8080", a
                         ///< mirror with the same paths
  int attempts = 6;      ///< of a download that gets nowhere
  int pause_ms = 1000;   ///< before the second of them
};

/// A file that stands ready after `Fetch`.
struct FetchedFile {
  std::string path;
  Content content = Content::kVectors;
  bool was_there = false;  ///< present before, and equal to its pinned checksum
};

/// Brings the files of a selection into a folder. A file is downloaded to `<name>.part`
/// and gets its name only when it is complete: size computed from the format and
/// compared, header checked, n rewritten for a prefix, checksum pinned in the folder's
/// manifest (see Manifest) at the first download and compared after. An interrupted
/// download is resumed by the next call. Archives are unpacked and removed.
///
/// Errors: of Download, UnpackArchive and Manifest; INVALID_ARGUMENT when a header does
/// not say what the catalogue does.
absl::StatusOr<std::vector<FetchedFile>> Fetch(const Selection& selection,
                                               const FetchOptions& options, Progress& progress);

}  // namespace hmann
