#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "hmann/distance.h"
#include "index/base/status_macros.h"
#include "index/distance/simd_level.h"

namespace hmann {
namespace {

std::string BuiltNames() {
  std::string names;
  for (const SimdLevel& level : BuiltSimdLevels()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", level.name,
                    level.supported() ? "" : " (not on this CPU)");
  }
  return names;
}

absl::StatusOr<const SimdLevel*> ChooseLevel() {
  const char* forced = std::getenv("HMANN_SIMD");
  const bool is_forced = forced != nullptr && *forced != '\0';
  for (const SimdLevel& level : BuiltSimdLevels()) {
    if (is_forced ? std::string_view(forced) == level.name && level.supported() : level.supported())
      return &level;
  }
  return InvalidArgument("HMANN_SIMD: expected one of ", BuiltNames(), "; found '", forced, "'");
}

}  // namespace

absl::StatusOr<std::string_view> ChosenSimd() {
  HMANN_ASSIGN_OR_RETURN(const SimdLevel* level, ChooseLevel());
  return std::string_view(level->name);
}

absl::StatusOr<Kernels> ChooseKernels(DType dtype, Metric metric, std::uint32_t dim) {
  if (dim == 0 || dim > kMaxDim)
    return InvalidArgument("dimension: expected 1 to ", kMaxDim, "; found ", dim);
  HMANN_ASSIGN_OR_RETURN(const SimdLevel* level, ChooseLevel());
  const KernelRow* row = FindKernel(level->table(), dtype, metric, dim);
  Kernels kernels;
  kernels.one = row->one;
  kernels.many = row->many;
  kernels.block = row->block;
  kernels.dtype = dtype;
  kernels.metric = metric;
  kernels.dim = dim;
  kernels.row_bytes = static_cast<std::uint32_t>(dim * SizeOf(dtype));
  if (metric == Metric::kCosine && !IsFloat(dtype)) kernels.row_bytes = (dim + 3) / 4 * 4 + 4;
  kernels.simd = level->name;
  return kernels;
}

}  // namespace hmann
