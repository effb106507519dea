#include "client/python/core/calls.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/python/core/options.h"
#include "index/base/cpu.h"
#include "index/base/errors.h"
#include "index/params/params_json.h"

namespace hmann::python {
namespace {

std::atomic<std::uint64_t> forks{0};

/// The minimum number of queries per thread.
constexpr std::uint64_t kQueriesPerThread = 8;

std::uint32_t Cores() {
  static const auto cores = static_cast<std::uint32_t>(UsableCores());
  return cores;
}

/// Space for answers.
template <typename T>
py::array_t<T> Room(std::uint64_t n, std::uint32_t k, bool single) {
  std::vector<py::ssize_t> shape = {static_cast<py::ssize_t>(k)};
  if (!single) shape.insert(shape.begin(), static_cast<py::ssize_t>(n));
  return RoomOf(py::dtype::of<T>(), std::move(shape),
                absl::StrCat("answers to ", n, " queries with ", k, " neighbors"));
}

/// `given`: lists of values by name.
FilterArguments ToArguments(const py::dict& given) {
  using Integers = std::numeric_limits<std::int64_t>;
  FilterArguments arguments;
  for (const auto& [key, values] : given) {
    std::vector<FilterValue>& of_name = arguments[ToText("filter_arguments", key)];
    for (const py::handle one : values) {
      FilterValue& value = of_name.emplace_back();
      if (py::isinstance<py::bool_>(one))
        value = one.cast<bool>();
      else if (py::isinstance<py::int_>(one))
        value = ToInteger("filter_arguments", one, Integers::min(), Integers::max());
      else if (py::isinstance<py::float_>(one))
        value = one.cast<double>();
      else
        value = ToText("filter_arguments", one);
    }
  }
  return arguments;
}

}  // namespace

void WatchForks() {
  pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
}

std::uint64_t Forks() { return forks; }

std::uint32_t Or(const char* name, py::handle value, std::uint32_t most, std::uint32_t otherwise) {
  if (value.is_none()) return otherwise;
  return static_cast<std::uint32_t>(ToInteger(name, value, 1, most));
}

py::array RoomOf(const py::dtype& type, std::vector<py::ssize_t> shape, const std::string& what) {
  try {
    return py::array(type, std::move(shape));
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_MemoryError)) throw;
  }
  Raise(ResourceExhausted("no memory for the ", what));
}

py::array VectorRoom(DType dtype, std::uint32_t dim, py::ssize_t n, bool single) {
  std::vector<py::ssize_t> shape = {static_cast<py::ssize_t>(dim)};
  if (!single) shape.insert(shape.begin(), n);
  return RoomOf(NumpyType(dtype), std::move(shape), "vectors");
}

SearchParams ToParams(py::handle k, const py::dict& given) {
  SearchParams params;
  params.k =
      static_cast<std::uint32_t>(ToInteger("k", k, 0, std::numeric_limits<std::uint32_t>::max()));
  Fill(SearchTable(), given, &params);
  return params;
}

Filter ToFilter(py::handle text, const py::dict& arguments) {
  return Value(Filter::Parse(ToText("filter", text), ToArguments(arguments)));
}

py::dict DictOf(const ResolvedParams& params) {
  py::dict dict = ToPython(ToJson(params));
  dict["k"] = params.k;
  return dict;
}

py::dict DictOf(const Counters& counters) {
  py::dict dict;
  for (const CounterName& counter : CounterNames())
    dict[py::str(std::string(counter.name))] = counters.*counter.value;
  return dict;
}

QueryCall ToQueries(py::handle queries, const ResolvedParams& params, DType dtype,
                    std::uint32_t dim, const char* whose) {
  Rows rows = ToRows("queries", queries, true, QueryType(dtype));
  if (rows.dim != dim) {
    Raise(InvalidArgument("queries: expected vectors of ", dim, " x ", NumpyName(dtype),
                          " as in the ", whose, ", found ", rows.dim, " x ",
                          NumpyName(rows.dtype)));
  }
  auto labels = Room<std::int64_t>(rows.n, params.k, rows.single);
  auto distances = Room<float>(rows.n, params.k, rows.single);
  const Batch batch{.rows = rows.data,
                    .stride = rows.stride,
                    .n = rows.n,
                    .single = rows.single,
                    .params = params,
                    .labels = labels.mutable_data(),
                    .distances = distances.mutable_data()};
  return {std::move(rows), std::move(labels), std::move(distances), batch};
}

std::size_t ThreadsFor(std::uint64_t n, py::handle threads) {
  const std::uint64_t enough = (n + kQueriesPerThread - 1) / kQueriesPerThread;
  const std::uint32_t requested = Or("threads", threads, 1024, Cores());
  return std::clamp<std::uint64_t>(threads.is_none() ? enough : n, 1, requested);
}

}  // namespace hmann::python
