#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/distance.h"
#include "hmann/info.h"
#include "index/base/buffer.h"
#include "index/base/thread_pool.h"
#include "index/codes/encoder.h"
#include "index/graph/cells.h"

namespace hmann {

/// Step of a sample of the n stored vectors: MeanOf averages every MeanStep-th of them
/// (under cosine: normalized).
NodeId MeanStep(NodeId n);
std::vector<float> MeanOf(const Kernels& kernels, NodeId n,
                          const std::function<const std::byte*(NodeId id)>& row);

/// The codes of unpromoted nodes, each centered on its centroid. They are encoded in
/// parallel, one window of nodes at a time, as they are written. The bytes depend on
/// neither threads nor windows.
class NodeCodes {
 public:
  struct Source {
    NodeId n = 0, n1 = 0;
    std::span<const CellEntry> cells;
    /// Returns the stored vector of a promoted node, or of a node in the window. Called
    /// from several threads at once.
    std::function<const std::byte*(NodeId id)> row;
    /// Called before the window from `first` on is encoded.
    std::function<void(NodeId first)> load;
    NodeId window = 1 << 16;
  };

  /// `mean`: MeanOf. Errors: INVALID_ARGUMENT (bits), RESOURCE_EXHAUSTED. `pool` must
  /// outlive it.
  static absl::StatusOr<NodeCodes> Make(const Kernels& kernels, const CodeInfo& info,
                                        std::uint64_t seed, std::vector<float> mean, Source source,
                                        ThreadPool& pool);

  /// The code of `id`; valid until the next call. Fast where ids ascend.
  const std::byte* Of(NodeId id);

 private:
  NodeCodes(Encoder encoder, Source source, ThreadPool& pool, Buffer window)
      : encoder_(std::move(encoder)),
        source_(std::move(source)),
        pool_(&pool),
        window_(std::move(window)),
        scratch_(static_cast<std::size_t>(pool.threads())) {}
  void EncodeCell(std::size_t cell, Encoder::Scratch& scratch);

  Encoder encoder_;
  Source source_;
  ThreadPool* pool_;
  Buffer window_;
  NodeId first_ = 0, last_ = 0;
  std::vector<Encoder::Scratch> scratch_;  ///< one per thread
};

}  // namespace hmann
