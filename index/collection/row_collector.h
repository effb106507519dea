#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "hmann/build_options.h"
#include "index/collection/moment.h"

namespace hmann {

/// Live rows of the delta, to be built into an index: vectors as a user gives them, in
/// the order of their labels.
class RowCollector {
 public:
  explicit RowCollector(const CollectionShape& shape) : shape_(shape) {}

  /// Copies the live rows of a graph. Errors: those of Index::ForRows.
  absl::Status AddGraph(const Moment::Part& graph, const std::vector<AttributeField>& fields);
  /// Copies the live rows below `end`.
  void AddTail(const Tail& tail, std::uint64_t end);
  /// Call when all are added.
  void Sort();

  std::span<const std::uint64_t> labels() const { return labels_; }
  const std::byte* Row(std::size_t i) const { return rows_.data() + i * shape_.vector_bytes; }
  VectorsInMemory View() const;
  bool has_cells() const { return !cells_.empty(); }
  const AttributeCells& CellsOf(std::uint64_t label) const;

 private:
  void Add(std::uint64_t label, const std::byte* row, const AttributeCells& cells);

  const CollectionShape& shape_;
  std::vector<std::uint64_t> labels_;
  std::vector<std::byte> rows_;
  absl::flat_hash_map<std::uint64_t, AttributeCells> cells_;  ///< of those that have any
};

}  // namespace hmann
