/// Runs long work in a separate thread without the GIL. The calling thread meanwhile
/// polls for signals and reports progress.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <functional>
#include <utility>

#include "client/python/core/convert.h"
#include "hmann/progress.h"

namespace hmann::python {

/// Interval between polls for signals, in milliseconds.
constexpr int kLookEveryMs = 50;

/// The arguments of long work.
struct Watched {
  Progress& progress;
  const std::atomic<bool>* cancelled;
};

/// Runs `work` to completion. If a signal handler raises (Ctrl-C: KeyboardInterrupt) or
/// the callback does, `cancelled` becomes true, and the exception is raised again when
/// the work has ended. `progress`: True for a line on stderr, False for none, or a
/// callable that receives (phase, done, total, unit).
void RunWatched(const py::object& progress, const std::function<void(const Watched&)>& work);

/// The same for work that returns a result.
template <typename Work>
auto Watch(const py::object& progress, Work work) {
  decltype(work(std::declval<const Watched&>())) result = absl::UnknownError("not run");
  RunWatched(progress, [&](const Watched& watched) { result = work(watched); });
  return Value(std::move(result));
}

}  // namespace hmann::python
