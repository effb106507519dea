#include "index/tune/ladder.h"

#include <algorithm>
#include <cmath>

#include "absl/status/statusor.h"
#include "hmann/dial_table.h"

namespace hmann {
namespace {

class Ways {
 public:
  Ways(std::uint32_t k, const SearchContext& context) : k_(k), context_(context) {
    context_.calibration = nullptr;
    context_.effort = 1.0f;
  }

  void Upper() {
    if (k_ <= context_.n1) Add({.walk = WalkKind::kUpper});
  }

  void BestFirst() {
    for (const std::uint32_t ef_l1 : {1u, 8u}) {
      for (const std::uint32_t width : {1u, 2u, 4u})
        Add({.ef_l1 = ef_l1, .walk = WalkKind::kBestFirst, .beam_width = width});
    }
    if (context_.has_ratios) Add({.walk = WalkKind::kBestFirst, .beam_width = 2, .epsilon = -1.0f});
  }

  void MultiStart(std::uint32_t most_threads) {
    for (const std::uint32_t ef_l0 : {1u, 3u}) {
      for (std::uint32_t threads = 1; threads <= most_threads; threads *= 2)
        Add({.ef_l0 = ef_l0, .walk = WalkKind::kMultiStart, .query_threads = threads});
    }
  }

  /// By links, and codes say what is read.
  void Quantised() {
    for (const std::uint32_t ef_l1 : {2u, 16u}) {
      for (const std::uint32_t width : {8u, 16u})
        Add({.ef_l1 = ef_l1, .walk = WalkKind::kQuantised, .nprobe = 0, .beam_width = width});
    }
    if (context_.has_ratios) Add({.walk = WalkKind::kQuantised, .nprobe = 0, .epsilon = -1.0f});
  }

  /// From cells. Without links (ef_l0 0) more of them and a wider bound.
  void Cells() {
    const auto cells = static_cast<double>(std::max(128u, 4 * k_));
    for (const double share : {0.5, 1.0, 2.0}) {
      for (const float bound : {1.0f, 2.0f}) {
        Add({.walk = WalkKind::kQuantised,
             .nprobe = static_cast<std::uint32_t>(share * cells),
             .beam_width = 16,
             .error_bound = bound});
      }
    }
    for (const double share : {1.0, 3.0}) {
      Add({.ef_l0 = 0,
           .walk = WalkKind::kQuantised,
           .nprobe = static_cast<std::uint32_t>(share * cells),
           .beam_width = 16,
           .error_bound = 2.0f});
    }
  }

  std::vector<Dials> Take() { return std::move(ways_); }

 private:
  void Add(SearchOptions options) {
    options.k = k_;
    const absl::StatusOr<Dials> dials = options.Resolve(context_);
    // Resolve may have turned to another walk where the asked for one cannot fill k, and
    // a small index may bring two ways together.
    if (dials.ok() && dials->walk == options.walk &&
        std::find(ways_.begin(), ways_.end(), *dials) == ways_.end())
      ways_.push_back(*dials);
  }

  std::uint32_t k_;
  SearchContext context_;
  std::vector<Dials> ways_;
};

}  // namespace

std::vector<Dials> WaysToSearch(std::uint32_t k, const SearchContext& context,
                                std::uint32_t most_query_threads) {
  Ways ways(k, context);
  ways.Upper();
  ways.BestFirst();
  if (context.n1 > 0) ways.MultiStart(most_query_threads);
  if (context.has_codes) {
    ways.Quantised();
    ways.Cells();
  }
  return ways.Take();
}

std::vector<Dials> NextTo(const Dials& way, const SearchContext& context) {
  std::vector<Dials> next;
  const auto add = [&](const auto& change) {
    Dials dials = way;
    change(dials);
    if (!(dials == way) && OptionsOf(dials).Validate(context.n).ok()) next.push_back(dials);
  };
  const auto scale = [&](std::uint32_t Dials::*dial, double by) {
    for (const double factor : {by, 1 / by}) {
      add([&](Dials& dials) {
        const double scaled = std::round(dials.*dial * factor);
        // At least one up or down, but never to 0, which may mean another way.
        const double moved =
            factor > 1 ? std::max(scaled, dials.*dial + 1.0) : std::min(scaled, dials.*dial - 1.0);
        if (dials.*dial > 0) dials.*dial = static_cast<std::uint32_t>(std::max(1.0, moved));
      });
    }
  };
  if (way.walk == WalkKind::kMultiStart) scale(&Dials::ef_l0, 2);
  if (way.walk == WalkKind::kBestFirst || way.walk == WalkKind::kQuantised) {
    scale(&Dials::ef_l1, way.nprobe > 0 ? 1.5 : 2);
    scale(&Dials::beam_width, 1.5);
  }
  if (way.nprobe > 0) scale(&Dials::nprobe, 1.4);
  if (way.walk == WalkKind::kQuantised && way.ef_l0 > way.k) scale(&Dials::ef_l0, 1.5);
  if (way.error_bound.has_value()) {
    for (const float by : {1.25f, 0.8f}) add([by](Dials& dials) { *dials.error_bound *= by; });
  }
  if (context.far || context.block_tier) {
    for (const Prefetch prefetch : {Prefetch::kAhead, Prefetch::kHelper, Prefetch::kRound}) {
      const bool can =
          prefetch != Prefetch::kHelper || (context.has_helpers && !context.block_tier);
      if (can) add([prefetch](Dials& dials) { dials.prefetch = prefetch; });
    }
  }
  return next;
}

}  // namespace hmann
