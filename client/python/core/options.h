/// Options as keyword arguments. A table defines their names, their help, and how they
/// are stored in the engine's structs. Those structs define the only defaults.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "client/python/core/convert.h"
#include "hmann/build.h"
#include "hmann/collection.h"
#include "hmann/hmann.h"
#include "hmann/tune.h"
#include "index/report/report.h"
#include "index/tune/plan_report.h"

namespace hmann::python {

template <typename Options>
struct Option {
  std::string name, help;
  std::function<void(Options&, const std::string& name, py::handle)> set;
  std::function<py::object(const Options&)> get;  ///< None: unset
};
template <typename Options>
using OptionTable = std::vector<Option<Options>>;

/// The options of `build` in addition to base, out, labels and progress, and those of
/// `promote` in addition to the index, out and progress.
const OptionTable<BuildCall>& BuildTable();
const OptionTable<BuildCall>& PromoteTable();
const OptionTable<PlanInput>& PlanTable();
const OptionTable<OpenOptions>& OpenTable();
const OptionTable<CreateCollection>& CreateTable();
const OptionTable<OpenCollection>& OpenCollectionTable();
const OptionTable<TuneOptions>& TuneTable();
/// The parameters of ParamTable(), the targets and the budget.
const OptionTable<SearchParams>& SearchTable();

/// Sets the options in `given`; None leaves an option unset. Raises InvalidTypeError for
/// an unknown name, with the nearest known name or all of them.
template <typename Options>
void Fill(const OptionTable<Options>& table, const py::dict& given, Options* options) {
  for (const auto& [key, value] : given) {
    if (value.is_none()) continue;
    const auto name = ToText("option", key);
    const auto found = std::find_if(table.begin(), table.end(),
                                    [&name](const auto& option) { return option.name == name; });
    if (found == table.end()) {
      py::list known;
      for (const auto& option : table) known.append(option.name);
      RaiseAs("no_such_option", py::make_tuple(key, known));
    }
    found->set(*options, name, value);
  }
}

/// Returns (name, default, help) of each row, for signatures and docstrings.
template <typename Options>
py::list Describe(const OptionTable<Options>& table) {
  py::list rows;
  const Options defaults;
  for (const Option<Options>& option : table)
    rows.append(py::make_tuple(option.name, option.get(defaults), option.help));
  return rows;
}

}  // namespace hmann::python
