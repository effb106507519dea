#include "server/core/work_meter.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace hmann::server {
namespace {

constexpr std::int64_t kGuess = 1000;  // ns for each unit of width
constexpr std::int64_t kShare = 16;    // a new time counts 1 / kShare in the mean

std::size_t Bucket(std::uint64_t width, std::size_t buckets) {
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(width)), buckets - 1);
}

std::size_t RowOf(const Effort& effort) {
  return effort.mode.has_value() ? static_cast<std::size_t>(*effort.mode) : kModes;
}

}  // namespace

Effort EffortOf(const ResolvedParams& params, std::chrono::nanoseconds budget) {
  return {params.mode, std::uint64_t{params.ef_l1} + params.ef_l0 + params.nprobe, budget};
}

std::chrono::nanoseconds WorkMeter::Estimate(const Effort& effort) const {
  const Means& means = means_[RowOf(effort)];
  const std::size_t bucket = Bucket(effort.width, kWidths);
  double ns = static_cast<double>(kGuess) * static_cast<double>(effort.width);
  for (std::size_t away = 0; away < kWidths; ++away) {
    const auto mean = [&](std::size_t at) { return means[at].load(std::memory_order_relaxed); };
    if (bucket >= away && mean(bucket - away) != 0) {
      ns = static_cast<double>(mean(bucket - away)) * std::exp2(away);
      break;
    }
    if (bucket + away < kWidths && mean(bucket + away) != 0) {
      ns = static_cast<double>(mean(bucket + away)) / std::exp2(away);
      break;
    }
  }
  constexpr double kMost = 1e15;  // eleven days
  const std::chrono::nanoseconds time(static_cast<std::int64_t>(std::min(ns, kMost)));
  return effort.budget.count() > 0 ? std::min(time, effort.budget) : time;
}

void WorkMeter::Observe(const Effort& effort, std::chrono::nanoseconds time, bool whole) {
  if (effort.budget.count() > 0) return;  // says nothing about unlimited queries
  auto& mean = means_[RowOf(effort)][Bucket(effort.width, kWidths)];
  const std::int64_t before = mean.load(std::memory_order_relaxed), ns = time.count();
  if (!whole && ns <= before) return;
  const std::int64_t after = before == 0 ? ns : before + (ns - before) / kShare;
  mean.store(std::max<std::int64_t>(after, 1), std::memory_order_relaxed);
}

}  // namespace hmann::server
