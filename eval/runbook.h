/// Vectors that come and go in steps, and searches in between: the streaming track of
/// big-ann-benchmarks (2023).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/vector_file.h"
#include "eval/benchmark.h"

namespace hmann::eval {

/// A change of a range of labels, or a search.
struct RunbookStep {
  enum class Kind : std::uint8_t { kInsert, kDelete, kReplace, kSearch };
  Kind kind = Kind::kSearch;
  std::uint64_t begin = 0, end = 0;  ///< labels
  std::uint64_t from = 0;            ///< kInsert, kReplace: the vector of the first label
};

struct Runbook {
  std::string name;
  std::vector<RunbookStep> steps;
  std::vector<std::uint32_t> order;  ///< the row of each vector; {}: vector i is row i
};

/// Reads a runbook of big-ann-benchmarks: the first data set of its file. Errors: of
/// files; INVALID_ARGUMENT naming the line, or a step whose vectors a base of `n` lacks.
absl::StatusOr<Runbook> ReadRunbook(const std::string& path, std::uint64_t n);

/// Makes a runbook over 64 clusters of the base, which a k-means finds:
/// - simple: inserts one after the other;
/// - delete: likewise, and deletes the one of 16 before;
/// - replace: inserts half of them, then replaces each by one of the other half;
/// - window: 32 parts in the base's order, of which the last 16 stay.
///
/// It searches after every eighth of the steps. Errors: INVALID_ARGUMENT for another name
/// or fewer than 64 vectors.
absl::StatusOr<Runbook> MakeRunbook(const std::string& name, const VectorFile& base);

struct RunbookOptions {
  std::vector<std::string> runbooks = {"simple", "delete", "replace", "window"};  ///< or files
  std::string learn;  ///< vector file of learning queries; "": vectors of the index
  std::string slow = "dram";
};

/// Runs each runbook on a new collection in the benchmark's folder. Returns a line
/// (results.h) for each search at each of the benchmark's targets, and one for each
/// runbook. Recall is that of exact searches at the same moment. Errors: of files; those
/// of Collection; CANCELLED.
absl::StatusOr<std::vector<Json>> RunRunbooks(const RunbookOptions& options,
                                              const Benchmark& benchmark, const Say& say);

}  // namespace hmann::eval
