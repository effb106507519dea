#include "index/construct/graph/lift.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "index/base/status_macros.h"
#include "index/distance/half.h"

namespace hmann {
namespace {

/// For NormTellsMore: the number of queries, and of rows that may be answers.
constexpr std::size_t kQueries = 256, kSample = 50000;
constexpr std::size_t kAnswers = 10;

/// Picks `count` of n, evenly spaced.
std::vector<NodeId> Evenly(std::size_t n, std::size_t count) {
  std::vector<NodeId> nodes(std::min(n, count));
  for (std::size_t i = 0; i < nodes.size(); ++i)
    nodes[i] = static_cast<NodeId>(i * n / nodes.size());
  return nodes;
}

}  // namespace

absl::StatusOr<Kernels> LiftedKernels(const Kernels& inner_product) {
  return ChooseKernels(inner_product.dtype, Metric::kL2, inner_product.dim + 1);
}

void LiftRows(const Kernels& inner_product, std::size_t n, const TaskContext& job,
              StoredVectors& rows) {
  std::vector<double> norms(n);
  job.pool.ParallelFor(n, 4096, [&](std::size_t begin, std::size_t end, int) {
    std::vector<float> row(inner_product.dim);
    for (std::size_t i = begin; i < end; ++i) {
      ReadComponents(inner_product.dtype, rows.Row(i), inner_product.dim, row.data());
      norms[i] = std::transform_reduce(row.begin(), row.end(), 0.0, std::plus<>(),
                                       [](double x) { return x * x; });
    }
  });
  const double largest = n == 0 ? 0 : *std::max_element(norms.begin(), norms.end());
  job.pool.ParallelFor(n, 4096, [&](std::size_t begin, std::size_t end, int) {
    for (std::size_t i = begin; i < end; ++i) {
      const auto lack = static_cast<float>(std::sqrt(largest - norms[i]));
      std::byte* place = rows.rows.data() + i * rows.stride + inner_product.row_bytes;
      if (inner_product.dtype == DType::kF16) {
        // Where halves cannot hold it (norms beyond 65504), links only become worse.
        const Half half = Half::Nearest(std::min(lack, kLargestHalf));
        std::memcpy(place, &half, sizeof(half));
      } else {
        std::memcpy(place, &lack, sizeof(lack));
      }
    }
  });
}

absl::StatusOr<bool> NormTellsMore(const Kernels& inner_product, const NodeVectors& rows,
                                   const std::vector<NodeId>& ranked, NodeId n1,
                                   const TaskContext& job) {
  const std::size_t n = ranked.size();
  if (n1 == 0) return false;
  std::vector<NodeId> by_norm = ranked;
  RankByNorm(inner_product, rows, by_norm);
  std::vector<std::uint8_t> large(n), linked(n);
  for (NodeId i = 0; i < n1; ++i) large[by_norm[i]] = linked[ranked[i]] = 1;
  const std::vector<NodeId> sample = Evenly(n, kSample), queries = Evenly(n, kQueries);
  HMANN_ASSIGN_OR_RETURN(const StoredVectors of_sample, rows.Gather(sample, job.pool));
  HMANN_ASSIGN_OR_RETURN(const StoredVectors of_queries, rows.Gather(queries, job.pool));
  // [query]: answers held by norm, by degree
  std::vector<std::array<std::size_t, 2>> held(queries.size());
  job.pool.ParallelFor(queries.size(), 1, [&](std::size_t begin, std::size_t end, int) {
    std::vector<std::pair<DistanceKey, NodeId>> answers;
    for (std::size_t q = begin; q < end; ++q) {
      answers.clear();
      for (std::size_t i = 0; i < sample.size(); ++i) {
        // Skips the row itself; a real query is seldom a row of the base.
        if (sample[i] == queries[q]) continue;
        answers.emplace_back(
            inner_product.one(of_queries.Row(q), of_sample.Row(i), inner_product.dim), sample[i]);
      }
      const std::size_t count = std::min(kAnswers, answers.size());
      const auto last = answers.begin() + static_cast<std::ptrdiff_t>(count);
      std::partial_sort(answers.begin(), last, answers.end());
      for (auto answer = answers.begin(); answer != last; ++answer) {
        held[q][0] += large[answer->second];
        held[q][1] += linked[answer->second];
      }
    }
  });
  std::array<std::size_t, 2> sum{};
  for (const auto& of : held) sum = {sum[0] + of[0], sum[1] + of[1]};
  return sum[0] * 10 > sum[1] * 11;
}

void RankByNorm(const Kernels& inner_product, const NodeVectors& rows,
                std::vector<NodeId>& ranked) {
  // The extra component of a row: the smaller it is, the larger the norm.
  std::vector<float> lacks(ranked.size());
  std::vector<std::byte> place(rows.stride);
  for (NodeId node = 0; node < lacks.size(); ++node) {
    ReadComponents(inner_product.dtype, rows.Take(node, place.data()) + inner_product.row_bytes, 1,
                   &lacks[node]);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](NodeId a, NodeId b) { return lacks[a] < lacks[b]; });
}

}  // namespace hmann
