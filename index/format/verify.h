#pragma once

#include <string>

#include "absl/status/status.h"
#include "hmann/progress.h"
#include "index/format/reader.h"

namespace hmann {

/// Reads a whole index file and checks, in addition to the checks of opening:
/// - every section's checksum;
/// - zeros between sections and in every padding;
/// - link lists in range, without self-link and duplicate, kNoNode only at the end, mean
///   degrees as in the header;
/// - every node reachable over L0 from node 0;
/// - vectors and stored norms finite; row-number labels a permutation.
/// Runs on UsableCores() threads; takes n/8 bytes of memory and a queue of node ids.
/// Errors: as IndexFile::Open; DATA_LOSS naming section, offset in the file, expected and
/// found. It reports the first check that fails, and its fault with the lowest offset (of
/// two equal labels, either).
absl::Status VerifyIndex(const std::string& path, Progress& progress);

/// The first checks of VerifyIndex, up to the link lists.
absl::Status VerifyLists(const IndexFile& file, Progress& progress);

}  // namespace hmann
