#include "index/construct/jobs/link_store.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "index/base/status_macros.h"
#include "index/construct/jobs/varint.h"

namespace hmann {
namespace {

constexpr NodeId kLast = NodeId{1} << 31;

absl::Status DamagedStore(const char* what) {
  return DataLoss(what, " of the work folder are damaged");
}

}  // namespace

void PutList(std::span<const NodeId> list, std::vector<NodeId>* out) {
  if (list.empty()) return out->push_back(kNoNode);
  out->insert(out->end(), list.begin(), list.end());
  out->back() |= kLast;
}

absl::StatusOr<StoredLinks> StoredLinks::Map(const Stages& stages, const std::string& stage,
                                             std::size_t job, NodeRange range) {
  StoredLinks links;
  links.first_ = range.first;
  HMANN_ASSIGN_OR_RETURN(links.file_, stages.MapOne(stage, job));
  const auto* ids = reinterpret_cast<const NodeId*>(std::as_const(links.file_).data());
  const std::uint64_t count = links.file_.size() / sizeof(NodeId);
  links.ends_.reserve(range.size());
  for (std::uint64_t i = 0; i < count; ++i) {
    if (ids[i] >= kLast) links.ends_.push_back(i + 1);
  }
  if (links.ends_.size() != range.size()) return DamagedStore("links");
  return links;
}

void StoredLinks::Append(NodeId node, std::vector<NodeId>* list) const {
  const auto* ids = reinterpret_cast<const NodeId*>(file_.data());
  const std::size_t place = node - first_;
  const std::uint64_t begin = place == 0 ? 0 : ends_[place - 1], end = ends_[place];
  if (end - begin == 1 && ids[begin] == kNoNode) return;
  list->insert(list->end(), ids + begin, ids + end);
  list->back() &= ~kLast;
}

void WayWriter::Add(NodeId node, std::span<const NodeId> links) {
  const NodeId own = node / range_;
  for (const NodeId link : links) {
    if (link / range_ == own) continue;
    Ways& ways = of_[link / range_];
    PutVarint(node - std::exchange(ways.node, node), &ways.bytes);
    PutVarint(link % range_, &ways.bytes);
  }
}

absl::Status WayWriter::Write(ArtifactWriter& writer) const {
  for (const Ways& ways : of_) {
    const std::uint64_t bytes = ways.bytes.size();
    HMANN_RETURN_IF_ERROR(writer.Append(&bytes, sizeof(bytes)));
  }
  for (const Ways& ways : of_)
    HMANN_RETURN_IF_ERROR(writer.Append(std::span<const std::byte>(ways.bytes)));
  return absl::OkStatus();
}

namespace {

/// Calls `take` with the place of each target in `range`, and its source. Returns false
/// for bytes that WayWriter did not write.
bool ForEachWay(const Buffer& ways, std::size_t range, std::size_t ranges, NodeRange targets,
                NodeId nodes, const std::function<void(NodeId, NodeId)>& take) {
  std::vector<std::uint64_t> bytes(ranges);
  std::uint64_t at = ranges * sizeof(std::uint64_t);
  if (ways.size() < at) return false;
  std::memcpy(bytes.data(), ways.data(), at);
  for (std::size_t r = 0; r <= range; at += bytes[r++]) {
    if (bytes[r] > ways.size() - at) return false;
  }
  VarintReader reader(ways.data() + at - bytes[range], ways.data() + at);
  std::uint64_t source = 0;
  for (std::uint32_t more = 0, place = 0; !reader.AtEnd();) {
    if (!reader.Next(&more) || !reader.Next(&place)) return false;
    source += more;
    if (source >= nodes || place >= targets.size()) return false;
    take(place, static_cast<NodeId>(source));
  }
  return true;
}

}  // namespace

absl::StatusOr<LinkSources> LinkSources::Make(const std::vector<NodeRange>& ranges,
                                              std::size_t range, std::span<const Buffer> ways,
                                              const StoredLinks& own, ThreadPool& pool) {
  const NodeRange targets = ranges[range];
  LinkSources made;
  made.first_ = targets.first;
  // The ways of each other range, then the range's own links, some nodes at a time.
  constexpr NodeId kAtOnce = 4096;
  const std::size_t tasks = ranges.size() + (targets.size() + kAtOnce - 1) / kAtOnce;
  std::atomic<bool> whole = true;
  const auto for_each = [&](const std::function<void(NodeId, NodeId)>& take) {
    pool.ParallelFor(tasks, 1, [&](std::size_t task, std::size_t, int) {
      if (task < ranges.size()) {
        if (task != range &&
            !ForEachWay(ways[task], range, ranges.size(), targets, ranges.back().last, take))
          whole = false;
        return;
      }
      std::vector<NodeId> links;
      const auto first = targets.first + static_cast<NodeId>(task - ranges.size()) * kAtOnce;
      for (NodeId node = first; node < std::min(targets.last, first + kAtOnce); ++node) {
        links.clear();
        own.Append(node, &links);
        for (const NodeId link : links) {
          if (link - targets.first < targets.size()) take(link - targets.first, node);
        }
      }
    });
  };
  std::vector<std::uint64_t> at(std::size_t{targets.size()} + 1);
  for_each([&](NodeId place, NodeId) { std::atomic_ref(at[place + 1]).fetch_add(1); });
  if (!whole) return DamagedStore("ways");
  std::partial_sum(at.begin(), at.end(), at.begin());
  made.nodes_.resize(at.back());
  made.ends_.assign(at.begin() + 1, at.end());
  for_each([&](NodeId place, NodeId source) {
    made.nodes_[std::atomic_ref(at[place]).fetch_add(1)] = source;
  });
  pool.ParallelFor(targets.size(), kAtOnce, [&](std::size_t begin, std::size_t end, int) {
    auto list =
        made.nodes_.begin() + static_cast<std::ptrdiff_t>(begin == 0 ? 0 : made.ends_[begin - 1]);
    for (std::size_t place = begin; place < end; ++place) {
      const auto last = made.nodes_.begin() + static_cast<std::ptrdiff_t>(made.ends_[place]);
      std::sort(list, last);
      list = last;
    }
  });
  return made;
}

}  // namespace hmann
