#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/graph/types.h"

namespace hmann {

/// The label order: ids by label. If labels are row numbers, entry r is the id of row r,
/// and no search is needed. User labels are also stored in this order, followed by
/// *marks*, the first label of each block. A search among marks, which are in memory, and
/// then in one block finds a label with one read, and its id with another. See FORMAT.md.
constexpr NodeId kLabelsPerMark = 512;

constexpr std::uint64_t LabelMarks(std::uint64_t n) {
  return (n + kLabelsPerMark - 1) / kLabelsPerMark;
}

/// Ids 0 .. n - 1 by label; of equal labels, the lowest id first. Calls `label` three
/// times for each id, in any order. Takes 4 bytes an id, and at most 16 MiB. Calls
/// `check` now and then; its error ends the work.
absl::StatusOr<std::vector<NodeId>> OrderByLabel(NodeId n,
                                                 const std::function<std::uint64_t(NodeId)>& label,
                                                 const std::function<absl::Status()>& check);

/// The same where labels are row numbers: each of 0 .. n - 1 once. Errors:
/// INVALID_ARGUMENT naming the node whose label is not one.
absl::StatusOr<std::vector<NodeId>> OrderByRow(NodeId n,
                                               const std::function<std::uint64_t(NodeId)>& label,
                                               const std::function<absl::Status()>& check);

/// Where an order or the sorted labels disagree with the labels.
struct LabelOrderFault {
  bool in_sorted = false;
  std::uint64_t place = 0;     ///< in the order, or in the sorted labels with their marks
  std::uint64_t expected = 0;  ///< label, if in_sorted
};

/// Compares a label order, and the sorted labels with their marks, with the user labels
/// of ids 0 .. n - 1. False: `*fault` is the first fault.
bool CheckLabelOrder(std::span<const std::uint64_t> labels, std::span<const NodeId> order,
                     std::span<const std::uint64_t> sorted, LabelOrderFault* fault);

}  // namespace hmann
