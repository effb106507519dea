#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "datasets/vector_file.h"
#include "index/construct/make_bottom.h"
#include "index/construct/stages.h"
#include "index/distance/distance.h"

namespace hmann {

/// What L0 is made of within bounded memory. Referenced while it is made.
struct StreamedBottomSource {
  const VectorFile& file;
  const Kernels& kernels;
  std::uint32_t m, ef_construction;
  float alpha;
  std::uint64_t seed;
  std::uint64_t room;  ///< bytes that a job may take for what it loads
};

/// L0 by partition, with its backbone and its copies: the same links as JoinBottom,
/// LinkBackbone and LinkDuplicates make. Vectors and links lie in files of the work
/// folder, mapped; what is written to them stays in memory. Errors: those of LoadVectors
/// and of StreamedLayer.
absl::StatusOr<Bottom> MakeStreamedBottom(const StreamedBottomSource& source, Stages stages);

/// Memory that MakeStreamedBottom takes besides what a job loads: numbers of n rows.
std::uint64_t FixedBottomBytes(std::uint64_t n);

}  // namespace hmann
