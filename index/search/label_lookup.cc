#include "index/search/label_lookup.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/format/label_order.h"

namespace hmann {
namespace {

/// The entry of the order that `label`, if there is one, has: a row number, or the first
/// of its sorted labels. n: there is none.
std::uint64_t EntryOf(const PlacedIndex& index, std::uint64_t label) {
  const std::uint64_t n = index.layers.n();
  if (index.label_bytes == 4) return std::min(label, n);
  const auto& marks = index.label_marks;
  const auto block = static_cast<std::uint64_t>(
      std::lower_bound(marks.begin(), marks.end(), label) - marks.begin());
  // The first label that is not below begins block number `block`, or lies in the one
  // before.
  const auto sorted = index.sorted_labels.begin();
  const auto found = std::lower_bound(
      sorted + static_cast<std::ptrdiff_t>(block == 0 ? 0 : (block - 1) * kLabelsPerMark),
      sorted + static_cast<std::ptrdiff_t>(std::min(block * kLabelsPerMark, n)), label);
  const auto entry = static_cast<std::uint64_t>(found - sorted);
  return entry < n && *found == label ? entry : n;
}

absl::Status BadEntry(std::uint64_t entry) {
  return DataLoss("section label_order, entry ", entry,
                  ": does not lead to a node of its label: see hmann verify");
}

}  // namespace

absl::StatusOr<NodeId> FindId(const PlacedIndex& index, std::uint64_t label) {
  const std::uint64_t entry = EntryOf(index, label), n = index.layers.n();
  if (entry == n) return kNoNode;
  const NodeId id = index.label_order[entry];
  if (id >= n) return BadEntry(entry);
  return id;
}

absl::Status GetVectors(const PlacedIndex& index, Executor& executor,
                        std::span<const std::uint64_t> labels, std::byte* vectors,
                        Counters* counters, const SearchLimits& limits) {
  std::vector<NodeId> slow;
  const std::size_t bytes = index.kernels.dim * SizeOf(index.kernels.dtype);
  std::size_t wrong = labels.size();  // first label without a node of that label
  const auto take = [&](std::size_t i, std::uint64_t label, const std::byte* row) {
    if (label == labels[i]) {
      std::memcpy(vectors + i * bytes, row, bytes);
    } else {
      wrong = std::min(wrong, i);
    }
  };
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const NodeId id = FindId(index, labels[i]).value_or(kNoNode);
    if (id == kNoNode) {
      wrong = std::min(wrong, i);
    } else if (id < index.n1()) {
      take(i, index.FastLabel(id), index.FastRow(id));
    } else {
      slow.push_back(id);
      places.push_back(i);
    }
  }
  const auto take_slow = [&](std::size_t i, const std::byte* record) {
    take(places[i], index.SlowLabel(slow[i], record), record);
  };
  HMANN_RETURN_IF_ERROR(executor.Read({slow, RecordPart::kRecord, take_slow, counters, limits}));
  if (wrong == labels.size()) return absl::OkStatus();
  const std::uint64_t entry = EntryOf(index, labels[wrong]);
  if (entry < index.layers.n()) return BadEntry(entry);
  return NotFound("label ", labels[wrong], ": no vector of the index has it");
}

}  // namespace hmann
