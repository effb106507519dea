#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/distance.h"
#include "index/base/buffer.h"
#include "index/graph/select.h"
#include "index/graph/types.h"

namespace hmann {

/// How vectors are put into overlapping leaves, within which all are compared with all
/// (PiPNN, arXiv 2602.21247: ball carving by random leaders).
struct PartitionOptions {
  std::uint32_t leaders = 1000;  ///< of a split, at most; of the first, that all are compared with
  std::uint32_t fan = 8;         ///< nearest leaders that a vector follows in the first split,
  std::uint32_t fan_below = 2;   ///< and in the second; one in those that follow
  std::uint32_t group = 12'000;  ///< followers of a leader of the first split, if those are more
  std::uint32_t leaf = 400;      ///< vectors of a leaf, at most
  std::uint64_t seed = 1;
};

/// Leaders of so many memberships: for groups of three quarters of a leaf, so that most
/// of those that are larger than others still fit.
std::uint32_t LeadersFor(std::size_t members, const PartitionOptions& options);

/// Leaders of the first split: as many as make it and the second, whose leaders are fewer
/// the more groups there are, cheapest together. Beyond options.leaders they are looked
/// for by neighbourhoods, and are as many as give the groups that a million vectors have.
std::uint32_t FirstLeaders(std::size_t n, const PartitionOptions& options);

/// Neighbourhoods of so many leaders: looking at all of them and into some takes fewest
/// distances. None: every leader is looked at.
std::uint32_t NeighbourhoodsOf(std::size_t leaders, const PartitionOptions& options);

/// `count` distinct numbers below n, ascending (Floyd's sampling).
std::vector<std::uint32_t> Sample(std::uint64_t seed, std::size_t n, std::uint32_t count);

/// Who follows whom, the other way round: the followers of each leader, ascending, one
/// leader's after the other's, and where they end. nearest: [follower][fan].
void Gather(std::span<const std::uint32_t> nearest, std::uint32_t fan, std::uint32_t leaders,
            std::vector<NodeId>* followers, std::vector<std::size_t>* ends);

/// Finds the nearest of some leaders; keeps its scratch. Of very many, those in the
/// nearest neighbourhoods of leaders, which are the nearest but for a few.
class NearestLeaders {
 public:
  NearestLeaders(const Kernels& kernels, std::vector<const std::byte*> leaders,
                 const PartitionOptions& options, std::uint32_t fan);

  /// Rows that are best asked for at once.
  std::size_t rows_at_once() const;

  /// nearest: fan leaders for each of at most rows_at_once() rows, nearest first; of
  /// equally near ones the first.
  void Find(std::span<const std::byte* const> rows, std::uint32_t* nearest);

 private:
  void FindAmong(const std::vector<const std::byte*>& all, std::span<const std::byte* const> rows,
                 std::uint32_t fan, std::uint32_t* nearest);
  /// Neighbourhood by neighbourhood: its leaders with all rows that look into it.
  void FindByNeighbourhoods(std::span<const std::byte* const> rows, std::uint32_t* nearest);
  void Compare(std::span<const std::byte* const> rows, std::span<const NodeId> of_rows,
               std::span<const NodeId> of_leaders);

  const Kernels* kernels_;
  std::vector<const std::byte*> leaders_;
  std::uint32_t fan_;
  std::vector<const std::byte*> middles_;  ///< of the neighbourhoods; empty: none
  std::vector<NodeId> around_;             ///< leaders, one neighbourhood's after the other's,
  std::vector<std::size_t> around_ends_;   ///< and where they end
  std::vector<DistanceKey> keys_;
  std::vector<std::uint32_t> probed_;
  std::vector<Candidate> best_;  ///< [row][fan]
  std::vector<const std::byte*> lookers_, looked_at_;
};

/// The leaders of a first split, copied, in an order in which those near each other are
/// mostly near in number: a vector's groups lie in few ranges of them then, which is what
/// a build loads at a time.
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

}  // namespace hmann
