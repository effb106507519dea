/// Releases and reacquires the GIL.
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>

namespace hmann::python {

/// Releases the GIL, which this thread holds, for the lifetime of the object.
///
/// pybind11's own class terminates the process if a daemon thread returns while the
/// interpreter is shutting down. Python ends such a thread by a forced unwinding that no
/// destructor lets through. This class waits for the end of the process instead.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { Take(); }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

  /// Runs `work`, which must not throw, with the GIL held.
  template <typename Work>
  void With(Work work) {
    Take();
    work();
    state_ = PyEval_SaveThread();
  }

  [[noreturn]] static void WaitForTheEnd() {
    for (;;) pause();
  }

 private:
  void Take() {
    try {
      PyEval_RestoreThread(state_);
    } catch (abi::__forced_unwind&) {
      WaitForTheEnd();
    }
  }

  PyThreadState* state_;
};

}  // namespace hmann::python
