#include "datasets/hdf5_file.h"

#include <hdf5.h>

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datasets/hdf5_handle.h"
#include "datasets/vector_file.h"
#include "index/base/cpu.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Deflate packs at most 1032 to 1. A data set that claims more per stored byte is
/// damaged.
constexpr std::uint64_t kMostCompression = 1032;
constexpr std::uint64_t kMostColumns = 1u << 24;

absl::StatusOr<Hdf5Handle> OpenFile(const std::string& path) {
  // Ask the kernel first: HDF5 does not distinguish a missing file from a foreign one.
  HMANN_ASSIGN_OR_RETURN(const MappedFile readable, MappedFile::Open(path));
  Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  if (!file.ok())
    return WithFormat(InvalidArgument(path, ": not an HDF5 file, or a damaged one (",
                                      readable.bytes().size(), " bytes)"),
                      path, readable.bytes());
  return file;
}

/// An opened two-dimensional data set whose size was checked against the stored bytes.
struct Table {
  Hdf5Handle set, type;
  std::string name;  ///< "file: data set train"
  std::uint64_t n = 0, dim = 0;
  H5D_layout_t layout = H5D_CHUNKED;
};

/// Returns an error unless n x dim elements are really stored in the file.
absl::Status CheckStored(const Table& table, const Hdf5Handle& properties) {
  const unsigned __int128 wanted =
      static_cast<unsigned __int128>(table.n) * table.dim * H5Tget_size(table.type.get());
  const std::uint64_t stored = H5Dget_storage_size(table.set.get());
  const bool filtered = H5Pget_nfilters(properties.get()) > 0;
  if (wanted <= static_cast<unsigned __int128>(stored) * (filtered ? kMostCompression : 1))
    return absl::OkStatus();
  return InvalidArgument(table.name, ": ", stored, " bytes stored, not enough for ", table.n, " x ",
                         table.dim, " components");
}

absl::StatusOr<Table> OpenTable(const std::string& path, const Hdf5Handle& file,
                                const std::string& name, std::uint64_t most_dim) {
  Table table;
  table.name = absl::StrCat(path, ": data set ", name);
  table.set = Hdf5Handle(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!table.set.ok()) return InvalidArgument(table.name, ": not in the file");
  table.type = Hdf5Handle(H5Dget_type(table.set.get()), H5Tclose);
  const Hdf5Handle space(H5Dget_space(table.set.get()), H5Sclose);
  const Hdf5Handle properties(H5Dget_create_plist(table.set.get()), H5Pclose);
  if (!table.type.ok() || !space.ok() || !properties.ok())
    return InvalidArgument(table.name, ": damaged");
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank != 2) return InvalidArgument(table.name, ": ", rank, " dimensions found, 2 expected");
  hsize_t extent[2] = {0, 0};
  H5Sget_simple_extent_dims(space.get(), extent, nullptr);
  table.n = extent[0];
  table.dim = extent[1];
  if (table.n == 0 || table.n > std::numeric_limits<std::uint32_t>::max() || table.dim == 0 ||
      table.dim > most_dim) {
    return InvalidArgument(table.name, ": ", table.n, " x ", table.dim,
                           " found, 1 to 2^32 - 1 rows of 1 to ", most_dim, " components expected");
  }
  table.layout = H5Pget_layout(properties.get());
  HMANN_RETURN_IF_ERROR(CheckStored(table, properties));
  return table;
}

/// Reads the first `rows` rows, converted to `memory_type`, into `out` (rows x table.dim
/// of that type).
absl::Status ReadRows(const Table& table, std::uint64_t rows, hid_t memory_type, void* out) {
  const Hdf5Handle from(H5Dget_space(table.set.get()), H5Sclose);
  const hsize_t start[2] = {0, 0};
  const hsize_t count[2] = {rows, table.dim};
  const Hdf5Handle to(H5Screate_simple(2, count, nullptr), H5Sclose);
  if (!from.ok() || !to.ok() ||
      H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, start, nullptr, count, nullptr) < 0 ||
      H5Dread(table.set.get(), memory_type, to.get(), from.get(), H5P_DEFAULT, out) < 0) {
    return DataLoss(table.name, ": ", rows, " x ", table.dim, " components cannot be read");
  }
  return absl::OkStatus();
}

/// Returns the dtype that holds the data set's components, and whether the file has
/// exactly that form (then it can be mapped).
absl::StatusOr<std::pair<DType, bool>> TypeOf(const Table& table) {
  const hid_t type = table.type.get();
  const H5T_class_t kind = H5Tget_class(type);
  const std::size_t size = H5Tget_size(type);
  if (kind == H5T_FLOAT && size == 4)
    return std::pair(DType::kF32, H5Tequal(type, H5T_IEEE_F32LE) > 0);
  if (kind == H5T_FLOAT && size == 8) return std::pair(DType::kF32, false);
  if (kind == H5T_INTEGER && size == 1)
    return std::pair(H5Tget_sign(type) == H5T_SGN_NONE ? DType::kU8 : DType::kI8, true);
  if (kind == H5T_FLOAT && size == 2)
    return Unimplemented(table.name, ": f16 is not supported yet");
  return InvalidArgument(table.name, ": components of another type than f32, f64, u8 or i8");
}

absl::StatusOr<std::string> ReadDistance(const std::string& path, const Hdf5Handle& file) {
  constexpr std::size_t kMostBytes = 64;
  if (H5Aexists(file.get(), "distance") <= 0)
    return InvalidArgument(path, ": attribute distance: not in the file");
  const Hdf5Handle attribute(H5Aopen(file.get(), "distance", H5P_DEFAULT), H5Aclose);
  const Hdf5Handle type(H5Aget_type(attribute.get()), H5Tclose);
  const Hdf5Handle space(H5Aget_space(attribute.get()), H5Sclose);
  if (!type.ok() || !space.ok() || H5Tget_class(type.get()) != H5T_STRING ||
      H5Sget_simple_extent_npoints(space.get()) != 1) {
    return InvalidArgument(path, ": attribute distance: one string expected");
  }
  std::string text;
  if (H5Tis_variable_str(type.get()) > 0) {
    char* value = nullptr;
    if (H5Aread(attribute.get(), type.get(), &value) >= 0 && value != nullptr) {
      text.assign(value, ::strnlen(value, kMostBytes));
      H5free_memory(value);
    }
  } else if (H5Tget_size(type.get()) <= kMostBytes) {
    char value[kMostBytes + 1] = {};
    if (H5Aread(attribute.get(), type.get(), value) >= 0) text = value;
  }
  if (text.empty()) return InvalidArgument(path, ": attribute distance: cannot be read");
  return text;
}

}  // namespace

absl::StatusOr<FileVectors> ReadHdf5Vectors(const std::string& path, const std::string& name,
                                            std::uint64_t rows) {
  if (name != "train" && name != "test") {
    return InvalidArgument(path, ": data set \"", name, "\" asked for, train or test expected");
  }
  const Hdf5Lock lock;
  HMANN_ASSIGN_OR_RETURN(const Hdf5Handle file, OpenFile(path));
  HMANN_ASSIGN_OR_RETURN(const Table table, OpenTable(path, file, name, kMaxDim));
  if (rows > table.n)
    return InvalidArgument(table.name, ": ", rows, " rows asked for, it holds ", table.n);
  HMANN_ASSIGN_OR_RETURN(const auto typed, TypeOf(table));
  const auto [dtype, as_stored] = typed;
  const std::uint64_t row_bytes = table.dim * SizeOf(dtype);
  FileVectors vectors{.dtype = dtype,
                      .layout = {.offset = 0,
                                 .stride = row_bytes,
                                 .n = rows == 0 ? table.n : rows,
                                 .dim = static_cast<std::uint32_t>(table.dim)},
                      .memory = {}};
  const haddr_t offset = H5Dget_offset(table.set.get());
  if (as_stored && table.layout == H5D_CONTIGUOUS && offset != HADDR_UNDEF) {
    vectors.layout.offset = offset;
    return vectors;
  }
  HMANN_RETURN_IF_ERROR(vectors.Allocate(table.name, "chunked or of doubles"));
  const hid_t memory_type = dtype == DType::kF32  ? H5T_IEEE_F32LE
                            : dtype == DType::kU8 ? H5T_NATIVE_UINT8
                                                  : H5T_NATIVE_INT8;
  HMANN_RETURN_IF_ERROR(ReadRows(table, vectors.layout.n, memory_type, vectors.memory.data()));
  return vectors;
}

absl::StatusOr<Hdf5Neighbors> ReadHdf5Neighbors(const std::string& path) {
  const Hdf5Lock lock;
  HMANN_ASSIGN_OR_RETURN(const Hdf5Handle file, OpenFile(path));
  Hdf5Neighbors truth;
  HMANN_ASSIGN_OR_RETURN(truth.distance, ReadDistance(path, file));
  HMANN_ASSIGN_OR_RETURN(const Table ids, OpenTable(path, file, "neighbors", kMostColumns));
  if (H5Tget_class(ids.type.get()) != H5T_INTEGER)
    return InvalidArgument(ids.name, ": integers expected");
  truth.n = ids.n;
  truth.k = ids.dim;
  if (truth.n * truth.k > UsableMemoryBytes() / 16) {
    return ResourceExhausted(ids.name, ": ", truth.n, " x ", truth.k, " do not fit in memory");
  }
  truth.ids.resize(truth.n * truth.k);
  HMANN_RETURN_IF_ERROR(ReadRows(ids, ids.n, H5T_NATIVE_INT64, truth.ids.data()));
  if (H5Lexists(file.get(), "distances", H5P_DEFAULT) <= 0) return truth;
  HMANN_ASSIGN_OR_RETURN(const Table distances, OpenTable(path, file, "distances", kMostColumns));
  if (distances.n != ids.n || distances.dim != ids.dim ||
      H5Tget_class(distances.type.get()) != H5T_FLOAT) {
    return InvalidArgument(distances.name, ": ", distances.n, " x ", distances.dim, " found, ",
                           ids.n, " x ", ids.dim, " floats expected");
  }
  truth.distances.resize(truth.n * truth.k);
  HMANN_RETURN_IF_ERROR(
      ReadRows(distances, distances.n, H5T_NATIVE_DOUBLE, truth.distances.data()));
  return truth;
}

absl::StatusOr<Metric> ReadHdf5Metric(const std::string& path) {
  const Hdf5Lock lock;
  HMANN_ASSIGN_OR_RETURN(const Hdf5Handle file, OpenFile(path));
  HMANN_ASSIGN_OR_RETURN(const std::string distance, ReadDistance(path, file));
  if (distance == "euclidean") return Metric::kL2;
  if (distance == "angular") return Metric::kCosine;
  if (distance == "dot" || distance == "ip") return Metric::kInnerProduct;
  return Unimplemented(path, ": distance ", distance, " is not supported yet");
}

}  // namespace hmann
