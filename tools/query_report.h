/// What `hmann search` and `hmann query` share: their options, the loop that runs queries
/// side by side, and the report on them.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/answer.h"
#include "hmann/counters.h"
#include "hmann/dials.h"
#include "hmann/search_options.h"
#include "nlohmann/json.hpp"

namespace hmann::tools {

/// Options that both commands have, as parsed.
struct QueryFlags {
  std::string queries;      ///< vector file
  std::string groundtruth;  ///< optional
  std::string out;          ///< optional: .ibin, .gt or .jsonl
  SearchOptions search;
  std::uint64_t rows = 0;  ///< first queries only; 0: all
  int threads = 1;         ///< queries side by side
  bool json = false;
};

/// Declares targets, and the dials that they take the place of, on `app`; `search` must
/// outlive it.
void AddDials(CLI::App& app, SearchOptions* search);

/// Declares --queries --k, targets and dials, --threads --groundtruth --out --rows --json
/// on `app`; `flags` must outlive it. Checks the suffix of --out while parsing, so that
/// no work is done for an answer that cannot be written.
void AddQueryFlags(CLI::App& app, QueryFlags* flags);

/// What the tuned table predicts for a target.
struct Predicted {
  double recall = 0;              ///< mean over the learning queries
  std::optional<double> mean_us;  ///< one query at a time, in the engine; absent: not measured
};

/// The answers to a file of queries, and what they took.
struct QueryRun {
  Dials dials;                             ///< what really ran
  SearchOptions asked;                     ///< what was said of it: a target
  std::optional<Predicted> predicted;      ///< absent: the dials were the user's own
  std::optional<std::uint64_t> cut_short;  ///< answers that a budget ended; absent: there was none
  std::string simd;  ///< "avx512": who computed the distances (the server's, for `query`)
  int threads = 1;
  std::vector<std::vector<Neighbour>> answers;  ///< per query, nearest first
  std::vector<std::uint64_t> latency_ns;        ///< per query
  double seconds = 0;                           ///< wall time of the whole run
  std::uint32_t in_flight = 1;                  ///< queries of one thread under way at once
  double open_seconds = 0;           ///< from the start to an open index; 0: not measured here
  double first_answer_seconds = 0;   ///< from the start to the first answer
  std::optional<Counters> counters;  ///< sum over all queries; absent when nobody counted
};

/// Reads --groundtruth, if given, so that a wrong one is known before the queries run.
/// Errors: as Summarise.
absl::Status CheckGroundTruth(const QueryFlags& flags, std::uint64_t queries);

/// Answers query `i` on worker `thread`, in [0, threads): fills `answer`.
using AnswerOne =
    std::function<absl::Status(int thread, std::uint64_t i, std::vector<Neighbour>* answer)>;

/// Runs `count` queries on `run->threads` threads, each taking the next query not yet
/// taken, and fills answers, latency_ns and seconds. The first error stops all threads
/// and is returned, with the query's number in front.
absl::Status RunQueries(std::uint64_t count, const AnswerOne& answer_one, QueryRun* run);

/// The figures, in the order in which they are printed. Recall is there only with a
/// ground truth. Errors: of the ground-truth file; INVALID_ARGUMENT when it holds fewer
/// queries than were run, or fewer than k neighbours.
absl::StatusOr<nlohmann::ordered_json> Summarise(const QueryRun& run,
                                                 const std::string& groundtruth);

/// The same figures as a table for the eye.
void PrintFigures(const nlohmann::ordered_json& figures, std::ostream& out);

/// Writes answers by suffix (see datasets/toolbox/answer_writer.h). Whole or not at all.
absl::Status WriteAnswers(const QueryRun& run, const std::string& path);

/// All of the above after the run: writes --out, then prints the object on stdout
/// (--json) or the table on stderr.
absl::Status Report(const QueryRun& run, const QueryFlags& flags);

}  // namespace hmann::tools
