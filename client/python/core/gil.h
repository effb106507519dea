/// The GIL let go of, and taken again.
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

namespace hmann::python {

/// While it lives, this thread, which held the GIL, does not.
///
/// pybind11's own ends the process where a daemon thread comes back when the interpreter
/// is about to end: Python ends such a thread by an unwinding that no destructor lets
/// through. It waits for the end of the process here.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { Take(); }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

  /// Runs `work`, which throws nothing, with the GIL.
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
