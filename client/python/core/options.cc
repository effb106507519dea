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

template <typename T>
OptionTable<T> CountRows() {
  return {Row<T>("rows", "number of leading rows to use; 0: all", HMANN_FIELD(build.rows))};
}

/// The options of a graph, the same for `build`, `plan` and a collection.
template <typename T>
OptionTable<T> GraphRows() {
  return {
      Row<T>("dtype",
             "type of the stored vectors; None: that of base; 'f16': half the bytes of float32, "
             "rounded; 'u8', 'i8' or 'f32' if there is no base",
             HMANN_FIELD(build.dtype)),
      Row<T>("metric", "'l2' (squared), 'ip' (negated) or 'cosine' (1 - cosine)",
             HMANN_FIELD(build.metric)),
      Row<T>("m",
             "M: links of a new node; up to 2M are kept in L0 and L1; None: 24 for vectors of more "
             "than 384 bytes, else 16",
             HMANN_FIELD(build.m)),
      Row<T>("method", "'partition' or 'insertion'; None: chosen for dtype and metric",
             HMANN_FIELD(build.method)),
      Row<T>("ef_construction", "beam width of insertion", HMANN_FIELD(build.ef_construction)),
      Row<T>("alpha", "1 to 2; above 1, links that save hops are kept, too",
             HMANN_FIELD(build.alpha)),
  };
}

/// The options of what is added to a graph, also for `promote`.
template <typename T>
OptionTable<T> StructureRows() {
  return {
      Row<T>("promote",
             "share of the vectors in fast memory, N_1 / N; None: 0.16, the value of a finished "
             "index, or as many as fit",
             HMANN_FIELD(build.promote)),
      Row<T>("bits",
             "bits per dimension of a code: 1, 2 or 4; 0: no codes; None: 2, the value of a "
             "finished index, or chosen by fast_memory",
             HMANN_FIELD(build.bits)),
      Row<T>("replicas",
             "cells that list each node, 1 or 2; None: 1, or the value of a finished index",
             HMANN_FIELD(build.replicas)),
  };
}

/// The options that `build`, `plan` and `promote` share.
template <typename T>
OptionTable<T> FastMemoryRows() {
  return {
      SizeRow<T>("fast_memory", "bytes of fast memory, or '96GiB', to plan for",
                 HMANN_FIELD(plan.fast_memory_bytes)),
      Row<T>("slow", "with fast_memory: the tier that will hold L0", HMANN_FIELD(plan.slow)),
  };
}

template <typename T>
Option<T> SeedRow() {
  return Row<T>("seed", "same seed, same bytes", HMANN_FIELD(build.seed));
}

OptionTable<BuildCall> CalibrateRows() {
  using T = BuildCall;
  return {
      Row<T>("threads", "0: all usable cores; the index is the same for any number",
             HMANN_FIELD(build.threads)),
      Row<T>("queries",
             "vector file of queries similar to the expected ones, to calibrate the default "
             "params with; None: made from the vectors",
             HMANN_FIELD(calibrate.queries)),
      Row<T>("calibrate", "False: default parameters stay as calibrated on SIFT",
             HMANN_FIELD(calibrate.wanted)),
  };
}

OptionTable<BuildCall> BuildRows() {
  using T = BuildCall;
  return {
      SizeRow<T>("build_memory",
                 "bytes, or '2GiB', that the build may use; needs a vector file and work",
                 HMANN_FIELD(build.memory)),
      Row<T>("work", "folder of a build with build_memory; an interrupted build resumes from it",
             HMANN_FIELD(build.work)),
      Row<T>("keep_work", "keep that folder after the index is written",
             HMANN_FIELD(build.keep_work)),
      Row<T>("from_hnswlib", "promote this finished hnswlib graph of base",
             HMANN_FIELD(build.from_hnswlib)),
      Row<T>("from_faiss", "promote this finished Faiss HNSW graph of base",
             HMANN_FIELD(build.from_faiss)),
      Row<T>("attrs", "file with a row of attributes for each vector: .ndjson, .csv or .spmat",
             HMANN_FIELD(attributes.from)),
      Row<T>("types", "types of some attributes, as 'year:int64,tags:tag'; others are inferred",
             HMANN_FIELD(attributes.types)),
  };
}

OptionTable<PlanInput> PlanRows() {
  using T = PlanInput;
  return {
      Row<T>("base", "vector file to be indexed", HMANN_FIELD(build.base)),
      Row<T>("index", "a finished index, instead of base", HMANN_FIELD(build.from_index)),
      Row<T>("dim", "dimension, if there is no file", HMANN_FIELD(dim)),
      Row<T>("as_is", "the index keeps its structure", HMANN_FIELD(as_is)),
      Row<T>("threads", "threads that search concurrently; 0: all usable cores",
             HMANN_FIELD(plan.threads)),
  };
}

Option<SearchParams> OfParam(const ParamInfo& param) {
  return {std::string(param.name), std::string(param.help),
          [&param](SearchParams& options, const std::string& name, py::handle value) {
            double number = 0;
            if (PyUnicode_Check(value.ptr()) != 0) {
              number = Value(param.Parse(ToText(name, value)));
            } else if (!param.words.empty()) {
              ToText(name, value);
            } else {
              number = ToNumber(name, value);
              Check(param.Check(number));
            }
            param.ask(options, number);
          },
          [](const SearchParams&) -> py::object { return py::none(); }};
}

template <typename Field>
Option<SearchParams> TimeRow(const char* name, const char* help, Field field) {
  return {name, help,
          [field](SearchParams& options, const std::string& name, py::handle value) {
            field(options) = ToDuration(name, value);
          },
          [](const SearchParams&) -> py::object { return py::none(); }};
}

OptionTable<SearchParams> MakeSearchTable() {
  OptionTable<SearchParams> table = {
      Row<SearchParams>(
          "recall",
          "mean recall to reach, as fast as possible; measured by tune(), otherwise calibrated",
          HMANN_FIELD(recall)),
      TimeRow("latency", "mean time per query to stay within, seconds or '800us'; needs tune()",
              HMANN_FIELD(latency)),
      TimeRow("budget",
              "time after which a query returns its best result so far, seconds or '800us'",
              HMANN_FIELD(budget)),
      Row<SearchParams>("max_distance",
                        "only vectors at this distance or nearer are found: all, at most k",
                        HMANN_FIELD(max_distance)),
  };
  for (const ParamInfo& param : ParamTable()) table.push_back(OfParam(param));
  return table;
}

}  // namespace

// Tables are never destroyed: Python may read them while the process exits.

const OptionTable<BuildCall>& BuildTable() {
  static const auto& table = *new OptionTable<BuildCall>(Joined({CountRows<BuildCall>(),
                                                                 GraphRows<BuildCall>(),
                                                                 StructureRows<BuildCall>(),
                                                                 FastMemoryRows<BuildCall>(),
                                                                 CalibrateRows(),
                                                                 {SeedRow<BuildCall>()},
                                                                 BuildRows()}));
  return table;
}

const OptionTable<BuildCall>& PromoteTable() {
  static const auto& table =
      *new OptionTable<BuildCall>(Joined({StructureRows<BuildCall>(), CalibrateRows()}));
  return table;
}

const OptionTable<PlanInput>& PlanTable() {
  static const auto& table = *new OptionTable<PlanInput>(
      Joined({PlanRows(), CountRows<PlanInput>(), GraphRows<PlanInput>(),
              StructureRows<PlanInput>(), FastMemoryRows<PlanInput>()}));
  return table;
}

const OptionTable<OpenOptions>& OpenTable() {
  using T = OpenOptions;
  static const auto& table = *new OptionTable<T>{
      Row<T>("fast", "tier of the upper layers and promoted vectors: 'dram', 'numa:N', 'mapped'",
             HMANN_FIELD(fast)),
      Row<T>("slow", "tier of L0: 'mapped', 'dram', 'nvme', 'numa:N', 'dax:PATH', ...",
             HMANN_FIELD(slow)),
      Row<T>("cache",
             "cache of slow node records: 'none', 'static' (by degree), 'dynamic' (by use)",
             HMANN_FIELD(cache)),
      SizeRow<T>("cache_size", "size of the cache in bytes, or '256MiB'", HMANN_FIELD(cache_bytes)),
      SizeRow<T>("read_buffers", "bytes per searching thread for reads from a device",
                 HMANN_FIELD(read_buffer_bytes)),
      Row<T>("sq",
             "scalar quantization: 8 or 4 bits per component; 0: none; default: as the index has",
             HMANN_FIELD(sq_bits)),
  };
  return table;
}

const OptionTable<CreateCollection>& CreateTable() {
  using T = CreateCollection;
  static const auto& table = *new OptionTable<T>(Joined({
      {Row<T>("dim", "components of a vector", HMANN_FIELD(dim)),
       Row<T>("from_",
              "a finished index, instead of dim and parameters: its vectors are the first of the "
              "collection, and its file is linked if it can be",
              HMANN_FIELD(from)),
       Row<T>("queries",
              "vector file of queries similar to the expected ones, copied; merges calibrate with "
              "them",
              HMANN_FIELD(queries)),
       Row<T>("types",
              "types of some attributes, as 'year:int64,tags:tag'; another one has that of its "
              "first value",
              HMANN_FIELD(types))},
      GraphRows<T>(),
      StructureRows<T>(),
      {SeedRow<T>()},
  }));
  return table;
}

const OptionTable<OpenCollection>& OpenCollectionTable() {
  using T = OpenCollection;
  static const auto& table = *[] {
    auto* rows = new OptionTable<T>{
        Row<T>("read_only", "see what is there now; another process may write meanwhile",
               HMANN_FIELD(read_only)),
        SizeRow<T>("delta_memory",
                   "bytes, or '2GiB', for rows outside the sealed index; None: a quarter of what "
                   "is available",
                   HMANN_FIELD(delta_bytes)),
        Row<T>("merges",
               "merge in the background, at 10 % of rows outside the sealed index or 30 % of dead "
               "rows in it",
               HMANN_FIELD(merges)),
        Row<T>("merge_threads",
               "threads of a merge; 0: all usable cores; None: one, or all while many rows come",
               HMANN_FIELD(merge_threads)),
        SizeRow<T>("merge_memory",
                   "bytes, or '2GiB', that a merge may use; None: half of what is available",
                   HMANN_FIELD(merge_memory))};
    for (const Option<OpenOptions>& row : OpenTable()) {
      rows->push_back({row.name, row.help,
                       [&row](T& to, const std::string& name, py::handle value) {
                         row.set(to.index, name, value);
                       },
                       [&row](const T& from) { return row.get(from.index); }});
    }
    return rows;
  }();
  return table;
}

const OptionTable<TuneOptions>& TuneTable() {
  using T = TuneOptions;
  static const auto& table = *new OptionTable<T>{
      Row<T>("queries",
             "vector file to learn from; None: vectors of the index, each left out in turn",
             HMANN_FIELD(queries)),
      Row<T>("groundtruth", "file with the exact neighbors of queries; None: computed",
             HMANN_FIELD(groundtruth)),
      Row<T>("of_shards",
             "the index is one of this many shards; recalls are those of their merged answers",
             HMANN_FIELD(of_shards)),
      Row<T>("learn", "maximum number of queries to learn from; 0: enough for each k",
             HMANN_FIELD(learn)),
      Row<T>("query_threads", "maximum threads per query; 0: the usable cores",
             HMANN_FIELD(most_query_threads)),
      Row<T>("accept_noise", "replace stored times even if the machine was not quiet",
             HMANN_FIELD(accept_noise)),
  };
  return table;
}

const OptionTable<SearchParams>& SearchTable() {
  static const auto& table = *new OptionTable<SearchParams>(MakeSearchTable());
  return table;
}

}  // namespace hmann::python
