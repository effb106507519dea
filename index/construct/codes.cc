#include "index/construct/codes.h"

#include <algorithm>
#include <cstring>

#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Adds a stored vector, as the metric sees it. `components`: scratch.
void Accumulate(const Kernels& kernels, const std::byte* row, std::vector<float>& components,
                std::vector<double>& sum) {
  float scale = 1;
  if (kernels.metric == Metric::kCosine && !IsFloat(kernels.dtype))
    std::memcpy(&scale, row + kernels.row_bytes - 4, sizeof(scale));
  ReadComponents(kernels.dtype, row, kernels.dim, components.data());
  for (std::uint32_t c = 0; c < kernels.dim; ++c)
    sum[c] += static_cast<double>(components[c]) * scale;
}

}  // namespace

NodeId MeanStep(NodeId n) {
  constexpr NodeId kSample = 65536;
  return std::max<NodeId>(1, n / kSample);
}

std::vector<float> MeanOf(const Kernels& kernels, NodeId n,
                          const std::function<const std::byte*(NodeId id)>& row) {
  const NodeId step = MeanStep(n);
  std::vector<double> sum(kernels.dim);
  std::vector<float> components(kernels.dim);
  double count = 0;
  for (std::uint64_t id = 0; id < n; id += step, ++count)
    Accumulate(kernels, row(static_cast<NodeId>(id)), components, sum);
  std::vector<float> mean(kernels.dim);
  for (std::uint32_t c = 0; c < kernels.dim; ++c) mean[c] = static_cast<float>(sum[c] / count);
  return mean;
}

absl::StatusOr<NodeCodes> NodeCodes::Make(const Kernels& kernels, const CodeInfo& info,
                                          std::uint64_t seed, std::vector<float> mean,
                                          Source source, ThreadPool& pool) {
  HMANN_ASSIGN_OR_RETURN(Encoder encoder, Encoder::Make(kernels, info.bits, seed, std::move(mean)));
  if (encoder.code_bytes() != info.code_bytes)
    return Internal("a code has another size than the file format says");
  source.window = std::min(source.window, source.n - source.n1);
  HMANN_ASSIGN_OR_RETURN(Buffer window,
                         Buffer::Allocate(std::size_t{source.window} * info.code_bytes));
  return NodeCodes(std::move(encoder), std::move(source), pool, std::move(window));
}

const std::byte* NodeCodes::Of(NodeId id) {
  if (id < first_ || id >= last_) {
    first_ = id;
    last_ = id + std::min(source_.window, source_.n - id);
    if (source_.load) source_.load(first_);
    const auto cell_of = [&](NodeId node) {
      const auto after = std::upper_bound(
          source_.cells.begin(), source_.cells.end(), node,
          [](NodeId sought, const CellEntry& cell) { return sought < cell.first; });
      return static_cast<std::size_t>(after - source_.cells.begin()) - 1;
    };
    const std::size_t first = cell_of(first_), last = cell_of(last_ - 1) + 1;
    pool_->ParallelFor(last - first, 64, [&](std::size_t begin, std::size_t end, int thread) {
      for (std::size_t cell = begin; cell < end; ++cell)
        EncodeCell(first + cell, scratch_[static_cast<std::size_t>(thread)]);
    });
  }
  return window_.data() + std::size_t{id - first_} * encoder_.code_bytes();
}

void NodeCodes::EncodeCell(std::size_t cell, Encoder::Scratch& scratch) {
  const NodeId end = cell + 1 < source_.cells.size() ? source_.cells[cell + 1].first : source_.n;
  encoder_.SetCentroid(source_.row(source_.cells[cell].centroid), scratch);
  for (NodeId id = std::max(first_, source_.cells[cell].first); id < std::min(last_, end); ++id) {
    encoder_.Encode(source_.row(id),
                    window_.data() + std::size_t{id - first_} * encoder_.code_bytes(), scratch);
  }
}

}  // namespace hmann
