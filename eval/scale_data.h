/// Vectors of one size: real ones as far as there are some, made-up ones beyond.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "eval/scale.h"

namespace hmann {

// NOLINTNEXTLINE(bugprone-exception-escape): moving json throws in assertions only.
struct SizedData {
  std::string base;            ///< vector file, of which the first n rows count
  std::string queries, truth;  ///< and their exact neighbours
  std::uint64_t query_rows = 0;
  bool made_up = false;
  Json
      density;  ///< `tenth` (median distance of the 10th neighbour), `intrinsic_dim`; null: unknown
};

/// Makes in `folder` what is not there yet: vectors and queries if they must be made up,
/// exact neighbours. Errors: those of the files, Resample and ExactNeighbours.
absl::StatusOr<SizedData> PrepareSize(const ContestantJob& job, const VectorFile& base,
                                      std::uint64_t n, const std::string& folder,
                                      Progress& progress, const Say& say);

}  // namespace hmann
