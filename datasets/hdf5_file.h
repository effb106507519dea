/// ann-benchmarks' HDF5 files: `train` n x d, `test` nq x d, `neighbors` and `distances`
/// nq x k, attribute `distance`.
///
/// HDF5 is used only while a file is opened, never while vectors are read. Debian's
/// library is not thread-safe, so calls here take a lock. Builds without HDF5 answer
/// every call with UNIMPLEMENTED.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/file_vectors.h"

namespace hmann {

/// `name`: "train" or "test". Components may be f32, f64 (rounded to f32), u8 or i8.
/// Errors: as VectorFile::Open.
absl::StatusOr<FileVectors> ReadHdf5Vectors(const std::string& path, const std::string& name,
                                            std::uint64_t rows);

/// `neighbors` and, if present, `distances`, row-major n x k.
struct Hdf5Neighbors {
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  std::vector<std::int64_t> ids;
  std::vector<double> distances;  ///< as in the file: euclidean ones are not squared
  std::string distance;           ///< attribute: "euclidean", "angular", ...
};
absl::StatusOr<Hdf5Neighbors> ReadHdf5Neighbors(const std::string& path);

/// The metric that the attribute `distance` names: euclidean is L2, angular is cosine.
/// Errors: UNIMPLEMENTED for hamming, jaccard and others.
absl::StatusOr<Metric> ReadHdf5Metric(const std::string& path);

}  // namespace hmann
