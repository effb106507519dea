/// Shared code of `hmann search` and `hmann query`: their options, the loop that runs
/// queries concurrently, and the report.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/answer.h"
#include "hmann/counters.h"
#include "hmann/resolved_params.h"
#include "hmann/search_params.h"
#include "hmann/types.h"
#include "index/base/json_reader.h"

namespace hmann::tools {

/// The parsed options that both commands share.
struct QueryFlags {
  std::string queries;      ///< vector file
  std::string groundtruth;  ///< optional
  std::string out;          ///< optional: .ibin, .gt or .jsonl
  std::string filter;       ///< optional: on attributes
  SearchParams search;
  std::uint64_t rows = 0;  ///< first queries only; 0: all
  int threads = 1;         ///< concurrent queries
  bool stats = false, json = false;
};

/// Declares targets and search parameters on `app`. A target excludes the parameters that
/// it chooses. `search` must outlive `app`.
void AddParams(CLI::App& app, SearchParams* search);

/// Declares --queries --k, targets and search parameters, --threads --groundtruth --out
/// --rows --json on `app`. `flags` must outlive `app`. The suffix of --out is checked
/// while parsing, so that no work is wasted on answers that cannot be written.
void AddQueryFlags(CLI::App& app, QueryFlags* flags);

/// The prediction of the tuned table for a target.
struct Predicted {
  double recall = 0;              ///< mean over the learning queries
  std::optional<double> mean_us;  ///< single query in the engine; absent: not measured
  std::string predicted_for{};    ///< KindOfQueries
};

/// The answers to a file of queries, and their cost.
struct QueryRun {
  ResolvedParams params;                   ///< the parameters used
  SearchParams requested;                  ///< the request, e.g. a target
  std::optional<Predicted> predicted;      ///< absent: the user set the parameters
  std::optional<std::uint64_t> cut_short;  ///< answers cut by a budget; absent: no budget
  std::string filter;                      ///< canonical text; empty: none
  double matches = 0;                      ///< vectors that it selects, mean over queries
  std::uint64_t n = 1;                     ///< vectors of the index
  Metric metric = Metric::kL2;             ///< of the index
  std::string simd;                        ///< SIMD level, "avx512" (`query`: of server)
  int threads = 1;
  /// Of labels that are strings.
  std::unordered_map<std::uint64_t, std::string> names;
  std::vector<std::vector<Neighbor>> answers;  ///< per query, nearest first
  std::vector<std::uint64_t> latency_ns;       ///< per query
  double seconds = 0;                          ///< wall time of the whole run
  std::uint32_t in_flight = 1;                 ///< queries in flight per thread
  std::uint64_t batch = 1;                     ///< queries that RunQueries takes as one
  double open_seconds = 0;                     ///< start to open index; 0: unmeasured
  double first_answer_seconds = 0;             ///< start to first answer
  std::optional<Counters> counters;            ///< total; absent: not counted
};

/// Checks --groundtruth and --out, if given, so that a wrong file is reported before the
/// queries run. Errors: as for Summarize and AtomicFile::Create.
absl::Status CheckFiles(const QueryFlags& flags, std::uint64_t queries);

/// Answers query `i` on worker `thread`, in [0, threads), and fills `answer`.
using AnswerOne =
    std::function<absl::Status(int thread, std::uint64_t i, std::vector<Neighbor>* answer)>;

/// Runs `count` queries on `run->threads` threads and fills answers, latency_ns and
/// seconds. Each thread takes the next query not yet taken. An error stops all threads.
/// The error of the first query that has one is returned, prefixed with its number.
absl::Status RunQueries(std::uint64_t count, const AnswerOne& answer_one, QueryRun* run);

/// The figures, in print order. Recall is included only with a ground truth. Errors:
/// those of the ground-truth file; INVALID_ARGUMENT when it holds fewer queries than were
/// run, or fewer than k neighbors.
absl::StatusOr<nlohmann::ordered_json> Summarize(const QueryRun& run,
                                                 const std::string& groundtruth);

/// Prints the same figures as a human-readable table.
void PrintFigures(const nlohmann::ordered_json& figures, std::ostream& out);

/// Writes answers in the format that the suffix names (see
/// datasets/toolbox/answer_writer.h). The file is written whole or not at all.
absl::Status WriteAnswers(const QueryRun& run, const std::string& path);

/// Performs the steps after the run: writes --out, or prints the first answers. Then
/// prints a summary, the table (--stats) or instead of all this one object (--json).
absl::Status Report(const QueryRun& run, const QueryFlags& flags);

}  // namespace hmann::tools
