#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/distance.h"

namespace hmann {

enum class Content : std::uint8_t { kVectors, kGroundTruth, kHdf5, kArchive };

/// A file as published.
struct RemoteFile {
  std::string name;  ///< local file name
  std::string url;
  Content content = Content::kVectors;
  /// Size of the file at `url`, computed from the format; 0: unknown (archive, HDF5).
  std::uint64_t total_bytes = 0;
  /// Bytes to fetch: a prefix, for vector files only, or total_bytes for all of it.
  std::uint64_t wanted_bytes = 0;
  std::uint32_t n = 0, dim = 0;  ///< vectors: of the whole file; ground truth: queries and k
  std::uint64_t rows = 0;        ///< vectors: wanted number, written to the header
};

/// A file inside an archive.
struct Member {
  std::string path;         ///< as in the archive, "sift/sift_base.fvecs"
  std::uint64_t bytes = 0;  ///< computed from the format
};

struct DataSet {
  std::string name;  ///< "bigann"
  std::string title;
  DType dtype = DType::kF32;
  std::uint32_t dim = 0;
  Metric metric = Metric::kL2;
  std::uint64_t n = 0;
  std::uint64_t queries = 0;
  /// Any prefix of the base is available: NAME:1M, NAME:10M, NAME:100M, NAME:250K, ...
  bool sliced = false;
  std::string where;  ///< URL prefix of the files, or URL of the one file
};

/// Every data set that `fetch` knows.
const std::vector<DataSet>& Catalog();

/// The meaning of a name: the files to download and, for archives, the files that they
/// must hold.
struct Selection {
  DataSet set;
  std::uint64_t rows = 0;  ///< of the base
  std::string folder;      ///< "bigann-10M", "sift1m"
  std::vector<RemoteFile> files;
  std::vector<Member> members;
  /// False if there is none to download for this slice. `hmann data groundtruth` computes
  /// it.
  bool has_ground_truth = false;
};

/// Resolves "bigann:10M", "sift1m". Errors: NOT_FOUND for an unknown name (the message
/// lists all); INVALID_ARGUMENT for a slice that is malformed, empty, larger than the
/// set, or of a set that is not sliced.
absl::StatusOr<Selection> Select(std::string_view name);

}  // namespace hmann
