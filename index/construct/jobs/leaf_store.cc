#include "index/construct/jobs/leaf_store.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "index/base/status_macros.h"
#include "index/construct/jobs/varint.h"

namespace hmann {
namespace {

/// Precedes the members of a leaf.
struct LeafHead {
  RangeMask ranges = 0;
  std::uint32_t bytes = 0;
};

/// Reads a value from the front of some bytes.
template <typename T>
bool TakeFront(std::span<const std::byte>& bytes, T* value) {
  if (bytes.size() < sizeof(T)) return false;
  std::memcpy(value, bytes.data(), sizeof(T));
  bytes = bytes.subspan(sizeof(T));
  return true;
}

/// Cuts the leaves of a group between two of them into pieces of up to `most` bytes.
void CutLeaves(std::span<const std::byte> leaves, std::uint64_t most,
               std::vector<std::span<const std::byte>>* pieces) {
  std::span<const std::byte> rest = leaves;
  while (leaves.size() > most) {
    std::span<const std::byte> next = rest;
    LeafHead head;
    const bool whole = TakeFront(next, &head) && head.bytes <= next.size();
    if (!whole) break;  // ForEach reports it
    next = next.subspan(head.bytes);
    const std::size_t before = leaves.size() - rest.size();
    if (before > 0 && before + (rest.size() - next.size()) > most) {
      pieces->push_back(leaves.first(before));
      leaves = leaves.subspan(before);
    }
    rest = next;
    if (rest.empty()) break;
  }
  pieces->push_back(leaves);
}

/// Decodes the members of a leaf; returns false for a malformed one.
bool Decode(std::span<const std::byte> bytes, NodeId n, std::vector<NodeId>* members) {
  members->clear();
  VarintReader reader(bytes.data(), bytes.data() + bytes.size());
  std::uint64_t node = 0;
  for (std::uint32_t more = 0; !reader.AtEnd();) {
    if (!reader.Next(&more)) return false;
    node += more;
    if (node >= n) return false;
    members->push_back(static_cast<NodeId>(node));
  }
  return true;
}

/// Returns the ranges of `size` nodes that some nodes lie in.
RangeMask RangesWith(NodeRange nodes, NodeId size) {
  RangeMask ranges = 0;
  for (NodeId range = nodes.first / size; range <= (nodes.last - 1) / size; ++range)
    ranges |= RangeMask{1} << range;
  return ranges;
}

}  // namespace

void LeafEncoder::Add(std::span<const NodeId> members, std::vector<std::byte>* out) {
  LeafHead head;
  encoded_.clear();
  NodeId before = 0;
  for (const NodeId member : members) {
    head.ranges |= RangeMask{1} << member / range_;
    PutVarint(member - before, &encoded_);
    before = member;
  }
  head.bytes = static_cast<std::uint32_t>(encoded_.size());
  const auto* front = reinterpret_cast<const std::byte*>(&head);
  out->insert(out->end(), front, front + sizeof(head));
  out->insert(out->end(), encoded_.begin(), encoded_.end());
}

absl::StatusOr<StoredLeaves> StoredLeaves::Map(const Stages& stages, std::size_t jobs, NodeId n,
                                               std::uint64_t most) {
  StoredLeaves leaves;
  leaves.n_ = n;
  leaves.range_ = stages.Ranges(n)[0].size();
  for (std::size_t j = 0; j < jobs; ++j) {
    HMANN_ASSIGN_OR_RETURN(leaves.files_.emplace_back(),
                           stages.work().Map({stages.Name("leaves", j)}));
    std::span<const std::byte> rest(std::as_const(leaves.files_.back()).data(),
                                    leaves.files_.back().size());
    for (GroupBytes bytes = 0; !rest.empty(); rest = rest.subspan(bytes)) {
      if (!TakeFront(rest, &bytes) || bytes > rest.size())
        return DataLoss(stages.Name("leaves", j), ": no leaves");
      CutLeaves(rest.first(bytes), most, &leaves.pieces_);
    }
  }
  return leaves;
}

absl::Status StoredLeaves::ForEach(
    NodeRange pieces, NodeRange nodes, ThreadPool& pool,
    const std::function<void(std::span<const NodeId> members, int thread)>& take) const {
  const RangeMask ranges = RangesWith(nodes, range_);
  std::atomic<bool> damaged{pieces.last > pieces_.size()};
  pool.ParallelFor(pieces.size(), 1, [&](std::size_t begin, std::size_t end, int thread) {
    std::vector<NodeId> members;
    for (std::size_t p = begin; p < end && !damaged; ++p) {
      std::span<const std::byte> rest = pieces_[pieces.first + p];
      for (LeafHead head; !rest.empty(); rest = rest.subspan(head.bytes)) {
        if (!TakeFront(rest, &head) || head.bytes > rest.size() ||
            ((head.ranges & ranges) != 0 && !Decode(rest.first(head.bytes), n_, &members))) {
          damaged = true;
          return;
        }
        if ((head.ranges & ranges) == 0) continue;
        const auto own = std::lower_bound(members.begin(), members.end(), nodes.first);
        if (own != members.end() && *own < nodes.last) take(members, thread);
      }
    }
  });
  if (damaged) return DataLoss("leaves of the work folder are damaged");
  return absl::OkStatus();
}

}  // namespace hmann
