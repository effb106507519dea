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
/// and no search is needed. User labels need a search, whose comparisons read labels from
/// records. So the label of every kLabelsPerMark-th entry, a *mark*, is stored next to
/// the order. Then a search reads six records, for any n. See FORMAT.md.
constexpr NodeId kLabelsPerMark = 64;

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

/// Where an order or its marks disagree with the labels.
struct LabelOrderFault {
  bool in_marks = false;
  std::uint64_t place = 0;  ///< entry of the order, or number of the mark
};

/// Compares a label order and its marks with the user labels of ids 0 .. n - 1. False:
/// `*fault` is the first fault.
bool CheckLabelOrder(std::span<const std::uint64_t> labels, std::span<const NodeId> order,
                     std::span<const std::uint64_t> marks, LabelOrderFault* fault);

}  // namespace hmann
