#pragma once

#include <cstdint>
#include <optional>
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
  std::uint64_t total_bytes = 0;  ///< of the whole file at `url`, computed from the format; 0: the
                                  ///< format does not tell (archive, HDF5)
  std::uint64_t wanted_bytes =
      0;  ///< a prefix, of a vector file only; equal to total_bytes for all of it
  std::uint32_t n = 0, dim = 0;  ///< vectors: of the whole file; ground truth: queries and k
  std::uint64_t rows = 0;        ///< vectors: how many are wanted; the header is rewritten to it
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
  bool sliced =
      false;  ///< any prefix of the base can be had: NAME:1M, NAME:10M, NAME:100M, NAME:250K, ...
  std::string where;  ///< address in front of the file names, or of the one file
};

/// Everything that `fetch` knows.
const std::vector<DataSet>& Catalogue();

/// What a name stands for: the files to download and, for archives, what they must hold.
struct Selection {
  DataSet set;
  std::uint64_t rows = 0;  ///< of the base
  std::string folder;      ///< "bigann-10M", "sift1m"
  std::vector<RemoteFile> files;
  std::vector<Member> members;
  bool has_ground_truth =
      false;  ///< false: no one publishes it for this slice; `hmann data groundtruth` computes it
};

/// "bigann:10M", "sift1m". Errors: NOT_FOUND for an unknown name (the message lists all);
/// INVALID_ARGUMENT for a slice that is malformed, empty, larger than the set, or of a
/// set that is not sliced.
absl::StatusOr<Selection> Select(std::string_view name);

/// "10M" -> 10000000, "250K", "1B", "1234". Errors: INVALID_ARGUMENT.
absl::StatusOr<std::uint64_t> ParseCount(std::string_view text);

}  // namespace hmann
