/// New vectors made from real ones, for data sets larger than those that exist.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "datasets/vector_file.h"
#include "hmann/progress.h"

namespace hmann {

struct ResampleOptions {
  std::uint64_t n = 0;
  std::uint64_t first = 0;   ///< number of the first vector
  std::uint32_t parts = 16;  ///< runs of components that are replaced as a whole
  std::uint32_t near = 8;    ///< near rows from which other parts come
  double share = 0.25;       ///< share of parts that come from another row
  bool queries = false;      ///< made from held-out rows, one in a hundred, never used for others
  double norm_sigma = 0;     ///< only for f32: see NormSpread
  std::uint64_t seed = 1;
  int threads = 0;  ///< 0: UsableCores(); the vectors do not depend on it
  const std::atomic<bool>* cancelled = nullptr;  ///< not owned

  /// For vectors made from `from`. Errors: INVALID_ARGUMENT naming option or file,
  /// expected and found, also for a source of fewer rows than 100, or of fewer components
  /// than parts.
  absl::Status Validate(const VectorFile& from) const;
};

/// Vector i takes row i (round after round, in an order drawn from the seed) and replaces
/// a share of its parts by those of rows near it. It is a function of (source, near_rows,
/// options, i) alone, so a larger set begins with the smaller one.
///
/// near_rows: [row of from][options.near], nearest first; a number that is no row of
/// `from` ends a list. The suffix of `path` must match from's dtype. Errors: as Validate
/// and VectorWriter; CANCELLED.
absl::Status Resample(const VectorFile& from, const std::vector<std::uint32_t>& near_rows,
                      const ResampleOptions& options, const std::string& path, Progress& progress);

}  // namespace hmann
