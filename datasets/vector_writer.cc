#include "datasets/vector_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "datasets/file_vectors.h"
#include "index/base/cpu.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"
#include "index/base/units.h"

namespace hmann {
namespace {

constexpr std::uint64_t kProgressRows = 4096;

bool WriteComponent(DType dtype, float value, std::byte* row, std::uint32_t c) {
  if (!std::isfinite(value)) return false;
  if (dtype == DType::kF32) {
    std::memcpy(row + 4 * std::size_t{c}, &value, 4);
    return true;
  }
  const float least = dtype == DType::kU8 ? 0.0f : -128.0f;
  if (value < least || value > least + 255.0f || value != std::trunc(value)) return false;
  row[c] = static_cast<std::byte>(static_cast<int>(value));
  return true;
}

}  // namespace

absl::StatusOr<VectorWriter> VectorWriter::Create(const std::string& path, std::uint32_t dim,
                                                  DType of_npy) {
  VectorWriter writer;
  HMANN_RETURN_IF_ERROR(FileToWrite(path).status());
  writer.path_ = path;
  writer.dim_ = dim;
  HMANN_ASSIGN_OR_RETURN(writer.dtype_, DTypeOfSuffix(path));
  if (dim == 0 || dim > kMaxDim) {
    return InvalidArgument(path, ": dimension ", dim, " asked for, 1 to ", kMaxDim, " expected");
  }
  writer.suffix_ = FormatSuffix(path);
  if (writer.suffix_ == ".npy") writer.dtype_ = of_npy;
  HMANN_ASSIGN_OR_RETURN(writer.file_, AtomicFile::Create(path));
  const std::string header = writer.Header();
  HMANN_RETURN_IF_ERROR(writer.file_.Append(header.data(), header.size()));
  return writer;
}

/// What precedes the first row.
std::string VectorWriter::Header() const {
  if (suffix_ == ".npy") return NpyHeader(dtype_, n_, dim_);
  if (has_row_dims() || suffix_ == ".csv") return "";
  const std::uint32_t header[2] = {static_cast<std::uint32_t>(n_), dim_};
  return {reinterpret_cast<const char*>(header), sizeof(header)};
}

absl::Status VectorWriter::Append(const std::byte* rows, std::uint64_t n) {
  const std::size_t row_bytes = dim_ * SizeOf(dtype_);
  n_ += n;
  if (!has_row_dims() && suffix_ != ".csv") return file_.Append(rows, n * row_bytes);
  for (std::uint64_t i = 0; i < n; ++i) {
    if (suffix_ == ".csv") {
      std::vector<float> values(dim_);
      ReadComponents(dtype_, rows + i * row_bytes, dim_, values.data());
      const std::string line = absl::StrJoin(values, ",", [](std::string* out, float value) {
        absl::StrAppendFormat(out, "%.9g", value);
      });
      HMANN_RETURN_IF_ERROR(file_.Append(line.data(), line.size()));
      HMANN_RETURN_IF_ERROR(file_.Append("\n", 1));
      continue;
    }
    HMANN_RETURN_IF_ERROR(file_.Append(&dim_, 4));
    HMANN_RETURN_IF_ERROR(file_.Append(rows + i * row_bytes, row_bytes));
  }
  return absl::OkStatus();
}

absl::Status VectorWriter::Commit() {
  if (n_ == 0) return InvalidArgument(path_, ": 0 vectors to write, at least 1 expected");
  if (!has_row_dims() && n_ > std::numeric_limits<std::uint32_t>::max())
    return InvalidArgument(path_, ": ", n_, " vectors to write, less than 2^32 expected");
  const std::string header = Header();
  if (!header.empty()) HMANN_RETURN_IF_ERROR(file_.WriteAt(0, header.data(), header.size()));
  return file_.Commit();
}

absl::Status WriteMadeRows(const std::string& path, std::uint32_t dim, std::uint64_t n, int threads,
                           const std::function<void(std::uint64_t, std::byte*)>& make,
                           Progress& progress, const std::atomic<bool>* cancelled) {
  constexpr std::uint64_t kBlockBytes = 4_MiB;
  HMANN_ASSIGN_OR_RETURN(VectorWriter writer, VectorWriter::Create(path, dim));
  ThreadPool pool(threads > 0 ? threads : UsableCores());
  const std::size_t row_bytes = dim * SizeOf(writer.dtype());
  const std::uint64_t block_rows = std::max<std::uint64_t>(64, kBlockBytes / row_bytes);
  std::vector<std::byte> block(std::min(block_rows, n) * row_bytes);
  progress.Start("generate", n, "vectors");
  for (std::uint64_t begin = 0; begin < n; begin += block_rows) {
    if (cancelled != nullptr && cancelled->load())
      return absl::CancelledError("the work was cancelled");
    const std::uint64_t rows = std::min(block_rows, n - begin);
    pool.ParallelFor(rows, 64, [&](std::size_t from, std::size_t to, int) {
      for (std::size_t i = from; i < to; ++i) make(begin + i, block.data() + i * row_bytes);
    });
    HMANN_RETURN_IF_ERROR(writer.Append(block.data(), rows));
    progress.Advance(rows);
  }
  progress.Finish();
  return writer.Commit();
}

absl::Status ConvertRow(DType from, const std::byte* in, DType to, std::byte* out,
                        std::uint32_t dim) {
  thread_local std::vector<float> values;
  values.resize(dim);
  ReadComponents(from, in, dim, values.data());
  if (to == DType::kF16) {
    Kernels rows;
    rows.dtype = to;
    rows.dim = dim;
    return EncodeRow(rows, values.data(), out);
  }
  for (std::uint32_t c = 0; c < dim; ++c) {
    if (WriteComponent(to, values[c], out, c)) continue;
    return InvalidArgument("component ", c, ": ", values[c], " found, a value that ",
                           std::string(Name(to)), " holds exactly expected");
  }
  return absl::OkStatus();
}

absl::Status ConvertVectors(const VectorFile& from, const std::string& path, Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(VectorWriter writer, VectorWriter::Create(path, from.dim(), from.dtype()));
  from.Advise(MappedFile::Access::kSequential, 0, from.n());
  std::vector<std::byte> row(from.dim() * SizeOf(writer.dtype()));
  progress.Start("convert", from.n(), "vectors");
  for (std::uint64_t begin = 0; begin < from.n(); begin += kProgressRows) {
    const std::uint64_t end = std::min(from.n(), begin + kProgressRows);
    HMANN_RETURN_IF_ERROR(from.CheckFinite(begin, end));
    for (std::uint64_t i = begin; i < end; ++i) {
      if (const absl::Status status =
              ConvertRow(from.dtype(), from.Row(i), writer.dtype(), row.data(), from.dim());
          !status.ok()) {
        return InvalidArgument(from.path(), ": row ", i, ", ", status.message());
      }
      HMANN_RETURN_IF_ERROR(writer.Append(row.data(), 1));
    }
    progress.Advance(end - begin);
  }
  progress.Finish();
  return writer.Commit();
}

}  // namespace hmann
