/// A base split into shards, each of which is built and served as an index of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "datasets/vector_file.h"
#include "hmann/progress.h"

namespace hmann {

struct SplitOptions {
  /// Files of vectors and of labels are open at the same time, with a buffer of 1 MiB
  /// each.
  static constexpr std::uint32_t kMostShards = 256;

  std::uint32_t shards = 0;
  std::string labels{};           ///< file of the base's labels (ReadLabels); empty: row numbers
  std::uint64_t first_label = 0;  ///< without `labels`: of row 0
  const std::atomic<bool>* cancelled = nullptr;  ///< not owned
};

/// Writes a new folder: of each shard s vectors (`shard-<s>.u8bin`, or the suffix of
/// another dtype) and labels (`shard-<s>.labels`, raw u64), and `manifest.json` with rows
/// and checksums. Row i goes to shard i mod S, so that the rows of a shard are spread
/// over the base, and shards differ by at most one row.
///
/// The base is streamed once. Memory: the buffers, and 8 bytes a row while `labels` are
/// checked and written. The folder appears whole or not at all. Errors: INVALID_ARGUMENT
/// for shards 0, above kMostShards or above the rows, for labels that are there twice or
/// are 2^64 - 1, and those of ReadLabels and CheckFinite; ALREADY_EXISTS; as AtomicFile;
/// CANCELLED.
absl::Status SplitVectors(const VectorFile& base, const SplitOptions& options,
                          const std::string& folder, Progress& progress);

}  // namespace hmann
