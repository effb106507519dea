#include "client/python/core/options.h"

#include "client/python/core/option_rows.h"

namespace hmann::python {
namespace {

template <typename T>
OptionTable<T> Joined(std::initializer_list<OptionTable<T>> parts) {
  OptionTable<T> table;
  for (const OptionTable<T>& part : parts) table.insert(table.end(), part.begin(), part.end());
  return table;
}

/// Of what `build` and `plan` have in common.
template <typename T>
OptionTable<T> GraphRows() {
  return {
      Row<T>("rows", "first rows only; 0: all", HMANN_FIELD(build.rows)),
      Row<T>("dtype",
             "of the stored vectors: None: as base has them; 'f16': half the bytes of float32, "
             "rounded; 'u8', 'i8' or 'f32' where there is no base",
             HMANN_FIELD(build.dtype)),
      Row<T>("metric", "'l2' (squared), 'ip' (negated) or 'cosine' (1 - cosine)",
             HMANN_FIELD(build.metric)),
      Row<T>("m", "M: links of a new node; up to 2M are kept in L0 and L1", HMANN_FIELD(build.m)),
      Row<T>("method", "'partition' or 'insertion'; None: what suits dtype and metric",
             HMANN_FIELD(build.method)),
      Row<T>("ef_construction", "beam width of insertion", HMANN_FIELD(build.ef_construction)),
      Row<T>("alpha", "1 to 2: above 1, links that save steps are kept as well",
             HMANN_FIELD(build.alpha)),
  };
}

/// Of these and `promote`.
template <typename T>
OptionTable<T> StructureRows() {
  return {
      Row<T>("promote",
             "share of the vectors in fast memory, N_1 / N; None: 0.16, of a finished index as it "
             "is, or as many as fit",
             HMANN_FIELD(build.promote)),
      Row<T>("bits",
             "bits a dimension of a code: 1, 2 or 4; 0: no codes; None: 2, of a finished index as "
             "it is, or as fast_memory has it",
             HMANN_FIELD(build.bits)),
      Row<T>("replicas",
             "cells that a node is listed in, 1 or 2; None: 1, or of a finished index as it is",
             HMANN_FIELD(build.replicas)),
      SizeRow<T>("fast_memory", "bytes of fast memory, or '96GiB', to plan for",
                 HMANN_FIELD(plan.fast_memory_bytes)),
      Row<T>("slow", "with fast_memory: the tier that L0 will lie on", HMANN_FIELD(plan.slow)),
  };
}

OptionTable<BuildCall> CalibrateRows() {
  using T = BuildCall;
  return {
      Row<T>("threads", "0: all usable cores; the index is the same for any number",
             HMANN_FIELD(build.threads)),
      Row<T>("queries",
             "vector file of queries like those to come, to set default dials by; None: made "
             "from the vectors",
             HMANN_FIELD(calibrate.queries)),
      Row<T>("calibrate", "False: default dials stay as they suit SIFT",
             HMANN_FIELD(calibrate.wanted)),
  };
}

OptionTable<BuildCall> BuildRows() {
  using T = BuildCall;
  return {
      Row<T>("seed", "same seed, same bytes", HMANN_FIELD(build.seed)),
      SizeRow<T>("build_memory",
                 "bytes, or '2GiB', that the build may take; needs a vector file and work",
                 HMANN_FIELD(build.memory)),
      Row<T>("work", "folder of a build with build_memory; an interrupted one goes on in it",
             HMANN_FIELD(build.work)),
      Row<T>("keep_work", "leave that folder when the index is written",
             HMANN_FIELD(build.keep_work)),
      Row<T>("from_hnswlib", "promote this finished hnswlib graph over base",
             HMANN_FIELD(build.from_hnswlib)),
      Row<T>("from_faiss", "promote this finished Faiss HNSW graph over base",
             HMANN_FIELD(build.from_faiss)),
  };
}

OptionTable<PlanCall> PlanRows() {
  using T = PlanCall;
  return {
      Row<T>("base", "vector file that will be indexed", HMANN_FIELD(build.base)),
      Row<T>("index", "instead: a finished index", HMANN_FIELD(build.from_index)),
      Row<T>("dim", "without a file: dimension", HMANN_FIELD(dim)),
      Row<T>("as_is", "index keeps its structure", HMANN_FIELD(as_is)),
      Row<T>("threads", "that search at once; 0: all usable cores", HMANN_FIELD(plan.threads)),
      Row<T>("explain", "also the three lines of the rule, with their numbers",
             HMANN_FIELD(explain)),
  };
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

template <typename Field>
Option<SearchOptions> TimeRow(const char* name, const char* help, Field field) {
  return {name, help,
          [field](SearchOptions& options, const std::string& name, py::handle value) {
            field(options) = ToDuration(name, value);
          },
          [](const SearchOptions&) -> py::object { return py::none(); }};
}

OptionTable<SearchOptions> MakeSearchTable() {
  OptionTable<SearchOptions> table = {
      Row<SearchOptions>("recall", "mean recall to reach, as fast as may be; needs tune()",
                         HMANN_FIELD(recall)),
      TimeRow("latency", "mean time of a query to keep, seconds or '800us'; needs tune()",
              HMANN_FIELD(latency)),
      TimeRow("budget",
              "time after which a query ends with the best that it has, seconds or '800us'",
              HMANN_FIELD(budget)),
  };
  for (const Dial& dial : DialTable()) table.push_back(OfDial(dial));
  return table;
}

}  // namespace

// Tables are never destroyed: Python may ask for them while the process ends.

const OptionTable<BuildCall>& BuildTable() {
  static const auto& table = *new OptionTable<BuildCall>(
      Joined({GraphRows<BuildCall>(), StructureRows<BuildCall>(), CalibrateRows(), BuildRows()}));
  return table;
}

const OptionTable<BuildCall>& PromoteTable() {
  static const auto& table =
      *new OptionTable<BuildCall>(Joined({StructureRows<BuildCall>(), CalibrateRows()}));
  return table;
}

const OptionTable<PlanCall>& PlanTable() {
  static const auto& table = *new OptionTable<PlanCall>(
      Joined({PlanRows(), GraphRows<PlanCall>(), StructureRows<PlanCall>()}));
  return table;
}

const OptionTable<OpenOptions>& OpenTable() {
  using T = OpenOptions;
  static const auto& table = *new OptionTable<T>{
      Row<T>("fast", "tier of the upper layers and promoted vectors: 'dram', 'numa:N', 'mapped'",
             HMANN_FIELD(fast)),
      Row<T>("slow", "tier of L0: 'mapped', 'dram', 'nvme', 'numa:N', 'dax:PATH', ...",
             HMANN_FIELD(slow)),
      Row<T>("cache", "cache of slow records: 'none', 'static' (by degree), 'dynamic' (by use)",
             HMANN_FIELD(cache)),
      SizeRow<T>("cache_size", "its bytes, or '256MiB'", HMANN_FIELD(cache_bytes)),
      SizeRow<T>("migration", "bytes of each searching thread for reads from a device",
                 HMANN_FIELD(migration_bytes)),
      Row<T>("sq", "scalar quantisation: 8 or 4 bits a component, made at opening; 0: none",
             HMANN_FIELD(sq_bits)),
      Row<T>("helpers", "threads that copy ahead for prefetch='helper'",
             HMANN_FIELD(helper_threads)),
  };
  return table;
}

const OptionTable<TuneOptions>& TuneTable() {
  using T = TuneOptions;
  static const auto& table = *new OptionTable<T>{
      Row<T>("queries",
             "vector file to learn from; None: vectors of the index, each left out in turn",
             HMANN_FIELD(queries)),
      Row<T>("groundtruth", "file of their exact neighbours; None: computed",
             HMANN_FIELD(groundtruth)),
      Row<T>("learn", "queries to learn from, at most; 0: enough for the k", HMANN_FIELD(learn)),
      Row<T>("query_threads", "most threads of one query; 0: the usable cores",
             HMANN_FIELD(most_query_threads)),
      Row<T>("accept_noise", "store times though the machine was not quiet",
             HMANN_FIELD(accept_noise)),
  };
  return table;
}

const OptionTable<SearchOptions>& SearchTable() {
  static const auto& table = *new OptionTable<SearchOptions>(MakeSearchTable());
  return table;
}

}  // namespace hmann::python
