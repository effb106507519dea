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

/// The error for a damaged label order, which is read in place.
absl::Status Damaged(std::uint64_t entry) {
  return DataLoss("section label_order, entry ", entry,
                  ": does not lead to a node of its label: see hmann "
                  "verify");
}

/// Maps labels to ids; kNoNode: no such label.
class LabelLookup {
 public:
  LabelLookup(const PlacedIndex& index, Executor& executor, Counters* counters,
              const SearchLimits& limits)
      : index_(index), executor_(executor), counters_(counters), limits_(limits) {}

  absl::Status Find(std::span<const std::uint64_t> labels, std::vector<NodeId>* ids) {
    ids->assign(labels.size(), kNoNode);
    if (index_.label_bytes == 8) return FindOfUser(labels, *ids);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] >= index_.layers.n()) continue;
      HMANN_ASSIGN_OR_RETURN((*ids)[i], Entry(labels[i]));
    }
    return absl::OkStatus();
  }

 private:
  /// The first entry whose label is not below the wanted label is in [low, high].
  struct Range {
    std::size_t place;  ///< of the wanted label
    std::uint64_t low, high;
    std::uint64_t Middle() const { return low + (high - low) / 2; }
    void Narrow(bool is_below) { (is_below ? low : high) = Middle() + (is_below ? 1 : 0); }
  };

  absl::StatusOr<NodeId> Entry(std::uint64_t entry) const {
    const NodeId id = index_.label_order[entry];
    if (id >= index_.layers.n()) return Damaged(entry);
    return id;
  }

  /// First between two marks, then in steps that each read one record per label.
  absl::Status FindOfUser(std::span<const std::uint64_t> labels, std::vector<NodeId>& ids) {
    const std::uint64_t n = index_.layers.n();
    const std::span<const std::uint64_t> marks = index_.label_marks;
    std::vector<Range> ranges;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto mark = static_cast<std::uint64_t>(
          std::lower_bound(marks.begin(), marks.end(), labels[i]) - marks.begin());
      ranges.push_back(
          {i, mark == 0 ? 0 : (mark - 1) * kLabelsPerMark + 1, std::min(mark * kLabelsPerMark, n)});
    }
    std::vector<NodeId> wanted;
    const auto narrow = [&](std::size_t i, const std::byte* record) {
      ranges[i].Narrow(index_.SlowLabel(record) < labels[ranges[i].place]);
    };
    while (!ranges.empty()) {
      wanted.clear();
      std::size_t open = 0;
      for (Range range : ranges) {
        HMANN_ASSIGN_OR_RETURN(const NodeId id, NarrowInFastMemory(labels, &range));
        if (range.low < range.high) {
          wanted.push_back(id);
          ranges[open++] = range;
        } else if (range.low < n) {
          ids[range.place] = id;
        }
      }
      ranges.resize(open);
      HMANN_RETURN_IF_ERROR(
          executor_.Read({wanted, RecordPart::kLabel, narrow, counters_, limits_}));
    }
    return absl::OkStatus();
  }

  /// Narrows the range with labels of promoted nodes. Returns the node whose label is
  /// needed next, or the node found; kNoNode: all labels are below the wanted one.
  absl::StatusOr<NodeId> NarrowInFastMemory(std::span<const std::uint64_t> labels,
                                            Range* range) const {
    while (true) {
      const std::uint64_t middle = range->Middle();
      if (middle >= index_.layers.n()) return kNoNode;
      HMANN_ASSIGN_OR_RETURN(const NodeId id, Entry(middle));
      if (range->low == range->high || id >= index_.n1()) return id;
      range->Narrow(index_.FastLabel(id) < labels[range->place]);
    }
  }

  const PlacedIndex& index_;
  Executor& executor_;
  Counters* counters_;
  const SearchLimits& limits_;
};

}  // namespace

absl::Status GetVectors(const PlacedIndex& index, Executor& executor,
                        std::span<const std::uint64_t> labels, std::byte* vectors,
                        Counters* counters, const SearchLimits& limits) {
  if (index.label_order.empty()) {
    return FailedPrecondition(
        "the index has no order of labels (its file is of format 2.0), so no vector is found by "
        "its label: `hmann promote` writes the index anew, with one");
  }
  std::vector<NodeId> ids, slow;
  HMANN_RETURN_IF_ERROR(LabelLookup(index, executor, counters, limits).Find(labels, &ids));
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
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == kNoNode) {
      wrong = std::min(wrong, i);
    } else if (ids[i] < index.n1()) {
      take(i, index.FastLabel(ids[i]), index.FastRow(ids[i]));
    } else {
      slow.push_back(ids[i]);
      places.push_back(i);
    }
  }
  const auto take_slow = [&](std::size_t i, const std::byte* record) {
    take(places[i], index.SlowLabel(record), record + index.records.row_offset);
  };
  HMANN_RETURN_IF_ERROR(executor.Read({slow, RecordPart::kRecord, take_slow, counters, limits}));
  if (wrong == labels.size()) return absl::OkStatus();
  if (index.label_bytes == 4 && ids[wrong] != kNoNode) return Damaged(labels[wrong]);
  return NotFound("label ", labels[wrong], ": no vector of the index has it");
}

}  // namespace hmann
