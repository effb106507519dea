#include "client/python/core/options.h"

#include "absl/strings/str_cat.h"
#include "client/python/core/option_rows.h"

namespace hmann::python {
namespace {

/// Of what `build` and `plan` have in common.
template <typename Options, typename Build>
void AddShapeRows(OptionTable<Options>* table, Build build) {
  const auto row = [&](const char* name, const char* help, auto field) {
    table->push_back(Row<Options>(
        name, help, [build, field](auto& options) -> auto& { return field(build(options)); }));
  };
  row("rows", "first rows only; 0: all", HMANN_FIELD(rows));
  row("dtype",
      "of the stored vectors: None: as base has them; 'f16': half the bytes of float32, rounded; "
      "'u8', 'i8' or 'f32' where there is no base",
      HMANN_FIELD(dtype));
  row("metric", "'l2' (squared), 'ip' (negated) or 'cosine' (1 - cosine)", HMANN_FIELD(metric));
  row("m", "M: links of a new node; up to 2M are kept in L0 and L1", HMANN_FIELD(m));
  row("method", "'partition' or 'insertion'; None: what suits dtype and metric",
      HMANN_FIELD(method));
  row("ef_construction", "beam width of insertion", HMANN_FIELD(ef_construction));
  row("alpha", "1 to 2: above 1, links that save steps are kept as well", HMANN_FIELD(alpha));
}

template <typename Options>
void AddPlanRows(OptionTable<Options>* table) {
  table->push_back(SizeRow<Options>(
      "fast_memory", "instead of promote: bytes of fast memory, or '96GiB', to plan for",
      HMANN_FIELD(plan.fast_memory_bytes)));
  table->push_back(Row<Options>("slow", "with fast_memory: the tier that L0 will lie on",
                                HMANN_FIELD(plan.slow)));
}

OptionTable<BuildCall> MakeBuildTable() {
  using T = BuildCall;
  OptionTable<T> table;
  AddShapeRows(&table, HMANN_FIELD(build));
  const auto row = [&table](const char* name, const char* help, auto field) {
    table.push_back(Row<T>(name, help, field));
  };
  row("promote", "share of the vectors in fast memory, N_1 / N; None: 0.16",
      HMANN_FIELD(build.promote));
  const auto pinned = [&table](const char* name, const char* help, auto field, bool T::*named) {
    Option<T> option = Row<T>(name, help, field);
    option.set = [set = option.set, named](T& options, const std::string& name, py::handle value) {
      set(options, name, value);
      options.*named = true;
    };
    table.push_back(std::move(option));
  };
  pinned("bits", "bits a dimension of a code: 1, 2 or 4; 0: no codes", HMANN_FIELD(build.bits),
         &T::names_bits);
  pinned("replicas", "cells that a node is listed in, 1 or 2", HMANN_FIELD(build.replicas),
         &T::names_replicas);
  row("threads", "0: all usable cores; the index is the same for any number",
      HMANN_FIELD(build.threads));
  row("seed", "same seed, same bytes", HMANN_FIELD(build.seed));
  table.push_back(SizeRow<T>("build_memory",
                             "bytes, or '2GiB', that the build may take; needs a vector file "
                             "and work",
                             HMANN_FIELD(build.memory)));
  row("work", "folder of a build with build_memory; an interrupted one goes on in it",
      HMANN_FIELD(build.work));
  row("keep_work", "leave that folder when the index is written", HMANN_FIELD(build.keep_work));
  row("from_hnswlib", "promote this finished hnswlib graph over base",
      HMANN_FIELD(build.from_hnswlib));
  row("from_faiss", "promote this finished Faiss HNSW graph over base",
      HMANN_FIELD(build.from_faiss));
  row("queries",
      "vector file of queries like those to come, to set default dials by; None: made "
      "from the vectors",
      HMANN_FIELD(calibrate.queries));
  row("calibrate", "False: default dials stay as they suit SIFT", HMANN_FIELD(calibrate.wanted));
  AddPlanRows(&table);
  return table;
}

OptionTable<PromoteCall> MakePromoteTable() {
  using T = PromoteCall;
  OptionTable<T> table;
  const auto row = [&table](const char* name, const char* help, auto field) {
    table.push_back(Row<T>(name, help, field));
  };
  row("promote", "share of the vectors in fast memory; None: as it is", HMANN_FIELD(build.promote));
  row("bits", "bits a dimension of a code; 0: none; None: as it is", HMANN_FIELD(promotion.bits));
  row("replicas", "cells that a node is listed in; None: as it is",
      HMANN_FIELD(promotion.replicas));
  row("threads", "0: all usable cores", HMANN_FIELD(build.threads));
  row("queries",
      "vector file of queries like those to come, to set default dials by; None: made "
      "from the vectors",
      HMANN_FIELD(calibrate.queries));
  row("calibrate", "False: default dials stay as they suit SIFT", HMANN_FIELD(calibrate.wanted));
  AddPlanRows(&table);
  return table;
}

OptionTable<PlanCall> MakePlanTable() {
  using T = PlanCall;
  OptionTable<T> table;
  const auto row = [&table](const char* name, const char* help, auto field) {
    table.push_back(Row<T>(name, help, field));
  };
  row("base", "vector file that will be indexed", HMANN_FIELD(input.build.base));
  row("index", "instead: a finished index", HMANN_FIELD(input.index));
  row("dim", "without a file: dimension", HMANN_FIELD(input.dim));
  AddShapeRows(&table, HMANN_FIELD(input.build));
  row("as_is", "index keeps its structure", HMANN_FIELD(input.as_is));
  table.push_back(SizeRow<T>("fast_memory", "bytes of DRAM, or '96GiB'",
                             HMANN_FIELD(input.request.fast_bytes)));
  row("slow", "tier of L0", HMANN_FIELD(input.request.slow));
  row("threads", "that search at once; 0: all usable cores", HMANN_FIELD(input.request.threads));
  row("promote", "pinned: share of the vectors in fast memory", HMANN_FIELD(input.request.promote));
  row("bits", "pinned: bits a dimension of a code", HMANN_FIELD(input.request.bits));
  row("replicas", "pinned: cells that a node is listed in", HMANN_FIELD(input.request.replicas));
  row("explain", "also the three lines of the rule, with their numbers", HMANN_FIELD(explain));
  return table;
}

template <typename Options, typename Open>
void AddOpenRows(OptionTable<Options>* table, Open open) {
  const auto row = [&](const char* name, const char* help, auto field) {
    table->push_back(Row<Options>(
        name, help, [open, field](auto& options) -> auto& { return field(open(options)); }));
  };
  const auto size = [&](const char* name, const char* help, auto field) {
    table->push_back(SizeRow<Options>(
        name, help, [open, field](auto& options) -> auto& { return field(open(options)); }));
  };
  row("fast", "tier of the upper layers and promoted vectors: 'dram', 'numa:N', 'mapped'",
      HMANN_FIELD(fast));
  row("slow", "tier of L0: 'mapped', 'dram', 'nvme', 'numa:N', 'dax:PATH', ...", HMANN_FIELD(slow));
  row("cache", "cache of slow records: 'none', 'static' (by degree), 'dynamic' (by use)",
      HMANN_FIELD(cache));
  size("cache_size", "its bytes, or '256MiB'", HMANN_FIELD(cache_bytes));
  size("migration", "bytes of each searching thread for reads from a device",
       HMANN_FIELD(migration_bytes));
  row("sq", "scalar quantisation: 8 or 4 bits a component, made at opening; 0: none",
      HMANN_FIELD(sq_bits));
  row("helpers", "threads that copy ahead for prefetch='helper'", HMANN_FIELD(helper_threads));
}

OptionTable<OpenOptions> MakeOpenTable() {
  OptionTable<OpenOptions> table;
  AddOpenRows(&table, [](auto& options) -> auto& { return options; });
  return table;
}

OptionTable<TuneOptions> MakeTuneTable() {
  using T = TuneOptions;
  OptionTable<T> table;
  const auto row = [&table](const char* name, const char* help, auto field) {
    table.push_back(Row<T>(name, help, field));
  };
  row("queries", "vector file to learn from; None: vectors of the index, each left out in turn",
      HMANN_FIELD(queries));
  row("groundtruth", "file of their exact neighbours; None: computed", HMANN_FIELD(groundtruth));
  row("learn", "queries to learn from, at most; 0: enough for the k", HMANN_FIELD(learn));
  row("query_threads", "most threads of one query; 0: the usable cores",
      HMANN_FIELD(most_query_threads));
  row("accept_noise", "store times though the machine was not quiet", HMANN_FIELD(accept_noise));
  return table;
}

Option<SearchOptions> OfDial(const Dial& dial) {
  return {std::string(dial.name), std::string(dial.help),
          [&dial](SearchOptions& options, const std::string& name, py::handle value) {
            double number = 0;
            if (PyUnicode_Check(value.ptr()) != 0) {
              number = Value(dial.Parse(ToText(name, value)));
            } else if (!dial.words.empty()) {
              ToText(name, value);
            } else {
              number = ToNumber(name, value);
              Check(dial.Check(number));
            }
            dial.ask(options, number);
          },
          [](const SearchOptions&) -> py::object { return py::none(); }};
}

OptionTable<SearchOptions> MakeSearchTable() {
  using T = SearchOptions;
  OptionTable<T> table;
  table.push_back(Row<T>("recall", "mean recall to reach, as fast as may be; needs tune()",
                         HMANN_FIELD(recall)));
  const auto time = [&table](const char* name, const char* help, auto field) {
    table.push_back({name, help,
                     [field](T& options, const std::string& name, py::handle value) {
                       field(options) = ToDuration(name, value);
                     },
                     [](const T&) -> py::object { return py::none(); }});
  };
  time("latency", "mean time of a query to keep, seconds or '800us'; needs tune()",
       HMANN_FIELD(latency));
  time("budget", "time after which a query ends with the best that it has, seconds or '800us'",
       HMANN_FIELD(budget));
  for (const Dial& dial : DialTable()) table.push_back(OfDial(dial));
  return table;
}

}  // namespace

const OptionTable<BuildCall>& BuildTable() {
  static const auto* const table = new OptionTable<BuildCall>(MakeBuildTable());
  return *table;
}
const OptionTable<PromoteCall>& PromoteTable() {
  static const auto* const table = new OptionTable<PromoteCall>(MakePromoteTable());
  return *table;
}
const OptionTable<PlanCall>& PlanTable() {
  static const auto* const table = new OptionTable<PlanCall>(MakePlanTable());
  return *table;
}
const OptionTable<OpenOptions>& OpenTable() {
  static const auto* const table = new OptionTable<OpenOptions>(MakeOpenTable());
  return *table;
}
const OptionTable<TuneOptions>& TuneTable() {
  static const auto* const table = new OptionTable<TuneOptions>(MakeTuneTable());
  return *table;
}
const OptionTable<SearchOptions>& SearchTable() {
  static const auto* const table = new OptionTable<SearchOptions>(MakeSearchTable());
  return *table;
}

template <typename Options>
void Fill(const OptionTable<Options>& table, const py::dict& given, Options* options) {
  for (const auto& [key, value] : given) {
    if (value.is_none()) continue;
    const auto name = py::cast<std::string>(key);
    const Option<Options>* found = nullptr;
    std::string names;
    for (const Option<Options>& option : table) {
      if (option.name == name) found = &option;
      absl::StrAppend(&names, names.empty() ? "" : ", ", option.name);
    }
    if (found == nullptr) RaiseType(absl::StrCat(name, ": no such option; there are ", names));
    found->set(*options, name, value);
  }
}

template <typename Options>
py::list Describe(const OptionTable<Options>& table) {
  py::list rows;
  const Options defaults;
  for (const Option<Options>& option : table)
    rows.append(py::make_tuple(option.name, option.get(defaults), option.help));
  return rows;
}

#define HMANN_TABLE_OF(Options)                                                       \
  template void Fill(const OptionTable<Options>&, const py::dict&, Options* options); \
  template py::list Describe(const OptionTable<Options>&);
HMANN_TABLE_OF(BuildCall)
HMANN_TABLE_OF(PromoteCall)
HMANN_TABLE_OF(PlanCall)
HMANN_TABLE_OF(OpenOptions)
HMANN_TABLE_OF(TuneOptions)
HMANN_TABLE_OF(SearchOptions)
#undef HMANN_TABLE_OF

}  // namespace hmann::python
