#include "client/python/core/works.h"

#include <pybind11/stl.h>

#include <limits>
#include <string>

#include "client/python/core/options.h"
#include "client/python/core/vectors.h"
#include "client/python/core/watch.h"
#include "datasets/toolbox/exact_neighbors.h"
#include "index/base/errors.h"
#include "index/report/report.h"

namespace hmann::python {

py::object Build(py::handle base, py::handle out, py::handle labels, const py::dict& options,
                 const py::object& progress) {
  BuildCall call;
  Fill(BuildTable(), options, &call);
  BuildOptions& build = call.build;
  build.out = ToPath("out", out);
  py::object vectors;
  if (IsPath(base)) {
    build.base = ToPath("base", base);
  } else {
    build.vectors = ToMemory("base", base, &vectors);
  }
  py::array_t<std::int64_t> own;
  if (!labels.is_none() && IsPath(labels)) {
    build.labels = ToPath("labels", labels);
  } else if (!labels.is_none()) {
    own = ToLabels("labels", ToArray("labels", labels), false,
                   ": leave labels out, and look yours up by row: own[answer.labels]; a "
                   "collection takes strings, too");
    build.label_values = {reinterpret_cast<const std::uint64_t*>(own.data()),
                          static_cast<std::size_t>(own.size())};
  }
  return BuildWatched(&call, progress);
}

py::object BuildWatched(BuildCall* call, const py::object& progress) {
  return ToPython(
      ToJson(Watch(progress, [call](const Watched& watched) -> absl::StatusOr<CalibratedBuild> {
        call->build.cancelled = watched.cancelled;
        return hmann::Build(*call, watched.progress);
      })));
}

py::object Plan(const py::dict& options) {
  PlanInput call;
  Fill(PlanTable(), options, &call);
  if (call.plan.fast_memory_bytes == 0)
    Raise(InvalidArgument("fast_memory: expected bytes, found none"));
  return ToPython(ToJson(Value(ReportPlan(call))));
}

py::object ReadInfo(py::handle path) {
  const std::string index = ToPath("path", path);
  return InfoOf(index, Value(hmann::ReadInfo(index)));
}

py::tuple ExactNeighbors(py::handle base, py::handle queries, py::handle k, py::handle metric,
                         py::handle threads, const py::object& progress) {
  const Vectors from = ToVectors("base", base);
  const Vectors requested = ToVectors("queries", queries, QueryType(from.file.dtype()));
  ExactOptions options;
  options.k =
      static_cast<std::uint32_t>(ToInteger("k", k, 0, std::numeric_limits<std::uint32_t>::max()));
  options.metric = Value(ParseMetric(ToText("metric", metric)));
  options.threads = static_cast<int>(ToInteger("threads", threads, 0, 1024));
  const GroundTruth truth = Watch(progress, [&](const Watched& watched) {
    options.cancelled = watched.cancelled;
    return hmann::ExactNeighbors(from.file, requested.file, options, watched.progress);
  });
  return ToPython(truth);
}

}  // namespace hmann::python
