#include "datasets/vector_file.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "datasets/file_vectors.h"
#include "datasets/hdf5_file.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/distance/check_norm.h"

namespace hmann {
namespace {

bool IsHdf5(const std::string& suffix) { return suffix == ".hdf5" || suffix == ".h5"; }
bool IsVecs(const std::string& suffix) { return suffix == ".fvecs" || suffix == ".bvecs"; }

/// Index of the first NaN or Inf among `dim` floats or halves (its `exponent` is all
/// ones), or dim.
template <class Bits>
std::uint32_t FirstNotFinite(const std::byte* row, std::uint32_t dim, Bits exponent) {
  const auto is_finite = [&](std::uint32_t c) {
    Bits bits;
    std::memcpy(&bits, row + c * sizeof(bits), sizeof(bits));
    return (bits & exponent) != exponent;
  };
  bool all_finite = true;
  for (std::uint32_t c = 0; c < dim; ++c) all_finite &= is_finite(c);
  if (all_finite) return dim;
  std::uint32_t c = 0;
  while (is_finite(c)) ++c;
  return c;
}

}  // namespace

absl::StatusOr<DType> DTypeOfSuffix(const std::string& path) {
  const std::string suffix = FormatSuffix(path);
  if (suffix == ".fbin" || suffix == ".fvecs" || suffix == ".npy" || suffix == ".csv")
    return DType::kF32;
  if (suffix == ".f16bin") return DType::kF16;
  if (suffix == ".u8bin" || suffix == ".bvecs") return DType::kU8;
  if (suffix == ".i8bin") return DType::kI8;
  if (suffix == ".hmann")
    return InvalidArgument(path, ": an index found, vectors expected (swap the two names?)");
  if (suffix == ".npz") return InvalidArgument(path, ": an archive: expected one array, np.save");
  if (IsTruthSuffix(suffix)) return InvalidArgument(path, ": ", suffix, " holds ids, not vectors");
  return InvalidArgument(path, ": suffix '", suffix,
                         "' found, expected .npy .fbin .f16bin .u8bin "
                         ".i8bin .fvecs .bvecs .csv or .hdf5");
}

absl::StatusOr<VectorFile> VectorFile::Open(const std::string& path, std::uint64_t rows) {
  VectorFile file;
  file.path_ = path;
  const auto [name, data_set] = SplitHdf5Path(path);
  const std::string suffix = FormatSuffix(name);
  if (IsHdf5(suffix) || suffix == ".npy" || suffix == ".csv") {
    HMANN_ASSIGN_OR_RETURN(
        FileVectors vectors,
        suffix == ".npy"   ? ReadNpyVectors(path, rows)
        : suffix == ".csv" ? ReadCsvVectors(path, rows)
                           : ReadHdf5Vectors(name, data_set.empty() ? "train" : data_set, rows));
    file.dtype_ = vectors.dtype;
    file.layout_ = vectors.layout;
    file.memory_ = std::move(vectors.memory);
    if (file.memory_.size() == 0) {
      HMANN_ASSIGN_OR_RETURN(file.file_, MappedFile::Open(name));
      const RowLayout& at = file.layout_;
      if (at.offset > file.file_.bytes().size() ||
          (file.file_.bytes().size() - at.offset) / at.stride < at.n) {
        return InvalidArgument(path, ": ", file.file_.bytes().size(), " bytes found, ",
                               at.offset + at.n * at.stride, " expected");
      }
    }
  } else {
    HMANN_ASSIGN_OR_RETURN(file.file_, MappedFile::Open(path));
    HMANN_ASSIGN_OR_RETURN(file.dtype_, DTypeOfSuffix(path));
    file.has_row_dims_ = IsVecs(suffix);
    const auto layout = (file.has_row_dims_ ? VecsLayout : BinLayout)(
        path, file.file_.bytes(), SizeOf(file.dtype_), rows, kMaxDim);
    if (!layout.ok()) return WithFormat(layout.status(), path, file.file_.bytes());
    file.layout_ = *layout;
  }
  file.data_ = file.memory_.size() > 0 ? file.memory_.data() : file.file_.bytes().data();
  return file;
}

absl::StatusOr<VectorFile> VectorFile::View(std::string name, const void* data, DType dtype,
                                            const RowLayout& layout) {
  if (layout.n == 0) return InvalidArgument(name, ": 0 vectors found, 1 expected");
  if (layout.dim == 0 || layout.dim > kMaxDim) {
    return InvalidArgument(name, ": dimension ", layout.dim, " found, 1 to ", kMaxDim, " expected");
  }
  VectorFile file;
  file.path_ = std::move(name);
  file.dtype_ = dtype;
  file.layout_ = layout;
  file.data_ = static_cast<const std::byte*>(data);
  return file;
}

absl::Status VectorFile::CheckFinite(std::uint64_t begin, std::uint64_t end) const {
  end = std::min(end, n());
  if (has_row_dims_)
    HMANN_RETURN_IF_ERROR(CheckVecsDims(path_, file_.bytes(), layout_, begin, end));
  if (!IsFloat(dtype_)) return absl::OkStatus();
  for (std::uint64_t i = begin; i < end; ++i) {
    const std::uint32_t component = dtype_ == DType::kF32
                                        ? FirstNotFinite<std::uint32_t>(Row(i), dim(), 0x7f800000)
                                        : FirstNotFinite<std::uint16_t>(Row(i), dim(), 0x7c00);
    if (component == dim()) continue;
    float value;
    ReadComponents(dtype_, Row(i) + component * SizeOf(dtype_), 1, &value);
    return InvalidArgument(path_, ": row ", i, ", component ", component, ": ", value,
                           " found, a finite number expected");
  }
  return absl::OkStatus();
}

absl::Status VectorFile::CheckScale(Metric metric) const {
  constexpr std::uint64_t kSampled = 4096;  // a guess
  if (metric == Metric::kCosine || dtype_ != DType::kF32) return absl::OkStatus();
  const std::uint64_t count = std::min(n(), kSampled);
  std::vector<float> components(dim());
  double most = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    ReadComponents(dtype_, Row(i * n() / count), dim(), components.data());
    double square = 0;
    for (const float x : components) square += double{x} * x;
    most = std::max(most, square);
    if (most > 0 && !Vanishes(dtype_, metric, most)) return absl::OkStatus();
  }
  if (most == 0) return absl::OkStatus();
  return InvalidArgument(path_, ": the largest squared norm of ", count,
                         " rows: expected at least ", kLeastSquaredNorm,
                         ", so that f32 distances do not vanish; found ", most,
                         ": scale the vectors");
}

absl::Status VectorFile::CheckShape(std::uint32_t dim, DType dtype,
                                    const std::string& as_in) const {
  if (dim == this->dim() && Encodes(dtype_, dtype)) return absl::OkStatus();
  return InvalidArgument(path_, ": expected vectors of ", dim, " x ", std::string(Name(dtype)),
                         " as in ", as_in, ", found ", this->dim(), " x ",
                         std::string(Name(dtype_)),
                         dim == this->dim() ? "; `hmann data convert` makes these" : "");
}

absl::Status VectorFile::FitQueries(std::uint32_t dim, DType dtype, const std::string& as_in) {
  HMANN_RETURN_IF_ERROR(CheckShape(dim, dtype, as_in));
  if (dtype_ != DType::kF16) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(Buffer floats, Buffer::Allocate(n() * dim * sizeof(float)));
  const RowLayout layout{.offset = 0, .stride = dim * sizeof(float), .n = n(), .dim = dim};
  for (std::uint64_t i = 0; i < n(); ++i) {
    ReadComponents(dtype_, Row(i), dim,
                   reinterpret_cast<float*>(floats.data() + i * layout.stride));
  }
  dtype_ = DType::kF32;
  layout_ = layout;
  file_ = MappedFile();
  memory_ = std::move(floats);
  data_ = memory_.data();
  return absl::OkStatus();
}

void VectorFile::Advise(MappedFile::Access access, std::uint64_t begin, std::uint64_t end) const {
  if (file_.bytes().empty() || begin >= end) return;
  file_.Advise(access, layout_.offset + begin * layout_.stride, (end - begin) * layout_.stride);
}

}  // namespace hmann
