#include "index/tune/planner.h"

#include <algorithm>
#include <tuple>

namespace hmann {
namespace {

struct Partial {
  TierBytes bytes;
  double cost = 0;
  std::size_t before = 0;   ///< its place among the partial solutions of the groups before
  std::size_t variant = 0;  ///< of the last group
};

auto Order(const Partial& partial) {
  return std::tie(partial.cost, partial.bytes.fast, partial.bytes.middle);
}

/// Those that no other beats in every respect, cheapest first.
std::vector<Partial> Undominated(std::vector<Partial> partials) {
  std::sort(partials.begin(), partials.end(),
            [](const Partial& a, const Partial& b) { return Order(a) < Order(b); });
  std::vector<Partial> kept;
  // Of those kept, which all cost no more: (fast, middle), fast descending and middle
  // ascending, as a staircase.
  std::vector<TierBytes> stairs;
  for (const Partial& partial : partials) {
    // The first step with fast <= partial's has the least middle among all that have.
    const auto step = std::find_if(stairs.begin(), stairs.end(), [&](const TierBytes& one) {
      return one.fast <= partial.bytes.fast;
    });
    if (step != stairs.end() && step->middle <= partial.bytes.middle) continue;
    kept.push_back(partial);
    std::erase_if(stairs, [&](const TierBytes& one) { return partial.bytes.Fits(one); });
    const auto place = std::find_if(stairs.begin(), stairs.end(), [&](const TierBytes& one) {
      return one.fast <= partial.bytes.fast;
    });
    stairs.insert(place, partial.bytes);
  }
  return kept;
}

}  // namespace

std::optional<KnapsackSolution> SolveKnapsack(const std::vector<std::vector<Variant>>& groups,
                                              const TierBytes& budget, KnapsackWork* work) {
  std::vector<std::vector<Partial>> levels = {{Partial{}}};
  for (const std::vector<Variant>& group : groups) {
    const std::vector<Partial>& before = levels.back();
    std::vector<Partial> next;
    for (std::size_t p = 0; p < before.size(); ++p) {
      for (std::size_t v = 0; v < group.size(); ++v) {
        const TierBytes bytes = before[p].bytes + group[v].bytes;
        if (bytes.Fits(budget)) next.push_back({bytes, before[p].cost + group[v].cost, p, v});
      }
    }
    if (work != nullptr) work->states += next.size();
    levels.push_back(Undominated(std::move(next)));
    if (levels.back().empty()) return std::nullopt;
  }
  KnapsackSolution solution;
  solution.chosen.resize(groups.size());
  const Partial& best = levels.back().front();
  solution.bytes = best.bytes;
  solution.cost = best.cost;
  std::size_t place = 0;
  for (std::size_t level = groups.size(); level > 0; --level) {
    solution.chosen[level - 1] = levels[level][place].variant;
    place = levels[level][place].before;
  }
  return solution;
}

}  // namespace hmann
