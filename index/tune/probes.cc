#include "index/tune/probes.h"

#include <algorithm>
#include <cmath>

#include "index/base/status_macros.h"

namespace hmann {

Figure FigureOf(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  // Interpolates linearly between two samples.
  const auto quantile = [&](double share) {
    const double place = share * static_cast<double>(samples.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, samples.size() - 1);
    return samples[below] +
           (place - static_cast<double>(below)) * (samples[above] - samples[below]);
  };
  const double median = quantile(0.5);
  return {median, median > 0 ? (quantile(0.75) - quantile(0.25)) / median : 0};
}

double Rounded(const Figure& figure) {
  if (figure.median <= 0) return figure.median;
  const double uncertain = figure.median * std::max(figure.spread / 2, 0.0005);
  const double unit = std::pow(
      10.0, std::min(std::floor(std::log10(uncertain)), std::floor(std::log10(figure.median))));
  // Dividing by a whole power of ten keeps 0.1 from becoming 0.1000000000000001.
  return unit >= 1 ? std::round(figure.median / unit) * unit
                   : std::round(figure.median / unit) / std::round(1 / unit);
}

absl::Status Probes::Run(int repeats, std::chrono::nanoseconds budget, Progress& progress) {
  const auto slice =
      std::chrono::duration_cast<Clock::duration>(budget) /
      std::max<std::size_t>(1, probes_.size() * static_cast<std::size_t>(repeats + 1));
  progress.Start("measure", static_cast<std::uint64_t>(repeats + 1) * probes_.size(), "probes");
  for (Probe& probe : probes_) probe.samples.clear();
  for (int repeat = -1; repeat < repeats; ++repeat) {
    for (Probe& probe : probes_) {
      HMANN_ASSIGN_OR_RETURN(const double value, probe.measure(slice));
      if (repeat >= 0) probe.samples.push_back(value);
      progress.Advance(1);
    }
  }
  for (Probe& probe : probes_) *probe.out = FigureOf(probe.samples);
  progress.Finish();
  return absl::OkStatus();
}

std::vector<Figure> Probes::figures() const {
  std::vector<Figure> figures;
  for (const Probe& probe : probes_) figures.push_back(*probe.out);
  return figures;
}

}  // namespace hmann
