#include "index/tune/dial_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"

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
      for (const std::uint32_t ef_l0 : Geometric(Least(), Most(), 1.25)) Add({.ef_l1 = ef_l1, .ef_l0 = ef_l0, .walk = Walk::kPool});
    }
  }

  void Reaching() {
    for (const float reach : Reaches(kFineReach)) {
      for (const std::uint32_t width : {1u, 2u, 4u}) {
        for (const std::uint32_t ef_l1 : {1u, 8u}) {
          Add({.ef_l1 = ef_l1, .ef_l0 = Cap(), .walk = Walk::kPool, .width = width, .reach = reach});
        }
      }
    }
  }

  void ReachingGated() {
    const auto add = [this](std::int64_t ef_l0, double step) {
      for (const float reach : Reaches(step)) {
        for (const std::uint32_t width : {4u, 8u, 16u}) {
          for (const std::uint32_t ef_l1 : {2u, 16u}) {
            Add({.ef_l1 = ef_l1, .ef_l0 = ef_l0, .walk = Walk::kGated, .cells = 0, .width = width, .reach = reach});
          }
        }
      }
    };
    add(Cap(), kFineReach);
    // A pool of estimates is worth keeping short: a tenth of the time at equal recall on 1M SIFT vectors.
    for (const double of_least : {2.5, 4.0, 7.0, 12.0}) {
      const std::int64_t ef_l0 = std::lround(of_least * Least());
      if (ef_l0 < Cap()) add(ef_l0, 2 * kFineReach - 1);
    }
  }

  void Beams() {
    for (const std::uint32_t ef_l1 : Geometric(8, 64 + 8 * Most() / 16, 1.5)) {
      for (const std::int64_t ef_l0 : {1, 2, 4}) {
        for (std::uint32_t threads = 1; threads <= options_.most_query_threads; threads *= 2) {
          Add({.ef_l1 = ef_l1, .ef_l0 = ef_l0, .walk = Walk::kBeams, .query_threads = threads});
        }
      }
    }
  }

  void Gated() {
    for (const std::uint32_t width : {4u, 8u, 16u}) {
      for (const std::uint32_t ef_l1 : {2u, 16u}) {
        for (const std::uint32_t ef_l0 : Geometric(Least(), Most(), 1.25)) AddGated(ef_l1, ef_l0, 0, width, -1);
      }
    }
  }

  void Cells() {
    for (const std::uint32_t cells : {32u, 128u, 512u}) {
      for (const std::uint32_t ef_l1 : {cells / 4, cells}) {
        for (const std::uint32_t width : {8u, 16u}) {
          for (const float stop : {1.0f, 1.5f, 2.0f}) {
            for (const std::uint32_t ef_l0 : Geometric(Least(), Most() / 1.5, 1.5)) AddGated(ef_l1, ef_l0, cells, width, stop);
          }
        }
      }
    }
    for (const std::uint32_t cells : {64u, 128u, 256u, 512u, 1024u}) {
      for (const std::uint32_t ef_l1 : {cells / 4, cells / 2, cells}) {
        for (const std::uint32_t width : {8u, 16u, 32u}) {
          for (const float stop : {0.5f, 1.0f, 1.5f, 2.0f, 2.5f, 3.0f}) AddGated(ef_l1, 0, cells, width, stop);
        }
      }
    }
  }

  std::vector<SearchOptions> Take() { return std::move(settings_); }

 private:
  double Least() const { return options_.k == 1 ? 4 : options_.k; }
  double Most() const { return std::max(1000.0, 10.0 * options_.k); }

  /// Wide enough for `reach` to have the last word.
  std::int64_t Cap() const { return static_cast<std::int64_t>(Most()); }
  static constexpr double kFineReach = 1.12;
  static std::vector<float> Reaches(double step) {
    std::vector<float> reaches;
    for (double beyond = 0.02; beyond < 0.8; beyond *= step) reaches.push_back(static_cast<float>(1 + beyond));
    return reaches;
  }

  void AddGated(std::uint32_t ef_l1, std::int64_t ef_l0, std::int64_t cells, std::uint32_t width, float stop) {
    Add({.ef_l1 = ef_l1, .ef_l0 = ef_l0, .walk = Walk::kGated, .cells = cells, .width = width, .stop = stop});
  }

  void Add(SearchOptions dials) {
    dials.k = options_.k;
    const SearchOptions setting = dials.Resolved(options_.context);
    // Resolved may have turned to another walk where the asked for one cannot fill k.
    if (setting.walk != dials.walk || !setting.Validate(options_.context.n).ok()) return;
    const auto key = std::tuple(setting.walk, setting.ef_l1, setting.ef_l0, setting.cells, setting.width, setting.stop, setting.reach,
                                setting.query_threads);
    if (seen_.insert(key).second) settings_.push_back(setting);
  }

  const DialGridOptions& options_;
  std::vector<SearchOptions> settings_;
  std::set<std::tuple<Walk, std::uint32_t, std::int64_t, std::int64_t, std::uint32_t, float, float, std::uint32_t>> seen_;
};

double SquaredDistance(const Surface::Point& a, const Surface::Point& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

}  // namespace

std::vector<SearchOptions> DialGrid(const DialGridOptions& options) {
  Grid grid(options);
  grid.Pool();
  if (options.context.has_ratios) grid.Reaching();
  if (options.context.n1 > 0) grid.Beams();
  if (options.context.has_sketches) grid.Gated();
  if (options.context.has_sketches && options.context.has_ratios) grid.ReachingGated();
  if (options.context.has_cells) grid.Cells();
  return grid.Take();
}

std::size_t DialFamily(const SearchOptions& resolved) {
  switch (resolved.walk) {
    case Walk::kBeams:
      return resolved.query_threads > 1 ? kThreadedFamily : 1;
    case Walk::kGated:
      if (resolved.ef_l0 == 0) return 2;
      if (resolved.reach > 0) return 8;
      if (resolved.cells > 0) return 3;
      return resolved.stop < 0 ? 4 : 5;
    default:
      return resolved.reach > 0 ? 7 : 0;
  }
}

Surface::Point DialPoint(const SearchOptions& resolved) {
  const auto log = [](double value) { return std::log2(value); };
  Surface::Point point = {log(1.0 + resolved.ef_l1), log(1.0 + static_cast<double>(resolved.ef_l0))};
  if (resolved.reach > 0) point.push_back(log(static_cast<double>(resolved.reach) - 1));
  point.push_back(log(resolved.width));
  if (resolved.walk != Walk::kGated) return point;
  point.push_back(log(1.0 + static_cast<double>(resolved.cells)));
  point.push_back(2 * std::max(resolved.stop, 0.0f));
  return point;
}

std::string DescribeDials(const SearchOptions& resolved) {
  const absl::string_view walk(Name(resolved.walk).data(), Name(resolved.walk).size());
  std::string text = absl::StrCat(walk, " ef_l1 ", resolved.ef_l1, " ef_l0 ", resolved.ef_l0);
  if (resolved.walk == Walk::kGated) {
    absl::StrAppend(&text, " cells ", resolved.cells);
    if (resolved.stop >= 0) absl::StrAppend(&text, " stop ", resolved.stop);
  }
  if (resolved.width > 1) absl::StrAppend(&text, " width ", resolved.width);
  if (resolved.reach > 0) absl::StrAppend(&text, " reach ", resolved.reach);
  if (resolved.query_threads > 1) absl::StrAppend(&text, " query_threads ", resolved.query_threads);
  return text;
}

std::vector<std::size_t> CoverFamily(const std::vector<SearchOptions>& grid, std::size_t family, std::size_t most) {
  std::vector<std::size_t> members;
  std::vector<Surface::Point> points;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    if (DialFamily(grid[i]) != family) continue;
    members.push_back(i);
    points.push_back(DialPoint(grid[i]));
    // Thread counts are to be tried as well, so that they are a coordinate here.
    points.back().push_back(std::log2(grid[i].query_threads));
  }
  if (members.empty() || most == 0) return {};
  Surface::Point middle(points[0].size(), 0);
  for (const Surface::Point& point : points) {
    for (std::size_t i = 0; i < point.size(); ++i) middle[i] += point[i] / static_cast<double>(points.size());
  }
  const auto by_middle = [&](const auto& a, const auto& b) { return SquaredDistance(a, middle) < SquaredDistance(b, middle); };
  std::size_t next = static_cast<std::size_t>(std::min_element(points.begin(), points.end(), by_middle) - points.begin());
  std::vector<double> nearest(points.size(), std::numeric_limits<double>::infinity());
  std::vector<std::size_t> cover;
  while (cover.size() < std::min(most, members.size())) {
    cover.push_back(members[next]);
    for (std::size_t i = 0; i < points.size(); ++i) nearest[i] = std::min(nearest[i], SquaredDistance(points[i], points[next]));
    next = static_cast<std::size_t>(std::max_element(nearest.begin(), nearest.end()) - nearest.begin());
  }
  return cover;
}

}  // namespace hmann
