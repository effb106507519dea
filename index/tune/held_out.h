#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/hmann.h"
#include "index/tune/counting.h"
#include "index/tune/learning_set.h"

namespace hmann {

/// An index of a sample of an index's vectors, and other vectors of it as real queries.
///
/// A left-out vector is harder to find than a query, because its neighbors chose their
/// links next to it. A left-in vector is too easy, because it leads to all of them. A
/// query finds a share of what lies between. The share depends on the data (0.1 to 1),
/// and on the number of vectors (doc/notes/tuning.md): a small index shows about what a
/// not much larger one has.
class HeldOut {
 public:
  /// Builds the index, mostly within two seconds, as a file next to `index` that is
  /// removed at once. `cancelled`: not owned, may be nullptr. Errors: those of
  /// BuildIndex, Index::Open.
  static absl::StatusOr<std::unique_ptr<HeldOut>> Make(const std::string& index, int threads,
                                                       const std::atomic<bool>* cancelled);

  ~HeldOut();

  /// What queries find of k neighbors where left-out vectors find `hard` and left-in ones
  /// `easy`: by searches from cells, which links mislead less, or by those in memory.
  /// Errors: those of MakeLearningSet.
  absl::StatusOr<double> RecallOfQueries(std::uint32_t k, double hard, double easy,
                                         bool from_cells);

  /// Calibration::Difficulty::rise x the middle distance, at k. Left-out vectors whose
  /// neighbors are near are harder than queries, and show 0.56 to 0.89 of it.
  /// Errors: those of ExactSearch and Index::Open.
  absl::StatusOr<float> RelativeRise(std::uint32_t k) const;

 private:
  struct Point {
    double hard, real, share;  ///< real: recall of queries; share: of the way to left-in vectors
  };

  absl::StatusOr<std::vector<Point>> Measure(std::uint32_t k, bool from_cells) const;
  /// The first `count` of the queries.
  absl::StatusOr<LearningSet> Queries(const IndexFile& file, std::uint64_t count,
                                      std::uint32_t k) const;

  int threads_ = 0;
  const std::atomic<bool>* cancelled_ = nullptr;
  std::string path_;  ///< of the small index, while this lives
  std::shared_ptr<const Index> index_;
  std::vector<std::byte> rows_;  ///< the queries, as LearningSet's
  std::size_t vector_bytes_ = 0;
  double credit_ = 1;  ///< of the share that the small index shows
  /// By k and from_cells, recall ascending.
  std::map<std::pair<std::uint32_t, bool>, std::vector<Point>> points_;
};

/// Recall of the neighbors other than itself that the first `queries` of the left-in
/// vectors find.
absl::StatusOr<double> OthersThanItself(ResolvedParams params, std::uint64_t queries,
                                        CountingRuns& left_in);

}  // namespace hmann
