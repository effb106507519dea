/// Options as keyword arguments: a table says their names, what they do, and how they
/// come into the engine's own structs, whose defaults are the only ones.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/python/core/convert.h"
#include "index/hmann.h"
#include "index/tune/plan_report.h"
#include "index/tune/tune.h"
#include "tools/plan_choice.h"

namespace hmann::python {

template <typename Options>
struct Option {
  std::string name, help;
  std::function<void(Options&, const std::string& name, py::handle)> set;
  std::function<py::object(const Options&)> get;  ///< None: nothing is said
};
template <typename Options>
using OptionTable = std::vector<Option<Options>>;

/// Everything that `build` takes besides base, out, labels and progress.
struct BuildCall {
  BuildOptions build;
  PlanOptions plan;
  CalibrateOptions calibrate;
  bool names_bits = false, names_replicas = false;
};
/// Everything that `promote` takes besides the index and progress.
struct PromoteCall {
  BuildOptions build;
  PlanOptions plan;
  CalibrateOptions calibrate;
  Promotion promotion;
};
/// Everything that `plan` takes.
struct PlanCall {
  PlanCall() { input.request.threads = 0; }
  PlanInput input;
  bool explain = false;
};

const OptionTable<BuildCall>& BuildTable();
const OptionTable<PromoteCall>& PromoteTable();
const OptionTable<PlanCall>& PlanTable();
const OptionTable<OpenOptions>& OpenTable();
const OptionTable<TuneOptions>& TuneTable();
/// The dials of DialTable(), the targets and the budget.
const OptionTable<SearchOptions>& SearchTable();

/// Sets what `given` has; a value of None says nothing. Raises InvalidTypeError for a
/// name that is in no row, with the names that are.
template <typename Options>
void Fill(const OptionTable<Options>& table, const py::dict& given, Options* options);

/// (name, default, help) of each row, for signatures and docstrings.
template <typename Options>
py::list Describe(const OptionTable<Options>& table);

}  // namespace hmann::python
