#include "index/tune/ladder.h"

#include <algorithm>
#include <cmath>

#include "absl/status/statusor.h"

namespace hmann {
namespace {

class Ways {
 public:
  Ways(std::uint32_t k, const SearchContext& context) : k_(k), context_(context) {
    context_.ef_scale = 1.0f;
  }

  void Upper() {
    if (k_ <= context_.n1) Add({.mode = SearchMode::kUpper});
  }

  /// The setting of a search without parameters.
  void Untuned() { Add({}); }

  void BestFirst() {
    for (const std::uint32_t ef_l1 : {1u, 8u}) {
      for (const std::uint32_t width : {1u, 2u, 4u})
        Add({.ef_l1 = ef_l1, .mode = SearchMode::kGraph, .beam_width = width});
    }
    if (context_.has_ratios) Add({.mode = SearchMode::kGraph, .beam_width = 2, .epsilon = -1.0f});
  }

  void MultiStart(std::uint32_t most_threads) {
    for (std::uint32_t threads = 1; threads <= most_threads; threads *= 2)
      Add({.mode = SearchMode::kMultiStart, .query_threads = threads});
  }

  /// Quantized search along links; codes decide what is read.
  void Quantized() {
    for (const std::uint32_t ef_l1 : {2u, 16u}) {
      for (const std::uint32_t width : {8u, 16u})
        Add({.ef_l1 = ef_l1, .mode = SearchMode::kQuantized, .nprobe = 0, .beam_width = width});
    }
    if (context_.has_ratios) Add({.mode = SearchMode::kQuantized, .nprobe = 0, .epsilon = -1.0f});
  }

  /// Quantized search from cells. Without links (ef_l0 0) it uses more cells and a wider
  /// bound.
  void Cells() {
    const auto cells = static_cast<double>(std::max(128u, 4 * k_));
    for (const double share : {0.5, 1.0, 2.0}) {
      for (const float bound : {1.0f, 2.0f}) {
        Add({.mode = SearchMode::kQuantized,
             .nprobe = static_cast<std::uint32_t>(share * cells),
             .beam_width = 16,
             .error_bound = bound});
      }
    }
    for (const double share : {1.0, 3.0}) {
      Add({.ef_l0 = 0,
           .mode = SearchMode::kQuantized,
           .nprobe = static_cast<std::uint32_t>(share * cells),
           .beam_width = 16,
           .error_bound = 2.0f});
    }
  }

  std::vector<ResolvedParams> Take() { return std::move(ways_); }

 private:
  void Add(SearchParams options) {
    options.k = k_;
    const absl::StatusOr<ResolvedParams> params = options.Resolve(context_);
    // Resolve may switch to another mode where the requested one cannot fill k. A small
    // index may make two settings equal.
    if (params.ok() && params->mode == options.mode.value_or(params->mode) &&
        std::find(ways_.begin(), ways_.end(), *params) == ways_.end())
      ways_.push_back(*params);
  }

  std::uint32_t k_;
  SearchContext context_;
  std::vector<ResolvedParams> ways_;
};

}  // namespace

std::vector<ResolvedParams> WaysToSearch(std::uint32_t k, const SearchContext& context,
                                         std::uint32_t most_query_threads) {
  Ways ways(k, context);
  ways.Untuned();
  ways.Upper();
  ways.BestFirst();
  if (context.n1 > 0) ways.MultiStart(most_query_threads);
  if (context.has_codes) {
    ways.Quantized();
    ways.Cells();
  }
  return ways.Take();
}

std::vector<ResolvedParams> NextTo(const ResolvedParams& way, const SearchContext& context) {
  std::vector<ResolvedParams> next;
  const auto add = [&](const auto& change) {
    ResolvedParams params = way;
    change(params);
    if (!(params == way) && ParamsOf(params).Validate(context.n).ok()) next.push_back(params);
  };
  const auto scale = [&](std::uint32_t ResolvedParams::*param, double by) {
    for (const double factor : {by, 1 / by}) {
      add([&](ResolvedParams& params) {
        const double scaled = std::round(params.*param * factor);
        // At least one step up or down, but never to 0, which may mean another setting.
        const double moved = factor > 1 ? std::max(scaled, params.*param + 1.0)
                                        : std::min(scaled, params.*param - 1.0);
        if (params.*param > 0) params.*param = static_cast<std::uint32_t>(std::max(1.0, moved));
      });
    }
  };
  if (way.mode == SearchMode::kGraph || way.mode == SearchMode::kQuantized) {
    scale(&ResolvedParams::ef_l1, way.nprobe > 0 ? 1.5 : 2);
    scale(&ResolvedParams::beam_width, 1.5);
  }
  if (way.nprobe > 0) scale(&ResolvedParams::nprobe, 1.4);
  if (way.mode == SearchMode::kQuantized && way.ef_l0 > way.k) scale(&ResolvedParams::ef_l0, 1.5);
  if (way.error_bound.has_value()) {
    for (const float by : {1.25f, 0.8f})
      add([by](ResolvedParams& params) { *params.error_bound *= by; });
  }
  if (context.far || context.block_tier) {
    for (const Prefetch prefetch : {Prefetch::kAhead, Prefetch::kHop})
      add([prefetch](ResolvedParams& params) { params.prefetch = prefetch; });
  }
  return next;
}

}  // namespace hmann
