#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace hmann {

/// Bytes of the two kinds of memory that are scarce; the third, slow one takes what is
/// left.
struct TierBytes {
  std::uint64_t fast = 0, middle = 0;

  bool Fits(const TierBytes& budget) const {
    return fast <= budget.fast && middle <= budget.middle;
  }
  friend TierBytes operator+(const TierBytes& a, const TierBytes& b) {
    return {a.fast + b.fast, a.middle + b.middle};
  }
  friend bool operator==(const TierBytes&, const TierBytes&) = default;
};

/// One way to keep something: what it takes and what it costs, in any unit (here: ns of a
/// query).
struct Variant {
  TierBytes bytes;
  double cost = 0;
};

struct KnapsackSolution {
  std::vector<std::size_t> chosen;  ///< [group]: index of its variant
  TierBytes bytes;
  double cost = 0;
};

/// Partial solutions that a solver has looked at: its work.
struct KnapsackWork {
  std::uint64_t states = 0;
};

/// The multiple-choice knapsack: exactly one variant of every group, so that the bytes
/// fit and the sum of costs is least; of equal costs the fewest bytes (fast, then
/// middle). Exact: partial solutions are dropped only where another takes no more of
/// either memory and costs no more (Nemhauser and Ullmann 1969, with groups). Absent:
/// nothing fits. Pure.
std::optional<KnapsackSolution> SolveKnapsack(const std::vector<std::vector<Variant>>& groups,
                                              const TierBytes& budget,
                                              KnapsackWork* work = nullptr);

}  // namespace hmann
