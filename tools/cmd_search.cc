#include <iostream>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "index/base/status_macros.h"
#include "index/hmann.h"
#include "tools/commands.h"
#include "tools/query_report.h"

namespace hmann {
namespace {

struct Flags {
  std::string index;
  OpenOptions open;
  QueryFlags query;
  bool cold = false;
};

/// What a thread owns; on cache lines of its own, since it counts at every step.
struct alignas(64) Worker {
  explicit Worker(const std::shared_ptr<const Index>& index) : searcher(index) {}
  Searcher searcher;
  Counters counters;
};

absl::Status CheckShape(const VectorFile& queries, const IndexInfo& info) {
  if (queries.dim() == info.dim && queries.dtype() == info.dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(queries.path(), ": expected vectors of ", info.dim, " x ", std::string(Name(info.dtype)),
                                                 " as in the index, found ", queries.dim(), " x ", std::string(Name(queries.dtype()))));
}

absl::Status Search(const Flags& flags) {
  HMANN_ASSIGN_OR_RETURN(const VectorFile queries, VectorFile::Open(flags.query.queries, flags.query.rows));
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<const Index> index, Index::Open(flags.index, flags.open));
  const IndexInfo& info = index->info();
  HMANN_RETURN_IF_ERROR(CheckShape(queries, info));
  HMANN_RETURN_IF_ERROR(flags.query.search.Validate(info.n));
  HMANN_RETURN_IF_ERROR(CheckGroundTruth(flags.query, queries.n()));
  if (!flags.cold) index->Warm();

  QueryRun run;
  run.dials = flags.query.search.Resolved(info.n, info.layers.size() > 1 ? info.layers[1].nodes : 0);
  run.simd = std::string(index->kernels().simd);
  run.threads = flags.query.threads;
  std::vector<Worker> workers;
  for (int thread = 0; thread < run.threads; ++thread) workers.emplace_back(index);
  const auto answer_one = [&](int thread, std::uint64_t i, std::vector<Neighbour>* answer) {
    Worker& worker = workers[thread];
    return worker.searcher.Search(queries.Row(i), run.dials, answer, &worker.counters);
  };
  HMANN_RETURN_IF_ERROR(RunQueries(queries.n(), answer_one, &run));
  run.counters.emplace();
  for (const Worker& worker : workers) *run.counters += worker.counters;
  return Report(run, flags.query);
}

}  // namespace

CommandAction SetupSearch(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("INDEX", flags->index, "index file")->required();
  AddQueryFlags(app, &flags->query);
  app.add_option("--fast", flags->open.fast, "tier of the upper layers and promoted vectors: dram, numa:N")->capture_default_str();
  app.add_option("--slow", flags->open.slow, "tier of L0: mapped (the file in place), dram, numa:N")->capture_default_str();
  app.add_flag("--cold", flags->cold, "do not read L0 once before the first query");
  return [flags] { return Search(*flags); };
}

}  // namespace hmann
