#include "index/build/sketches.h"

#include <algorithm>
#include <cstring>

#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Adds a stored vector, as the metric sees it.
void Accumulate(const Kernels& kernels, const std::byte* row, std::vector<double>& sum) {
  float scale = 1;
  if (kernels.metric == Metric::kCosine && kernels.dtype != DType::kF32) std::memcpy(&scale, row + kernels.row_bytes - 4, sizeof(scale));
  for (std::uint32_t c = 0; c < kernels.dim; ++c) {
    float component;
    if (kernels.dtype == DType::kF32) {
      std::memcpy(&component, row + std::size_t{c} * sizeof(float), sizeof(component));
    } else {
      const auto byte = static_cast<std::uint8_t>(row[c]);
      component = kernels.dtype == DType::kU8 ? static_cast<float>(byte) : static_cast<float>(static_cast<std::int8_t>(byte));
    }
    sum[c] += static_cast<double>(component) * scale;
  }
}

}  // namespace

std::vector<float> MeanOf(const Kernels& kernels, NodeId n, const std::function<const std::byte*(NodeId id)>& row) {
  constexpr NodeId kSample = 65536;
  const NodeId step = std::max<NodeId>(1, n / kSample);
  std::vector<double> sum(kernels.dim);
  double count = 0;
  for (std::uint64_t id = 0; id < n; id += step, ++count) Accumulate(kernels, row(static_cast<NodeId>(id)), sum);
  std::vector<float> mean(kernels.dim);
  for (std::uint32_t c = 0; c < kernels.dim; ++c) mean[c] = static_cast<float>(sum[c] / count);
  return mean;
}

absl::StatusOr<Sketches> MakeSketches(const Kernels& kernels, const CodeInfo& codes, std::uint64_t seed, NodeId n, NodeId n1,
                                      std::span<const CellEntry> cells, const std::function<const std::byte*(NodeId id)>& row,
                                      ThreadPool& pool, const std::atomic<bool>* cancelled, Progress& progress) {
  Sketches sketches{codes, MeanOf(kernels, n, row), {}};
  HMANN_ASSIGN_OR_RETURN(const Sketcher sketcher, Sketcher::Make(kernels, codes.bits, seed, sketches.mean));
  if (sketcher.sketch_bytes() != codes.sketch_bytes) return absl::InternalError("a sketch has another size than the file format says");
  HMANN_ASSIGN_OR_RETURN(sketches.bytes, Buffer::Allocate(static_cast<std::size_t>(n - n1) * codes.sketch_bytes));
  std::vector<Sketcher::Scratch> scratch(static_cast<std::size_t>(pool.threads()));
  const auto is_cancelled = [cancelled] { return cancelled != nullptr && cancelled->load(std::memory_order_relaxed); };
  pool.ParallelFor(cells.size(), 64, [&](std::size_t begin, std::size_t end, int thread) {
    if (is_cancelled()) return;
    const NodeId first = cells[begin].first, last = end < cells.size() ? cells[end].first : n;
    for (std::size_t cell = begin; cell < end; ++cell) {
      const NodeId cell_end = cell + 1 < cells.size() ? cells[cell + 1].first : n;
      Sketcher::Scratch& own = scratch[static_cast<std::size_t>(thread)];
      sketcher.SetHub(row(cells[cell].hub), own);
      for (NodeId id = cells[cell].first; id < cell_end; ++id) {
        std::byte* place = sketches.bytes.data() + static_cast<std::size_t>(id - n1) * codes.sketch_bytes;
        sketcher.Encode(row(id), place, own);
      }
    }
    progress.Advance(last - first);
  });
  if (is_cancelled()) return absl::CancelledError("the build was cancelled");
  return sketches;
}

absl::StatusOr<EdgeSketches> EdgeSketches::Make(const Kernels& kernels, const CodeInfo& codes, std::uint64_t seed, Source source,
                                                ThreadPool& pool) {
  std::vector<float> mean = MeanOf(kernels, source.n, source.row);
  HMANN_ASSIGN_OR_RETURN(Sketcher sketcher, Sketcher::Make(kernels, codes.bits, seed, mean));
  if (sketcher.sketch_bytes() != codes.sketch_bytes) return absl::InternalError("a sketch has another size than the file format says");
  const std::size_t nodes = std::min(source.n, kWindow);
  HMANN_ASSIGN_OR_RETURN(Buffer window, Buffer::Allocate(nodes * source.max_links * codes.sketch_bytes));
  return EdgeSketches(std::move(sketcher), std::move(mean), std::move(source), pool, std::move(window));
}

EdgeSketches::EdgeSketches(Sketcher sketcher, std::vector<float> mean, Source source, ThreadPool& pool, Buffer window)
    : sketcher_(std::move(sketcher)),
      mean_(std::move(mean)),
      source_(std::move(source)),
      pool_(&pool),
      window_(std::move(window)),
      scratch_(static_cast<std::size_t>(pool.threads())) {}

const std::byte* EdgeSketches::Of(NodeId id) {
  if (id < first_ || id >= last_) {
    first_ = id / kWindow * kWindow;
    last_ = std::min(first_ + kWindow, source_.n);
    pool_->ParallelFor(last_ - first_, 16, [this](std::size_t begin, std::size_t end, int thread) {
      for (std::size_t i = begin; i < end; ++i) Encode(first_ + static_cast<NodeId>(i), scratch_[static_cast<std::size_t>(thread)]);
    });
  }
  return window_.data() + static_cast<std::size_t>(id - first_) * source_.max_links * sketcher_.sketch_bytes();
}

void EdgeSketches::Encode(NodeId id, Scratch& scratch) {
  scratch.links.clear();
  source_.append(id, scratch.links);
  sketcher_.SetHub(source_.row(id), scratch.sketcher);
  std::byte* place = window_.data() + static_cast<std::size_t>(id - first_) * source_.max_links * sketcher_.sketch_bytes();
  for (const NodeId link : scratch.links) {
    sketcher_.Encode(source_.row(link), place, scratch.sketcher);
    place += sketcher_.sketch_bytes();
  }
}

}  // namespace hmann
