#include "index/tune/dial_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "index/dials/dial_table.h"

namespace hmann {
namespace {

/// low, low * step, ... rounded, distinct, the last being `high`.
std::vector<std::uint32_t> Geometric(double low, double high, double step) {
  std::vector<std::uint32_t> values;
  for (double value = low; value < high * 0.999; value *= step) {
    const auto rounded = static_cast<std::uint32_t>(std::lround(value));
    if (values.empty() || values.back() < rounded) values.push_back(rounded);
  }
  values.push_back(static_cast<std::uint32_t>(std::lround(high)));
  return values;
}

class Grid {
 public:
  explicit Grid(const DialGridOptions& options) : options_(options) {}

  void Pool() {
    for (const std::uint32_t ef_l1 : {1u, 4u, 16u, 64u}) {
      for (const std::uint32_t ef_l0 : Geometric(Least(), Most(), 1.25))
        Add({.ef_l1 = ef_l1, .ef_l0 = ef_l0, .walk = WalkKind::kBestFirst});
    }
  }

  void ByEpsilon() {
    for (const float epsilon : Epsilons(kFineEpsilon)) {
      for (const std::uint32_t width : {1u, 2u, 4u}) {
        for (const std::uint32_t ef_l1 : {1u, 8u}) {
          Add({.ef_l1 = ef_l1,
               .ef_l0 = Cap(),
               .walk = WalkKind::kBestFirst,
               .beam_width = width,
               .epsilon = epsilon});
        }
      }
    }
  }

  void QuantisedByEpsilon() {
    const auto add = [this](std::uint32_t ef_l0, double step) {
      for (const float epsilon : Epsilons(step)) {
        for (const std::uint32_t width : {4u, 8u, 16u}) {
          for (const std::uint32_t ef_l1 : {2u, 16u}) {
            Add({.ef_l1 = ef_l1,
                 .ef_l0 = ef_l0,
                 .walk = WalkKind::kQuantised,
                 .nprobe = 0,
                 .beam_width = width,
                 .epsilon = epsilon});
          }
        }
      }
    };
    add(Cap(), kFineEpsilon);
    // A pool of estimates is worth keeping short: a tenth of the time at equal recall on
    // 1M SIFT vectors.
    for (const double of_least : {2.5, 4.0, 7.0, 12.0}) {
      const auto ef_l0 = static_cast<std::uint32_t>(std::lround(of_least * Least()));
      if (ef_l0 < Cap()) add(ef_l0, 2 * kFineEpsilon - 1);
    }
  }

  void Beams() {
    for (const std::uint32_t ef_l1 : Geometric(8, 64 + 8 * Most() / 16, 1.5)) {
      for (const std::uint32_t ef_l0 : {1u, 2u, 4u}) {
        for (std::uint32_t threads = 1; threads <= options_.most_query_threads; threads *= 2) {
          Add({.ef_l1 = ef_l1,
               .ef_l0 = ef_l0,
               .walk = WalkKind::kMultiStart,
               .query_threads = threads});
        }
      }
    }
  }

  void Quantised() {
    for (const std::uint32_t width : {4u, 8u, 16u}) {
      for (const std::uint32_t ef_l1 : {2u, 16u}) {
        for (const std::uint32_t ef_l0 : Geometric(Least(), Most(), 1.25))
          AddQuantised(ef_l1, ef_l0, 0, width, std::nullopt);
      }
    }
  }

  void Cells() {
    for (const std::uint32_t cells : {32u, 128u, 512u}) {
      for (const std::uint32_t ef_l1 : {cells / 4, cells}) {
        for (const std::uint32_t width : {8u, 16u}) {
          for (const float stop : {1.0f, 1.5f, 2.0f}) {
            for (const std::uint32_t ef_l0 : Geometric(Least(), Most() / 1.5, 1.5))
              AddQuantised(ef_l1, ef_l0, cells, width, stop);
          }
        }
      }
    }
    for (const std::uint32_t cells : {64u, 128u, 256u, 512u, 1024u}) {
      for (const std::uint32_t ef_l1 : {cells / 4, cells / 2, cells}) {
        for (const std::uint32_t width : {8u, 16u, 32u}) {
          for (const float stop : {0.5f, 1.0f, 1.5f, 2.0f, 2.5f, 3.0f})
            AddQuantised(ef_l1, 0, cells, width, stop);
        }
      }
    }
  }

  /// Every third of the settings so far, with each other way of prefetching that can be
  /// of use there.
  void Prefetching() {
    const std::vector<Dials> so_far = settings_;
    for (std::size_t i = 0; i < so_far.size(); i += 3) {
      for (const Prefetch prefetch : {Prefetch::kAhead, Prefetch::kHelper}) {
        if (prefetch == Prefetch::kHelper &&
            (!options_.context.has_helpers || options_.context.block_tier))
          continue;
        Dials dials = so_far[i];
        dials.prefetch = prefetch;
        Keep(dials);
      }
    }
  }

  std::vector<Dials> Take() { return std::move(settings_); }

 private:
  double Least() const { return options_.k == 1 ? 4 : options_.k; }
  double Most() const { return std::max(1000.0, 10.0 * options_.k); }

  /// Wide enough for `epsilon` to have the last word.
  std::uint32_t Cap() const { return static_cast<std::uint32_t>(Most()); }
  static constexpr double kFineEpsilon = 1.12;
  static std::vector<float> Epsilons(double step) {
    std::vector<float> epsilons;
    for (double epsilon = 0.02; epsilon < 0.8; epsilon *= step)
      epsilons.push_back(static_cast<float>(epsilon));
    return epsilons;
  }

  void AddQuantised(std::uint32_t ef_l1, std::uint32_t ef_l0, std::uint32_t cells,
                    std::uint32_t width, std::optional<float> stop) {
    Add({.ef_l1 = ef_l1,
         .ef_l0 = ef_l0,
         .walk = WalkKind::kQuantised,
         .nprobe = cells,
         .beam_width = width,
         .error_bound = stop});
  }

  void Add(SearchOptions options) {
    options.k = options_.k;
    const absl::StatusOr<Dials> dials = options.Resolve(options_.context);
    // Resolve may have turned to another walk where the asked for one cannot fill k.
    if (dials.ok() && dials->walk == options.walk) Keep(*dials);
  }

  void Keep(const Dials& dials) {
    Key key;
    for (const Dial& dial : DialTable()) key.push_back(Running(dial, dials));
    if (seen_.insert(std::move(key)).second) settings_.push_back(dials);
  }

  using Key = std::vector<std::optional<double>>;
  const DialGridOptions& options_;
  std::vector<Dials> settings_;
  std::set<Key> seen_;
};

double SquaredDistance(const Surface::Point& a, const Surface::Point& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

}  // namespace

std::vector<Dials> DialGrid(const DialGridOptions& options) {
  Grid grid(options);
  grid.Pool();
  if (options.context.has_ratios) grid.ByEpsilon();
  if (options.context.n1 > 0) grid.Beams();
  if (options.context.has_codes) grid.Quantised();
  if (options.context.has_codes && options.context.has_ratios) grid.QuantisedByEpsilon();
  if (options.context.has_codes) grid.Cells();
  if (options.context.far || options.context.block_tier) grid.Prefetching();
  return grid.Take();
}

std::size_t DialFamily(const Dials& dials) {
  switch (dials.walk) {
    case WalkKind::kMultiStart:
      return dials.query_threads > 1 ? kThreadedFamily : 1;
    case WalkKind::kQuantised:
      if (dials.ef_l0 == 0) return 2;
      if (dials.epsilon.has_value()) return 8;
      if (dials.nprobe > 0) return 3;
      return dials.error_bound.has_value() ? 5 : 4;
    default:
      return dials.epsilon.has_value() ? 7 : 0;
  }
}

Surface::Point DialPoint(const Dials& dials) {
  const auto log = [](double value) { return std::log2(value); };
  Surface::Point point = {log(1.0 + dials.ef_l1), log(1.0 + static_cast<double>(dials.ef_l0))};
  if (dials.epsilon.has_value()) point.push_back(log(static_cast<double>(*dials.epsilon)));
  point.push_back(log(dials.beam_width));
  if (dials.walk != WalkKind::kQuantised) return point;
  point.push_back(log(1.0 + static_cast<double>(dials.nprobe)));
  point.push_back(2 * dials.error_bound.value_or(0));
  return point;
}

std::vector<std::size_t> CoverFamily(const std::vector<Dials>& grid, std::size_t family,
                                     std::size_t most) {
  std::vector<std::size_t> members;
  std::vector<Surface::Point> points;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    if (DialFamily(grid[i]) != family) continue;
    members.push_back(i);
    points.push_back(DialPoint(grid[i]));
    // Thread counts and prefetching are to be tried as well, so that they are coordinates
    // here.
    points.back().push_back(std::log2(grid[i].query_threads));
    points.back().push_back(static_cast<double>(grid[i].prefetch));
  }
  if (members.empty() || most == 0) return {};
  Surface::Point middle(points[0].size(), 0);
  for (const Surface::Point& point : points) {
    for (std::size_t i = 0; i < point.size(); ++i)
      middle[i] += point[i] / static_cast<double>(points.size());
  }
  const auto by_middle = [&](const auto& a, const auto& b) {
    return SquaredDistance(a, middle) < SquaredDistance(b, middle);
  };
  std::size_t next = static_cast<std::size_t>(
      std::min_element(points.begin(), points.end(), by_middle) - points.begin());
  std::vector<double> nearest(points.size(), std::numeric_limits<double>::infinity());
  std::vector<std::size_t> cover;
  while (cover.size() < std::min(most, members.size())) {
    cover.push_back(members[next]);
    for (std::size_t i = 0; i < points.size(); ++i)
      nearest[i] = std::min(nearest[i], SquaredDistance(points[i], points[next]));
    next = static_cast<std::size_t>(std::max_element(nearest.begin(), nearest.end()) -
                                    nearest.begin());
  }
  return cover;
}

}  // namespace hmann
