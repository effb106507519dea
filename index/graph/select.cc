#include "index/graph/select.h"

namespace hmann {

void SelectNeighbours(std::span<const Candidate> candidates, std::uint32_t most, const Kernels& kernels, const std::byte* rows,
                      std::size_t row_stride, std::vector<NodeId>* out) {
  out->clear();
  for (const Candidate& candidate : candidates) {
    if (out->size() == most) return;
    const std::byte* row = rows + candidate.id * row_stride;
    bool keep = true;
    for (NodeId kept : *out) {
      if (kernels.one(row, rows + kept * row_stride, kernels.dim) < candidate.key) {
        keep = false;
        break;
      }
    }
    if (keep) out->push_back(candidate.id);
  }
}

}  // namespace hmann
