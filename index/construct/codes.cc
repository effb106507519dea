#include "index/construct/codes.h"

#include <algorithm>
#include <cstring>

#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Adds a stored vector, as the metric sees it.
void Accumulate(const Kernels& kernels, const std::byte* row, std::vector<double>& sum) {
  float scale = 1;
  if (kernels.metric == Metric::kCosine && kernels.dtype != DType::kF32)
    std::memcpy(&scale, row + kernels.row_bytes - 4, sizeof(scale));
  for (std::uint32_t c = 0; c < kernels.dim; ++c) {
    float component;
    if (kernels.dtype == DType::kF32) {
      std::memcpy(&component, row + std::size_t{c} * sizeof(float), sizeof(component));
    } else {
      const auto byte = static_cast<std::uint8_t>(row[c]);
      component = kernels.dtype == DType::kU8 ? static_cast<float>(byte)
                                              : static_cast<float>(static_cast<std::int8_t>(byte));
    }
    sum[c] += static_cast<double>(component) * scale;
  }
}

}  // namespace

std::vector<float> MeanOf(const Kernels& kernels, NodeId n,
                          const std::function<const std::byte*(NodeId id)>& row) {
  constexpr NodeId kSample = 65536;
  const NodeId step = std::max<NodeId>(1, n / kSample);
  std::vector<double> sum(kernels.dim);
  double count = 0;
  for (std::uint64_t id = 0; id < n; id += step, ++count)
    Accumulate(kernels, row(static_cast<NodeId>(id)), sum);
  std::vector<float> mean(kernels.dim);
  for (std::uint32_t c = 0; c < kernels.dim; ++c) mean[c] = static_cast<float>(sum[c] / count);
  return mean;
}

absl::StatusOr<Codes> MakeCodes(const Kernels& kernels, const CodeInfo& info, std::uint64_t seed,
                                const CodeSource& source, const Job& job) {
  Codes codes{info, MeanOf(kernels, source.n, source.row), {}};
  HMANN_ASSIGN_OR_RETURN(const Encoder encoder,
                         Encoder::Make(kernels, info.bits, seed, codes.mean));
  if (encoder.code_bytes() != info.code_bytes)
    return absl::InternalError("a code has another size than the file format says");
  HMANN_ASSIGN_OR_RETURN(
      codes.bytes,
      Buffer::Allocate(static_cast<std::size_t>(source.n - source.n1) * info.code_bytes));
  std::vector<Encoder::Scratch> scratch(static_cast<std::size_t>(job.pool.threads()));
  job.pool.ParallelFor(
      source.cells.size(), 64, [&](std::size_t begin, std::size_t end, int thread) {
        if (job.Cancelled()) return;
        const auto first_of = [&](std::size_t cell) {
          return cell < source.cells.size() ? source.cells[cell].first : source.n;
        };
        Encoder::Scratch& own = scratch[static_cast<std::size_t>(thread)];
        for (std::size_t cell = begin; cell < end; ++cell) {
          encoder.SetCentroid(source.row(source.cells[cell].centroid), own);
          for (NodeId id = first_of(cell); id < first_of(cell + 1); ++id) {
            std::byte* place =
                codes.bytes.data() + static_cast<std::size_t>(id - source.n1) * info.code_bytes;
            encoder.Encode(source.row(id), place, own);
          }
        }
        job.progress.Advance(first_of(end) - first_of(begin));
      });
  HMANN_RETURN_IF_ERROR(job.CheckCancelled());
  return codes;
}

absl::StatusOr<LinkCodes> LinkCodes::Make(const Kernels& kernels, const CodeInfo& info,
                                          std::uint64_t seed, Source source, ThreadPool& pool) {
  std::vector<float> mean = MeanOf(kernels, source.n, source.row);
  HMANN_ASSIGN_OR_RETURN(Encoder encoder, Encoder::Make(kernels, info.bits, seed, mean));
  if (encoder.code_bytes() != info.code_bytes)
    return absl::InternalError("a code has another size than the file format says");
  const std::size_t nodes = std::min(source.n, kWindow);
  HMANN_ASSIGN_OR_RETURN(Buffer window,
                         Buffer::Allocate(nodes * source.max_links * info.code_bytes));
  return LinkCodes(std::move(encoder), std::move(mean), std::move(source), pool, std::move(window));
}

LinkCodes::LinkCodes(Encoder encoder, std::vector<float> mean, Source source, ThreadPool& pool,
                     Buffer window)
    : encoder_(std::move(encoder)),
      mean_(std::move(mean)),
      source_(std::move(source)),
      pool_(&pool),
      window_(std::move(window)),
      scratch_(static_cast<std::size_t>(pool.threads())) {}

const std::byte* LinkCodes::Of(NodeId id) {
  if (id < first_ || id >= last_) {
    first_ = id / kWindow * kWindow;
    last_ = std::min(first_ + kWindow, source_.n);
    pool_->ParallelFor(last_ - first_, 16, [this](std::size_t begin, std::size_t end, int thread) {
      for (std::size_t i = begin; i < end; ++i)
        Encode(first_ + static_cast<NodeId>(i), scratch_[static_cast<std::size_t>(thread)]);
    });
  }
  return window_.data() +
         static_cast<std::size_t>(id - first_) * source_.max_links * encoder_.code_bytes();
}

void LinkCodes::Encode(NodeId id, Scratch& scratch) {
  scratch.links.clear();
  source_.append(id, scratch.links);
  encoder_.SetCentroid(source_.row(id), scratch.encoder);
  std::byte* place = window_.data() + static_cast<std::size_t>(id - first_) * source_.max_links *
                                          encoder_.code_bytes();
  for (const NodeId link : scratch.links) {
    encoder_.Encode(source_.row(link), place, scratch.encoder);
    place += encoder_.code_bytes();
  }
}

}  // namespace hmann
