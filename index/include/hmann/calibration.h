#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hmann/resolved_params.h"

namespace hmann {

/// The mean recall that the default parameters aim at, if the index is calibrated.
constexpr double kDefaultRecall = 0.95;
/// The least recall that is calibrated.
constexpr double kLeastRecall = 0.8;

/// The origin of learning queries that are vectors of the index.
inline constexpr char kLeftOutInTurn[] = "left out in turn";
/// If no other could answer for one that is left out; and if none is needed.
inline constexpr char kOfTheIndex[] = "of the index", kComparedWithAll[] = "compared with all";
/// The queries that a recall measured on this origin holds for: "vectors like the index",
/// or queries like those of a file, which is named.
std::string KindOfQueries(const std::string& origin);

/// The recall and work that the default parameters reach on an index. They are measured
/// on that index when it is built, not fitted to other data. The *ef_scale*
/// (index/params/ef_scale.h) scales the constants in SearchParams::Resolve; the
/// constants themselves are ef_scale 1.
struct Calibration {
  /// A way of searching that is the default in some setup. The ways are: graph for L0 in
  /// memory, with scalar codes if the index is opened with them; quantized for an L0
  /// slower than DRAM; quantized from cells for L0 on a device; and the upper layers
  /// alone, if they find enough.
  struct Way {
    SearchMode mode = SearchMode::kGraph;
    bool cells = false;
    std::uint32_t scalar_bits = 0;
    friend auto operator<=>(const Way&, const Way&) = default;
  };
  struct Point {
    float ef_scale = 1;
    double recall = 0;  ///< mean over the queries
    /// Full-precision distances, mean over the queries; 0: not counted.
    double distances = 0;
  };
  struct Curve {
    Way way{};
    std::uint32_t k = 1;
    std::uint64_t queries = 0;    ///< number of queries that the means are taken over
    std::vector<Point> points{};  ///< ascending in ef_scale and recall; at least one
  };

  /// How `epsilon` follows the query. Measured at k = 10, on the third of the queries
  /// whose kth neighbor is nearest and the third whose kth neighbor is farthest: the rise
  /// is that of the epsilon at which they reach the default recall. For other k it is the
  /// same in relation to their typical distance.
  struct Difficulty {
    std::uint32_t k = 1;
    float typical = 0;  ///< median distance of the kth neighbor
    float rise = 0;     ///< of epsilon, for a kth neighbor that is farther by 1
  };

  std::string origin{};                    ///< where the queries came from
  std::vector<Curve> curves{};             ///< ordered by way, then k
  std::vector<Difficulty> difficulties{};  ///< ordered by k; empty: not measured

  struct Found {
    float ef_scale = 1;
    /// Expected recall; below the requested one if no ef_scale reaches it.
    double recall = 0;
    double distances = 0;  ///< expected number of distances; 0: not counted
    bool measured = true;  ///< false: k is beyond every calibrated one, recall is a guess
  };
  /// Finds the ef_scale for a recall. Between two measured points it interpolates the
  /// logarithm of ef_scale linearly over the log-odds of the recall. Between two
  /// calibrated k it interpolates linearly over log k: the logarithm of ef_scale, or
  /// epsilon itself for a mode that epsilon terminates (doc/notes/tuning.md). Beyond the
  /// last k, the value at the last k is returned as a guess. nullopt: this way was not
  /// calibrated.
  std::optional<Found> Find(const Way& way, std::uint32_t k, double recall) const;

  /// Linear over log k between two measured k; beyond them, that of the nearest.
  Difficulty DifficultyAt(std::uint32_t k) const;

  /// Whether the upper layers alone reach the recall with no more distances than `way`,
  /// which also reads L0. This holds where most answers are promoted nodes, as under
  /// inner product with norms that differ. Times do not enter: fewer distances and no
  /// node reads are faster on any machine.
  bool UpperIsEnough(const Way& way, std::uint32_t k, double recall) const;
};

}  // namespace hmann
