#include "client/python/core/vectors.h"

#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/python/core/gil.h"
#include "datasets/recall.h"
#include "datasets/vector_writer.h"
#include "index/base/errors.h"

namespace hmann::python {
namespace {

/// "(100, 128)".
std::string ShapeOf(const py::array& array) { return Shown(array.attr("shape")); }

[[noreturn]] void RaiseArray(const std::string& name, const char* expected,
                             const std::string& found) {
  Raise(InvalidArgument(name, ": expected ", expected, ", found ", found));
}

/// The DType for a numpy type number.
std::optional<DType> DTypeOf(int number) {
  using Numbers = py::detail::npy_api;
  if (number == Numbers::NPY_FLOAT_) return DType::kF32;
  if (number == Numbers::NPY_UBYTE_) return DType::kU8;
  if (number == Numbers::NPY_BYTE_) return DType::kI8;
  constexpr int kNumpyHalf = 23;  // NPY_HALF; pybind11 has no name for it
  if (number == kNumpyHalf) return DType::kF16;
  return std::nullopt;
}

/// Keeps the owner of the data of an array alive.
template <typename T>
py::capsule KeeperOf(T value) {
  auto kept = std::make_unique<T>(std::move(value));
  py::capsule capsule(kept.get(), [](void* pointer) { delete static_cast<T*>(pointer); });
  static_cast<void>(kept.release());
  return capsule;
}

template <typename T, typename From>
py::array_t<T> Table(const std::vector<From>& values, std::uint64_t n, std::uint64_t k) {
  py::array_t<T> table({static_cast<py::ssize_t>(n), static_cast<py::ssize_t>(k)});
  std::copy(values.begin(), values.end(), table.mutable_data());
  return table;
}

/// The n x k numbers of an array, contiguous.
template <typename T>
std::vector<T> Flat(const py::array& array) {
  const auto dense = py::array_t<T, py::array::c_style | py::array::forcecast>::ensure(array);
  if (!dense) throw py::error_already_set();
  return {dense.data(), dense.data() + dense.size()};
}

GroundTruth TruthOf(const char* name, const py::object& pair_labels, const py::object& distances) {
  const py::array labels = ToArray(name, pair_labels);
  const char kind = labels.dtype().kind();
  if ((kind != 'i' && kind != 'u') || labels.ndim() != 2)
    RaiseArray(name, "labels, whole numbers of shape (n, k)", Shown(pair_labels));
  GroundTruth truth;
  truth.n = static_cast<std::uint32_t>(labels.shape(0));
  truth.k = static_cast<std::uint32_t>(labels.shape(1));
  truth.ids = Flat<std::uint64_t>(labels);
  if (!distances.is_none()) {
    const py::array array = ToArray(name, distances);
    if (!array.attr("shape").equal(labels.attr("shape")))
      RaiseArray(name, "distances of the shape of the labels", Shown(distances));
    truth.distances = Flat<float>(array);
  }
  return truth;
}

}  // namespace

const char* NumpyName(DType dtype) {
  return dtype == DType::kF32   ? "float32"
         : dtype == DType::kF16 ? "float16"
         : dtype == DType::kU8  ? "uint8"
                                : "int8";
}

py::dtype NumpyType(DType dtype) { return py::dtype(NumpyName(dtype)); }

bool IsPath(py::handle value) {
  return PyUnicode_Check(value.ptr()) != 0 || PyBytes_Check(value.ptr()) != 0 ||
         py::hasattr(value, "__fspath__");
}

py::array ToArray(const std::string& name, py::handle value) {
  const bool is_array = Py_TYPE(value.ptr()) == py::detail::npy_api::get().PyArray_Type_;
  if (is_array || PyLong_Check(value.ptr()) != 0) {
    py::array array = py::array::ensure(value);
    if (array && array.dtype().kind() != 'O') return array;
  }
  return py::module_::import("hmann._arrays").attr("array")(name, value);
}

Rows ToRows(const std::string& name, py::handle value, bool single_too,
            std::optional<DType> wanted) {
  py::array array;
  std::optional<DType> dtype;
  if (Py_TYPE(value.ptr()) == py::detail::npy_api::get().PyArray_Type_) {
    array = py::reinterpret_borrow<py::array>(value);
    const py::dtype type = array.dtype();
    if (type.byteorder() != '>') dtype = DTypeOf(type.num());
  }
  if (!dtype.has_value() || dtype != wanted.value_or(*dtype)) {
    const py::object as = wanted.has_value() ? py::object(NumpyType(*wanted)) : py::none();
    array = py::module_::import("hmann._arrays").attr("vectors")(name, value, as);
    dtype = DTypeOf(array.dtype().num());
  }
  Rows rows;
  rows.dtype = *dtype;
  const bool single = array.ndim() == 1 && single_too;
  if (array.ndim() != 2 && !single)
    RaiseArray(name, single_too ? "shape (dim,) or (n, dim)" : "shape (n, dim)", ShapeOf(array));
  const int last = static_cast<int>(array.ndim()) - 1;
  if (array.shape(last) > static_cast<py::ssize_t>(kMaxDim))
    RaiseArray(name, "at most 32768 dimensions", ShapeOf(array));
  if (array.shape(last) > 1 && array.strides(last) != array.itemsize())
    array = py::module_::import("numpy").attr("ascontiguousarray")(array);
  rows.data = static_cast<const std::byte*>(array.data());
  rows.single = single;
  rows.n = single ? 1 : static_cast<std::uint64_t>(array.shape(0));
  rows.dim = static_cast<std::uint32_t>(array.shape(last));
  rows.stride = single ? 0 : array.strides(0);
  rows.array = std::move(array);
  return rows;
}

py::array_t<std::int64_t> ToLabels(const std::string& name, const py::array& array, bool single_too,
                                   const char* advice) {
  const char kind = array.dtype().kind();
  if (kind != 'i' && kind != 'u' && array.size() > 0)
    RaiseType(absl::StrCat(name, ": expected whole numbers, found ",
                           Shown(py::str(py::handle(array.dtype()))), advice));
  if (array.ndim() != 1 && !(array.ndim() == 0 && single_too))
    RaiseArray(name, single_too ? "one, or shape (n,)" : "shape (n,)", ShapeOf(array));
  auto labels = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>::ensure(array);
  if (!labels) throw py::error_already_set();
  for (py::ssize_t i = 0; i < labels.size(); ++i) {
    if (labels.data()[i] >= 0) continue;
    const py::str found(py::object(array.attr("flat")[py::int_(i)]));
    Raise(InvalidArgument(name, ": expected 0 to 2^63 - 1, found ", found.cast<std::string>(),
                          " at ", i, advice));
  }
  return labels;
}

VectorsInMemory ToMemory(const std::string& name, py::handle value, py::object* keep,
                         std::optional<DType> wanted) {
  Rows rows = ToRows(name, value, false, wanted);
  if (rows.stride < 0)
    rows = ToRows(name, py::module_::import("numpy").attr("ascontiguousarray")(rows.array), false);
  // Rejected here, since the engine treats an empty array as no array.
  if (rows.n == 0 || rows.dim == 0) RaiseArray(name, "vectors", ShapeOf(rows.array));
  *keep = rows.array;
  return {rows.data, rows.dtype, rows.dim, rows.n, static_cast<std::uint64_t>(rows.stride)};
}

Vectors ToVectors(const std::string& name, py::handle value, std::optional<DType> wanted) {
  if (IsPath(value)) return {{}, Value(VectorFile::Open(ToPath(name, value)))};
  py::object keep;
  const VectorsInMemory memory = ToMemory(name, value, &keep, wanted);
  VectorFile view = Value(
      VectorFile::View(name, memory.data, memory.dtype,
                       {.offset = 0, .stride = memory.stride, .n = memory.n, .dim = memory.dim}));
  return {py::array(std::move(keep)), std::move(view)};
}

py::array ReadVectors(py::handle path, py::handle rows) {
  const auto count = static_cast<std::uint64_t>(
      rows.is_none() ? 0 : ToInteger("rows", rows, 0, std::numeric_limits<std::int64_t>::max()));
  VectorFile file = Value(VectorFile::Open(ToPath("path", path), count));
  absl::Status status;
  {
    const WithoutGil without_gil;
    status = file.CheckFinite();
  }
  Check(status);
  const py::dtype type = NumpyType(file.dtype());
  const std::byte* data = file.Row(0);
  const auto n = static_cast<py::ssize_t>(file.n()), dim = static_cast<py::ssize_t>(file.dim()),
             stride = static_cast<py::ssize_t>(file.stride());
  py::array array(type, {n, dim}, {stride, type.itemsize()}, data, KeeperOf(std::move(file)));
  array.attr("flags").attr("writeable") = false;  // the array is a mapping of the file
  return array;
}

void WriteVectors(py::handle path, py::handle vectors) {
  const std::string to = ToPath("path", path);
  const Vectors from = ToVectors("vectors", vectors);
  absl::Status status;
  {
    const WithoutGil without_gil;
    Progress quiet(Progress::Show::kNever);
    status = ConvertVectors(from.file, to, quiet);
  }
  Check(status);
}

py::tuple ToPython(const GroundTruth& truth) {
  // kNoNeighbor becomes -1.
  const py::array_t<std::int64_t> labels = Table<std::int64_t>(truth.ids, truth.n, truth.k);
  if (truth.distances.empty()) return py::make_tuple(labels, py::none());
  return py::make_tuple(labels, Table<float>(truth.distances, truth.n, truth.k));
}

py::tuple ReadTruth(py::handle path) {
  return ToPython(Value(ReadGroundTruth(ToPath("path", path))));
}

double Recall(const py::object& labels, const py::object& distances, const py::object& true_labels,
              const py::object& true_distances, py::handle k, py::handle metric) {
  const GroundTruth found = TruthOf("found", labels, distances);
  GroundTruth truth = TruthOf("truth", true_labels, true_distances);
  truth.metric = Value(ParseMetric(ToText("metric", metric)));
  const auto first = static_cast<std::uint32_t>(
      k.is_none() ? std::int64_t{found.k} : ToInteger("k", k, 1, std::int64_t{found.k}));
  Check(CheckTruthCovers(truth, found.n, first));
  if (found.n == 0) RaiseArray("found", "answers", "none");
  double sum = 0;
  for (std::uint64_t query = 0; query < found.n; ++query)
    sum += RecallAtK(truth, query, first, found.Ids(query).first(first), found.Distances(query));
  return sum / found.n;
}

}  // namespace hmann::python
