#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/buffer.h"
#include "index/base/progress.h"
#include "index/base/thread_pool.h"
#include "index/distance/distance.h"
#include "index/format/info.h"
#include "index/graph/cells.h"

namespace hmann {

/// The sketches of all unpromoted nodes, and what a reader needs to use them.
struct Sketches {
  CodeInfo codes;
  std::vector<float> mean;
  Buffer bytes;  ///< codes.sketch_bytes each, node n1 first
};

/// Encodes the nodes n1 .. n - 1 about their hubs, cell by cell in parallel. `row(id)`: stored vector of any node; the mean is that of a
/// sample of at most 65536 of them, evenly spread (under cosine: normalised). The bytes do not depend on threads. Errors: INVALID_ARGUMENT
/// (bits), RESOURCE_EXHAUSTED, CANCELLED.
absl::StatusOr<Sketches> MakeSketches(const Kernels& kernels, const CodeInfo& codes, std::uint64_t seed, NodeId n, NodeId n1,
                                      std::span<const CellEntry> cells, const std::function<const std::byte*(NodeId id)>& row,
                                      ThreadPool& pool, const std::atomic<bool>* cancelled, Progress& progress);

}  // namespace hmann
