/// The claims of the HM-ANN paper (doc/paper.md, section 10), measured.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/benchmark.h"

namespace hmann::eval {

/// How many vectors, how many of the queries, and how fine a grid of Equation 3.1.
struct PaperScale {
  const char* name;
  std::uint64_t rows;  ///< 0: all of the base
  std::uint64_t queries, learning_queries;
  int grid_step;  ///< 1: all 50 x 51 pairs
};

/// sample, 200k, 1M, 10M.
const std::vector<PaperScale>& PaperScales();

/// The systems of the paper's figures, as named in results.
inline constexpr const char *kHnsw = "HNSW", *kNsg = "NSG", *kImi = "OPQ + IMI",
                            *kWritten = "HM-ANN as written", *kRun = "HM-ANN as run";

/// Figures (FiguresOf) of the parts of the paper's benchmark, by name: "dram" and
/// "promotion" with k and the number of vectors, as "dram-k1-1000000"; "tiers", "grid",
/// "told".
struct PaperParts {
  std::map<std::string, Json> figures;
  std::vector<std::uint64_t> sizes;  ///< ascending; the last is the scale
  double promoted_bytes = 0;         ///< of fast memory a vector, in "tiers"
  std::uint32_t dim = 0, m = 0;
  DType dtype = DType::kU8;
};

/// The claims: lines of kind "claim" with `claim`, `paper`, `ran`, `figure`,
/// `verdict` (held, partly, not held, needs 10^9), `varied` (what was varied, and which
/// other explanations that rules out), and `tables`: {title, head, rows}.
/// The factors from which a claim counts as held or partly held are our choice, near the
/// paper's.
absl::StatusOr<std::vector<Json>> JudgeClaims(const PaperParts& parts);

/// Settings of the part "told": what Equation 3.1 and the measured times pick in "grid".
Json PickByGrid(const Json& grid);

/// Runs all parts in folders of their own below the benchmark's; one that an earlier run
/// has finished does not run again. Returns and writes, as <folder>/results.jsonl, the
/// lines of "dram" at k = 1 for all sizes, and the claims.
///
/// Errors: INVALID_ARGUMENT for another metric than L2 or too few vectors or queries;
/// RESOURCE_EXHAUSTED before any work if memory or disk cannot hold the scale;
/// FAILED_PRECONDITION if the folder has results of another machine; those of
/// RunBenchmark; CANCELLED.
absl::StatusOr<std::vector<Json>> RunPaper(const PaperScale& scale, const Benchmark& each,
                                           Progress& progress, const Say& say);

}  // namespace hmann::eval
