#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/graph/types.h"

namespace hmann {

/// The order of labels: ids by label. Where labels are row numbers, entry r is the id of
/// row r: no search is needed. Labels of the user are searched for; what is compared lies
/// in records, so that the label of every kLabelsPerMark-th entry, a *mark*, lies beside
/// the order: six records are read then, whatever n is. See FORMAT.md.
constexpr NodeId kLabelsPerMark = 64;

constexpr std::uint64_t LabelMarks(std::uint64_t n) {
  return (n + kLabelsPerMark - 1) / kLabelsPerMark;
}

/// Ids 0 .. n - 1 by label, of equal labels the lowest id first. `label` is asked three
/// times for each, in any order. Takes 4 bytes an id, and 16 MiB at the most. `check` is
/// called now and then, and its error ends the work.
absl::StatusOr<std::vector<NodeId>> OrderByLabel(NodeId n,
                                                 const std::function<std::uint64_t(NodeId)>& label,
                                                 const std::function<absl::Status()>& check);

/// The same where labels are row numbers: each of 0 .. n - 1 once. Errors:
/// INVALID_ARGUMENT naming the node that has another one.
absl::StatusOr<std::vector<NodeId>> OrderByRow(NodeId n,
                                               const std::function<std::uint64_t(NodeId)>& label,
                                               const std::function<absl::Status()>& check);

/// Where an order and its marks are not what the labels ask for.
struct LabelOrderFault {
  bool in_marks = false;
  std::uint64_t place = 0;  ///< entry of the order, or mark
};

/// Compares an order of labels, and its marks, with the user's labels of ids 0 .. n - 1.
/// False: there is a fault, the first.
bool CheckLabelOrder(std::span<const std::uint64_t> labels, std::span<const NodeId> order,
                     std::span<const std::uint64_t> marks, LabelOrderFault* fault);

}  // namespace hmann
