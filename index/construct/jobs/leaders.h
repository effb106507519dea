#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/distance.h"
#include "index/base/buffer.h"
#include "index/construct/graph/vectors.h"
#include "index/graph/select.h"
#include "index/graph/types.h"

namespace hmann {

/// How vectors are put into overlapping leaves, within which all pairs are compared
/// (PiPNN, arXiv 2602.21247: ball carving by random leaders).
struct PartitionOptions {
  std::uint32_t leaders = 1000;  ///< of a split, at most; of the first one, if all are compared
  std::uint32_t fan = 8;         ///< nearest leaders that a vector follows in the first split
  std::uint32_t fan_below = 2;   ///< the same in the second; later ones use one
  std::uint32_t group = 12'000;  ///< followers per leader of the first split, if that is more
  std::uint32_t leaf = 400;      ///< vectors of a leaf, at most
  std::uint64_t seed = 1;
  /// A layer of more than `whole` vectors is cut into parts of about `part`
  /// (PartedLayer). Below, its folder would be three times as large for passes that take
  /// minutes. Both are guesses.
  std::uint32_t whole = 256'000'000, part = 6'000'000;
  std::uint64_t followers = 0;  ///< of the first split's leaders; 0: fan for each vector
};

/// The number of leaders for `members` memberships. Groups aim at three quarters of a
/// leaf, so that most of the larger ones still fit.
std::uint32_t LeadersFor(std::size_t members, const PartitionOptions& options);

/// The number of leaders of the first split. It minimizes the cost of the first and the
/// second split together; the second has fewer leaders the more groups there are. Beyond
/// options.leaders they are found by neighborhoods, and their number gives the group size
/// that a million vectors have.
std::uint32_t FirstLeaders(std::size_t n, const PartitionOptions& options);

/// The number of neighborhoods for `leaders` leaders that takes the fewest distances, for
/// comparing all neighborhoods and searching some. 0: every leader is compared.
std::uint32_t NeighborhoodsOf(std::size_t leaders, const PartitionOptions& options);

/// `count` distinct numbers below n, ascending (Floyd's sampling).
std::vector<std::uint32_t> Sample(std::uint64_t seed, std::size_t n, std::uint32_t count);

/// Inverts the assignment: the followers of each leader, ascending, one leader's after
/// the other's, and where each ends. nearest: [follower][fan].
void Gather(std::span<const std::uint32_t> nearest, std::uint32_t fan, std::uint32_t leaders,
            std::vector<NodeId>* followers, std::vector<std::size_t>* ends);

/// Finds the nearest of some leaders; keeps its scratch. If there are very many leaders,
/// it searches only the nearest neighborhoods. That finds all but a few of the nearest.
class NearestLeaders {
 public:
  NearestLeaders(const Kernels& kernels, std::vector<const std::byte*> leaders,
                 const PartitionOptions& options, std::uint32_t fan);

  /// The best number of rows for one Find.
  std::size_t rows_at_once() const;

  /// `nearest`: fan leaders for each of at most rows_at_once() rows, nearest first. Ties
  /// go to the earlier leader.
  void Find(std::span<const std::byte* const> rows, std::uint32_t* nearest);

 private:
  void FindAmong(const std::vector<const std::byte*>& all, std::span<const std::byte* const> rows,
                 std::uint32_t fan, std::uint32_t* nearest);
  /// Goes neighborhood by neighborhood, and compares its leaders with all rows that
  /// search it.
  void FindByNeighborhoods(std::span<const std::byte* const> rows, std::uint32_t* nearest);
  void Compare(std::span<const std::byte* const> rows, std::span<const NodeId> of_rows,
               std::span<const NodeId> of_leaders);

  const Kernels* kernels_;
  std::vector<const std::byte*> leaders_;
  std::uint32_t fan_;
  std::vector<const std::byte*> middles_;  ///< of the neighborhoods; empty: none
  std::vector<NodeId> around_;             ///< leaders, one neighborhood's after the other's
  std::vector<std::size_t> around_ends_;   ///< where each neighborhood ends in around_
  std::vector<DistanceKey> keys_;
  std::vector<std::uint32_t> probed_;
  std::vector<Candidate> best_;  ///< [row][fan]
  std::vector<const std::byte*> lookers_, looked_at_;
};

/// Copies of the leaders of a first split. Leaders near each other mostly have near
/// numbers. So a vector's groups lie in few ranges of groups, and a build loads one range
/// at a time.
class FirstSplit {
 public:
  /// `row(i)`: stored vector i < count; valid until the next call. Errors:
  /// RESOURCE_EXHAUSTED.
  static absl::StatusOr<FirstSplit> Make(const Kernels& kernels, std::size_t stride,
                                         std::size_t count,
                                         const std::function<const std::byte*(std::size_t)>& row,
                                         const PartitionOptions& options);

  std::uint32_t groups() const { return static_cast<std::uint32_t>(leaders_.size()); }
  std::uint32_t fan() const { return fan_; }  ///< groups that a vector is in
  /// For one thread; `kernels` and this must outlive it.
  NearestLeaders Finder(const Kernels& kernels, const PartitionOptions& options) const {
    return NearestLeaders(kernels, leaders_, options, fan_);
  }

 private:
  Buffer rows_;
  std::vector<const std::byte*> leaders_;
  std::uint32_t fan_ = 0;
};

/// Parts of a vector: its home, and others near whose border it lies.
constexpr std::size_t kMostParts = 3;
constexpr std::uint16_t kNoPart = 0xffff;
using PartsOfVector = std::array<std::uint16_t, kMostParts>;  ///< home first, then kNoPart

/// Means of a sample, around which a layer is cut into parts of about the same size
/// (balanced k-means: a number for each part is added to distances). Immutable;
/// thread-safe.
class PartLeaders {
 public:
  /// `sample`: `count` stored vectors in random order, `parts` at least. Errors:
  /// RESOURCE_EXHAUSTED.
  static absl::StatusOr<PartLeaders> Make(const Kernels& kernels, const StoredVectors& sample,
                                          std::size_t count, std::uint32_t parts);

  /// The part nearest to a stored vector, and at most two others nearly as near.
  PartsOfVector Find(const Kernels& kernels, const std::byte* row) const;

 private:
  struct Distance {
    double distance;
    std::uint16_t part;
    bool operator<(const Distance& other) const {
      return distance != other.distance ? distance < other.distance : part < other.part;
    }
  };
  std::vector<Distance> Distances(const Kernels& kernels, const std::byte* row) const;

  StoredVectors means_;
  std::vector<const std::byte*> rows_;
  std::vector<double> added_;  ///< [part]
};

}  // namespace hmann
