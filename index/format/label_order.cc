#include "index/format/label_order.h"

#include <algorithm>
#include <compare>

#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Ids that are sorted at once.
constexpr NodeId kBucket = 1 << 18;
/// Ids sampled per bucket to choose its borders.
constexpr NodeId kSamples = 64;
constexpr NodeId kBetweenChecks = 1 << 16;

struct Key {
  std::uint64_t label;
  NodeId id;
  friend auto operator<=>(const Key&, const Key&) = default;
};

using LabelOf = std::function<std::uint64_t(NodeId)>;
using Check = std::function<absl::Status()>;

/// Calls body(id) for all ids.
template <typename Body>
absl::Status ForEach(NodeId n, const Check& check, const Body& body) {
  for (NodeId id = 0; id < n; ++id) {
    if (id % kBetweenChecks == 0) HMANN_RETURN_IF_ERROR(check());
    HMANN_RETURN_IF_ERROR(body(id));
  }
  return absl::OkStatus();
}

/// Chooses keys that divide all ids into buckets of about the same size. Keys contain the
/// id, so a label with many nodes does no harm.
std::vector<Key> ChooseBorders(NodeId n, const LabelOf& label) {
  const NodeId buckets = (n + kBucket - 1) / kBucket;
  std::vector<Key> samples, borders;
  for (std::uint64_t i = 0; i < std::uint64_t{buckets} * kSamples; ++i) {
    const auto id = static_cast<NodeId>(i * n / (std::uint64_t{buckets} * kSamples));
    samples.push_back({label(id), id});
  }
  std::sort(samples.begin(), samples.end());
  for (NodeId bucket = 1; bucket < buckets; ++bucket)
    borders.push_back(samples[std::size_t{bucket} * kSamples]);
  return borders;
}

}  // namespace

absl::StatusOr<std::vector<NodeId>> OrderByLabel(NodeId n, const LabelOf& label,
                                                 const Check& check) {
  const std::vector<Key> borders = ChooseBorders(n, label);
  const auto bucket_of = [&](NodeId id) {
    const auto above = std::upper_bound(borders.begin(), borders.end(), Key{label(id), id});
    return static_cast<std::size_t>(above - borders.begin());
  };
  std::vector<NodeId> ends(borders.size() + 2), order(n);
  HMANN_RETURN_IF_ERROR(ForEach(n, check, [&](NodeId id) {
    ++ends[bucket_of(id) + 1];
    return absl::OkStatus();
  }));
  for (std::size_t bucket = 1; bucket < ends.size(); ++bucket) ends[bucket] += ends[bucket - 1];
  HMANN_RETURN_IF_ERROR(ForEach(n, check, [&](NodeId id) {
    order[ends[bucket_of(id)]++] = id;
    return absl::OkStatus();
  }));
  std::vector<Key> keys;
  NodeId begin = 0;
  for (std::size_t bucket = 0; bucket <= borders.size(); ++bucket) {
    HMANN_RETURN_IF_ERROR(check());
    const NodeId end = ends[bucket];
    keys.clear();
    for (NodeId i = begin; i < end; ++i) keys.push_back({label(order[i]), order[i]});
    std::sort(keys.begin(), keys.end());
    for (const Key& key : keys) order[begin++] = key.id;
  }
  return order;
}

absl::StatusOr<std::vector<NodeId>> OrderByRow(NodeId n, const LabelOf& label, const Check& check) {
  std::vector<NodeId> order(n, kNoNode);
  HMANN_RETURN_IF_ERROR(ForEach(n, check, [&](NodeId id) -> absl::Status {
    const std::uint64_t row = label(id);
    if (row >= n || order[row] != kNoNode) {
      return InvalidArgument("node ", id, ": expected a row number of its own below ", n,
                             " as its label; found ", row);
    }
    order[row] = id;
    return absl::OkStatus();
  }));
  return order;
}

bool CheckLabelOrder(std::span<const std::uint64_t> labels, std::span<const NodeId> order,
                     std::span<const std::uint64_t> sorted, LabelOrderFault* fault) {
  // Ascending keys belong to different ids, so n of them are all.
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool known = order[i] < labels.size();
    if (known &&
        (i == 0 || Key{labels[order[i - 1]], order[i - 1]} < Key{labels[order[i]], order[i]}))
      continue;
    *fault = {.place = i};
    return false;
  }
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const std::size_t entry = i < order.size() ? i : (i - order.size()) * kLabelsPerMark;
    if (sorted[i] == labels[order[entry]]) continue;
    *fault = {true, i, labels[order[entry]]};
    return false;
  }
  return true;
}

}  // namespace hmann
