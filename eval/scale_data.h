/// Vectors of one size: real ones as far as there are some, made-up ones beyond.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "eval/scale.h"

namespace hmann {

// NOLINTNEXTLINE(bugprone-exception-escape): moving json throws in assertions only.
struct SizedData {
  std::string base;        ///< vector file, of which the first n rows count
  std::string learn, ask;  ///< queries that dials are chosen on; others, that figures are of
  std::string learn_truth, ask_truth;  ///< their exact neighbours
  bool made_up = false;
  std::uint64_t learn_count = 0, ask_count = 0;
  Json
      density;  ///< `tenth` (median distance of the 10th neighbour), `intrinsic_dim`; null: unknown
};

/// Whether an index of n vectors needs made-up ones. `base`: the real ones.
bool NeedsMadeUp(const VectorFile& base, std::uint64_t n);

/// Makes in `folder` what is not there yet: vectors if they must be made up, both sets of
/// queries, exact neighbours. Errors: those of the files, Resample and ExactNeighbours;
/// INVALID_ARGUMENT for fewer than two queries.
absl::StatusOr<SizedData> PrepareSize(const ScaleOptions& options, const VectorFile& base,
                                      std::uint64_t n, const std::string& folder,
                                      Progress& progress,
                                      const std::function<void(const std::string&)>& say);

}  // namespace hmann
