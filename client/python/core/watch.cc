#include "client/python/core/watch.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "client/python/core/gil.h"

namespace hmann::python {
namespace {

Progress::Show ShowOf(const py::object& progress) {
  if (progress.is_none() || progress.ptr() == Py_False) return Progress::Show::kNever;
  if (progress.ptr() == Py_True) return Progress::Show::kAuto;
  if (PyCallable_Check(progress.ptr()) == 0)
    RaiseType("progress: expected True, False or a callable, found " + Shown(progress));
  return Progress::Show::kNever;
}

void Tell(const py::object& progress, const Progress& watched) {
  const Progress::State now = watched.Now();
  progress(now.phase, now.done, now.total, now.unit);
}

}  // namespace

void RunWatched(const py::object& progress, const std::function<void(const Watched&)>& work) {
  Progress watched(ShowOf(progress));
  const bool tells = !progress.is_none() && PyBool_Check(progress.ptr()) == 0;
  std::atomic<bool> cancelled{false};
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  std::exception_ptr failure, raised;
  {
    WithoutGil without_gil;
    std::thread thread([&] {
      try {
        work({watched, &cancelled});
      } catch (...) {
        failure = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      done = true;
      ended.notify_all();
    });
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, std::chrono::milliseconds(kLookEveryMs), [&] { return done; })) {
      if (cancelled) continue;
      lock.unlock();
      without_gil.With([&] {
        try {
          if (PyErr_CheckSignals() != 0) throw py::error_already_set();
          if (tells) Tell(progress, watched);
        } catch (abi::__forced_unwind&) {
          WithoutGil::WaitForTheEnd();
        } catch (...) {
          raised = std::current_exception();
          cancelled = true;
        }
      });
      lock.lock();
    }
    lock.unlock();
    thread.join();
  }
  if (raised != nullptr) std::rethrow_exception(raised);
  if (failure != nullptr) std::rethrow_exception(failure);
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  if (tells) Tell(progress, watched);
}

}  // namespace hmann::python
