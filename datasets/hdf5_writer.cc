#include <fcntl.h>
#include <hdf5.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "datasets/hdf5_file.h"
#include "datasets/hdf5_handle.h"
#include "datasets/vector_file.h"
#include "datasets/vector_writer.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

constexpr std::uint64_t kBlockBytes = 16_MiB;

absl::Status WriteFailed(const std::string& path, const std::string& what) {
  return absl::InternalError(
      absl::StrCat("write ", path, ": HDF5 cannot write ", what, " (is the disk full?)"));
}

/// A new contiguous data set of n x dim elements of `type`.
Hdf5Handle CreateTable(const Hdf5Handle& file, const char* name, hid_t type, std::uint64_t n,
                       std::uint64_t dim) {
  const hsize_t extent[2] = {n, dim};
  const Hdf5Handle space(H5Screate_simple(2, extent, nullptr), H5Sclose);
  return Hdf5Handle(
      H5Dcreate2(file.get(), name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Dclose);
}

absl::Status WriteVectors(const std::string& path, const Hdf5Handle& file, const char* name,
                          const VectorFile& vectors) {
  const Hdf5Handle table = CreateTable(file, name, H5T_IEEE_F32LE, vectors.n(), vectors.dim());
  if (!table.ok()) return WriteFailed(path, name);
  const Hdf5Handle space(H5Dget_space(table.get()), H5Sclose);
  const std::size_t row_bytes = 4 * std::size_t{vectors.dim()};
  const std::uint64_t block_rows = std::max<std::uint64_t>(1, kBlockBytes / row_bytes);
  std::vector<std::byte> block(std::min(block_rows, vectors.n()) * row_bytes);
  for (std::uint64_t begin = 0; begin < vectors.n(); begin += block_rows) {
    const std::uint64_t rows = std::min(block_rows, vectors.n() - begin);
    for (std::uint64_t i = 0; i < rows; ++i) {
      const absl::Status status = ConvertRow(vectors.dtype(), vectors.Row(begin + i), DType::kF32,
                                             block.data() + i * row_bytes, vectors.dim());
      if (!status.ok())
        return absl::InvalidArgumentError(
            absl::StrCat(vectors.path(), ": row ", begin + i, ", ", status.message()));
    }
    const hsize_t start[2] = {begin, 0};
    const hsize_t count[2] = {rows, vectors.dim()};
    const Hdf5Handle memory(H5Screate_simple(2, count, nullptr), H5Sclose);
    if (H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start, nullptr, count, nullptr) < 0 ||
        H5Dwrite(table.get(), H5T_IEEE_F32LE, memory.get(), space.get(), H5P_DEFAULT,
                 block.data()) < 0) {
      return WriteFailed(path, name);
    }
  }
  return absl::OkStatus();
}

absl::Status WriteTruth(const std::string& path, const Hdf5Handle& file,
                        const Hdf5Neighbours& truth) {
  const Hdf5Handle ids = CreateTable(file, "neighbors", H5T_STD_I32LE, truth.n, truth.k);
  if (!ids.ok() ||
      H5Dwrite(ids.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, truth.ids.data()) < 0) {
    return WriteFailed(path, "neighbors");
  }
  if (!truth.distances.empty()) {
    const Hdf5Handle distances = CreateTable(file, "distances", H5T_IEEE_F64LE, truth.n, truth.k);
    if (!distances.ok() || H5Dwrite(distances.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL,
                                    H5P_DEFAULT, truth.distances.data()) < 0) {
      return WriteFailed(path, "distances");
    }
  }
  const Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), truth.distance.size());
  const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Hdf5Handle attribute(
      H5Acreate2(file.get(), "distance", type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  if (!attribute.ok() || H5Awrite(attribute.get(), type.get(), truth.distance.data()) < 0)
    return WriteFailed(path, "distance");
  return absl::OkStatus();
}

/// All of the file's content, under the name `path`, closed and on the disk.
absl::Status WriteContent(const std::string& path, const VectorFile& base,
                          const VectorFile& queries, const Hdf5Neighbours& truth) {
  {
    const Hdf5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                          H5Fclose);
    if (!file.ok()) return ErrnoError(errno, "create", path);
    HMANN_RETURN_IF_ERROR(WriteVectors(path, file, "train", base));
    HMANN_RETURN_IF_ERROR(WriteVectors(path, file, "test", queries));
    HMANN_RETURN_IF_ERROR(WriteTruth(path, file, truth));
    if (H5Fflush(file.get(), H5F_SCOPE_GLOBAL) < 0) return WriteFailed(path, "the file");
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoError(errno, "open", path);
  const int failed = ::fsync(fd) != 0 ? errno : 0;
  ::close(fd);
  return failed != 0 ? ErrnoError(failed, "fsync", path) : absl::OkStatus();
}

}  // namespace

absl::Status WriteHdf5(const std::string& path, const VectorFile& base, const VectorFile& queries,
                       const Hdf5Neighbours& truth) {
  if (truth.n != queries.n() || truth.k == 0 || truth.ids.size() != truth.n * truth.k ||
      queries.dim() != base.dim() ||
      (!truth.distances.empty() && truth.distances.size() != truth.ids.size()) ||
      truth.distance.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", queries.n(), " queries of dimension ", queries.dim(), ", base of dimension ",
        base.dim(), ", ground truth of ", truth.n, " x ", truth.k, ": they do not match"));
  }
  const Hdf5Lock lock;
  const std::string temporary = absl::StrCat(path, ".tmp.", ::getpid());
  absl::Status status = WriteContent(temporary, base, queries, truth);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0)
    status = ErrnoError(errno, "rename", temporary);
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

}  // namespace hmann
