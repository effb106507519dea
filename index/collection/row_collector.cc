#include "index/collection/row_collector.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "index/base/status_macros.h"

namespace hmann {

absl::Status RowCollector::AddGraph(const Moment::Part& graph,
                                    const std::vector<AttributeField>& fields) {
  return graph.segment->index()->ForRows([&](auto ids, auto labels, auto rows) -> absl::Status {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (!graph.Has(ids[i])) continue;
      HMANN_ASSIGN_OR_RETURN(const AttributeCells cells, graph.segment->CellsOf(ids[i], fields));
      Add(labels[i], rows.data() + i * shape_.vector_bytes, cells);
    }
    return absl::OkStatus();
  });
}

void RowCollector::AddTail(const Tail& tail, std::uint64_t end) {
  tail.ForLive([&](std::uint64_t row) {
    if (row < end) Add(tail.Label(row), tail.Row(row, shape_.stride), tail.Cells(row));
  });
}

void RowCollector::Add(std::uint64_t label, const std::byte* row, const AttributeCells& cells) {
  labels_.push_back(label);
  rows_.insert(rows_.end(), row, row + shape_.vector_bytes);
  if (!cells.empty()) cells_[label] = cells;
}

void RowCollector::Sort() {
  std::vector<std::size_t> order(labels_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return labels_[a] < labels_[b]; });
  std::vector<std::uint64_t> labels;
  std::vector<std::byte> rows(rows_.size());
  labels.reserve(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    labels.push_back(labels_[order[i]]);
    std::memcpy(rows.data() + i * shape_.vector_bytes, Row(order[i]), shape_.vector_bytes);
  }
  labels_.swap(labels);
  rows_.swap(rows);
}

VectorsInMemory RowCollector::View() const {
  return {.data = rows_.data(),
          .dtype = shape_.kernels.dtype,
          .dim = shape_.kernels.dim,
          .n = labels_.size(),
          .stride = shape_.vector_bytes};
}

const AttributeCells& RowCollector::CellsOf(std::uint64_t label) const {
  static const AttributeCells none;
  const auto found = cells_.find(label);
  return found == cells_.end() ? none : found->second;
}

}  // namespace hmann
