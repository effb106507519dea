#include "index/construct/graph/duplicates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "index/base/checksum.h"

namespace hmann {
namespace {

/// Groups of one hash with which a row is compared, after that of the row before it. A
/// guess: more than a few are no copies, but a narrow cluster.
constexpr std::size_t kMostCompared = 8;

/// Under cosine, unit vectors at most so far apart are copies: half the square is no more
/// than the rounding of an f32 distance. Halves are rounded to more.
double MostApart(DType dtype) { return dtype == DType::kF16 ? 0x1p-11 : 0x1p-12; }

/// Reads a row without its signs of zeros.
void Read(const Kernels& kernels, const std::byte* row, std::vector<float>& components) {
  ReadComponents(kernels.dtype, row, kernels.dim, components.data());
  for (float& x : components) x += 0.0f;
}

double Norm(const std::vector<float>& vector) {
  double squared = 0;
  for (const double x : vector) squared += x * x;
  return std::sqrt(squared);
}

}  // namespace

std::uint64_t CopyFinder::Hash(const std::byte* row) {
  const bool cosine = kernels_.metric == Metric::kCosine;
  if (!cosine && !IsFloat(kernels_.dtype)) return Checksum(row, kernels_.row_bytes);
  Read(kernels_, row, a_);
  const std::uint64_t exact = Checksum(a_.data(), a_.size() * sizeof(float));
  if (!cosine) return exact;
  // Sums of components with pseudorandom signs, in steps much larger than rounding.
  constexpr std::size_t kSums = 8;
  constexpr double kSteps = 64;
  std::array<double, kSums> sums{};
  for (std::size_t i = 0; i < a_.size(); ++i)
    sums[i % kSums] += (i * 0x9e3779b97f4a7c15u >> 40 & 1) != 0 ? a_[i] : -a_[i];
  std::array<std::int64_t, kSums> steps{};
  const double norm = Norm(a_);
  for (std::size_t i = 0; i < kSums; ++i) steps[i] = std::llround(kSteps * sums[i] / norm);
  constexpr std::uint64_t kExact = (std::uint64_t{1} << kExactBits) - 1;
  return (Checksum(steps.data(), sizeof(steps)) & ~kExact) | (exact & kExact);
}

bool CopyFinder::AreCopies(const std::byte* a, const std::byte* b) {
  if (std::memcmp(a, b, kernels_.row_bytes) == 0) return true;
  Read(kernels_, a, a_);
  Read(kernels_, b, b_);
  if (kernels_.metric != Metric::kCosine) return a_ == b_;
  const double of_a = 1 / Norm(a_), of_b = 1 / Norm(b_), most = MostApart(kernels_.dtype);
  double squared = 0;
  for (std::size_t i = 0; i < a_.size(); ++i) {
    const double apart = a_[i] * of_a - b_[i] * of_b;
    squared += apart * apart;
  }
  return squared <= most * most;
}

DuplicateGroups GroupEqual(std::vector<HashedRow> hashed,
                           const std::function<bool(std::uint32_t, std::uint32_t)>& equal) {
  const auto n = static_cast<std::uint32_t>(hashed.size());
  std::sort(hashed.begin(), hashed.end(), [](const HashedRow& a, const HashedRow& b) {
    return a.hash != b.hash ? a.hash < b.hash : a.row < b.row;
  });
  DuplicateGroups found;
  found.unique.reserve(n);
  std::vector<std::vector<std::uint32_t>> same_hash;  // groups, but for the lower bits
  for (std::size_t begin = 0; begin < n;) {
    std::size_t end = begin, last = 0;  // last: the group of the row before
    same_hash.clear();
    const auto first_of = [&] { return hashed[begin].hash >> kExactBits; };
    for (; end < n && hashed[end].hash >> kExactBits == first_of(); ++end) {
      const std::uint32_t row = hashed[end].row;
      const auto is_in = [&](const auto& group) { return equal(group.front(), row); };
      if (same_hash.empty() || !is_in(same_hash[last])) {
        const auto newest = same_hash.end() -
                            static_cast<std::ptrdiff_t>(std::min(same_hash.size(), kMostCompared));
        last = static_cast<std::size_t>(std::find_if(newest, same_hash.end(), is_in) -
                                        same_hash.begin());
        if (last == same_hash.size()) same_hash.emplace_back();
      }
      same_hash[last].push_back(row);
    }
    for (auto& group : same_hash) {
      std::sort(group.begin(), group.end());
      found.unique.push_back(group.front());
      if (group.size() == 1) continue;
      found.copies += group.size() - 1;
      found.groups.push_back(std::move(group));
    }
    begin = end;
  }
  std::sort(found.unique.begin(), found.unique.end());
  std::sort(found.groups.begin(), found.groups.end());
  return found;
}

void LinkCopy(std::span<const NodeId> group, std::size_t i, std::span<NodeId> links) {
  const auto most = static_cast<std::uint32_t>(links.size());
  std::uint32_t count = CountLinks(links.data(), most);
  const std::size_t first_child = 2 * i + 1;
  const std::size_t children =
      std::min<std::size_t>(2, group.size() - std::min(group.size(), first_child));
  if (i > 0) links[count++] = group[(i - 1) / 2];
  count = std::min<std::uint32_t>(count, most - static_cast<std::uint32_t>(children));
  for (std::size_t child = 0; child < children; ++child)
    links[count++] = group[first_child + child];
}

void LinkDuplicates(const std::vector<std::vector<NodeId>>& groups, InsertionGraph& graph) {
  for (const std::vector<NodeId>& group : groups) {
    for (std::size_t i = 0; i < group.size(); ++i)
      LinkCopy(group, i, {graph.Links(0, group[i]), graph.max_degree(0)});
  }
}

}  // namespace hmann
