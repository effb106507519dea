/// Long work beside Python: it runs in a thread of its own, without the GIL, and the
/// thread that asked for it looks for signals and says how far it is.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "client/python/core/convert.h"
#include "hmann/progress.h"

namespace hmann::python {

/// How often, in milliseconds, signals are looked for.
constexpr int kLookEveryMs = 50;

/// What long work is given.
struct Watched {
  Progress& progress;
  const std::atomic<bool>* cancelled;
};

/// Runs `work` to its end. When a signal handler raises (Ctrl-C: KeyboardInterrupt), or
/// the callback does, `cancelled` becomes true, and what was raised is raised when the
/// work has ended. `progress`: True for a line on stderr, False for none, or a callable
/// that is given (phase, done, total, unit).
void RunWatched(const py::object& progress, const std::function<void(const Watched&)>& work);

/// The same for work that has a result.
template <typename Work>
auto Watch(const py::object& progress, Work work) {
  decltype(work(std::declval<const Watched&>())) result = absl::UnknownError("not run");
  RunWatched(progress, [&](const Watched& watched) { result = work(watched); });
  return Value(std::move(result));
}

}  // namespace hmann::python
