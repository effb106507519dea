#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "index/attributes/json_rows.h"
#include "index/base/clock.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/collection/moment.h"

namespace hmann {

/// Searchers of the segments that were searched last, and memory for a query.
class CollectionSearcher::Scratch {
 public:
  Searcher& Of(const Segment& segment) {
    for (Entry& entry : searchers_) {
      if (entry.index == segment.index()) return *entry.searcher;
    }
    // Segments come and go; a moment has a few of them. 8 is a guess.
    constexpr std::size_t kMost = 8;
    if (searchers_.size() == kMost) searchers_.erase(searchers_.begin());
    searchers_.push_back({segment.index(), std::make_unique<Searcher>(segment.index())});
    return *searchers_.back().searcher;
  }
  /// Lets go of indexes that no moment needs any more.
  void Keep(const Moment& moment) {
    std::erase_if(searchers_, [&](const Entry& entry) {
      const auto is_it = [&](const Moment::Part& part) {
        return part.segment != nullptr && part.segment->index() == entry.index;
      };
      return !is_it(moment.sealed) &&
             std::none_of(moment.graphs.begin(), moment.graphs.end(), is_it);
    });
  }

  std::vector<std::byte> query;
  Answer part;

 private:
  struct Entry {
    std::shared_ptr<const Index> index;
    std::unique_ptr<Searcher> searcher;
  };
  std::vector<Entry> searchers_;
};

CollectionSearcher::CollectionSearcher() : scratch_(std::make_unique<Scratch>()) {}
CollectionSearcher::~CollectionSearcher() = default;
CollectionSearcher::CollectionSearcher(CollectionSearcher&&) noexcept = default;

namespace {

bool IsNearer(const Neighbor& a, const Neighbor& b) {
  return a.distance != b.distance ? a.distance < b.distance : a.label < b.label;
}

/// The k nearest of all parts so far.
class Nearest {
 public:
  Nearest(std::uint32_t k, std::optional<float> max_distance, std::vector<Neighbor>& found)
      : k_(k), max_distance_(max_distance), found_(found) {
    found_.clear();
  }
  void Add(std::span<const Neighbor> more) {
    found_.insert(found_.end(), more.begin(), more.end());
    std::sort(found_.begin(), found_.end(), IsNearer);
    if (found_.size() > k_) found_.resize(k_);
  }
  /// Nothing farther away can be an answer; absent: everything can.
  std::optional<float> bound() const {
    return found_.size() == k_ ? std::optional(found_.back().distance) : max_distance_;
  }

 private:
  const std::uint32_t k_;
  const std::optional<float> max_distance_;
  std::vector<Neighbor>& found_;
};

/// Computes the distances of the tail's rows and adds those within the bound.
void ScanTail(const PreparedSearch& prepared, const std::byte* query, Nearest& nearest,
              Counters* counters) {
  const Moment& moment = *prepared.moment;
  const Kernels& kernels = moment.shape->kernels;
  constexpr std::size_t kAtOnce = 64;
  std::array<const std::byte*, kAtOnce> rows;
  std::array<std::uint64_t, kAtOnce> numbers;
  std::array<DistanceKey, kAtOnce> keys;
  std::vector<Neighbor> found;
  std::size_t size = 0;
  std::optional<float> bound = nearest.bound();
  const auto score = [&] {
    kernels.many(query, rows.data(), size, kernels.dim, keys.data());
    for (std::size_t i = 0; i < size; ++i) {
      const float distance = kernels.ToDistance(keys[i]);
      if (!bound.has_value() || distance <= *bound)
        found.push_back({moment.tail.Label(numbers[i]), distance});
    }
    size = 0;
    if (found.size() >= std::max<std::size_t>(prepared.k, kAtOnce)) {
      nearest.Add(found);
      found.clear();
      bound = nearest.bound();
    }
  };
  const auto add = [&](std::uint64_t row) {
    numbers[size] = row;
    rows[size] = moment.tail.Row(row, moment.shape->stride);
    if (++size == kAtOnce) score();
  };
  if (prepared.tail.has_value()) {
    for (const std::uint64_t row : *prepared.tail) add(row);
  } else {
    moment.tail.ForLive(add);
  }
  if (size > 0) score();
  nearest.Add(found);
  if (counters != nullptr) {
    const std::uint64_t all =
        prepared.tail.has_value() ? prepared.tail->size() : moment.tail.live();
    counters->distances_fast += all;
  }
}

/// The segment with a live row of this label, and its internal id; nullptr: there is
/// none.
absl::StatusOr<const Segment*> FindSegment(const Moment& moment, std::uint64_t label,
                                           std::uint32_t* id) {
  const auto has = [&](const Moment::Part& part) -> absl::StatusOr<bool> {
    if (part.segment == nullptr) return false;
    HMANN_RETURN_IF_ERROR(part.segment->index()->Find({&label, 1}, {id, 1}));
    return *id != kNoId && part.Has(*id);
  };
  for (const Moment::Part& graph : moment.graphs) {
    HMANN_ASSIGN_OR_RETURN(const bool found, has(graph));
    if (found) return graph.segment.get();
  }
  HMANN_ASSIGN_OR_RETURN(const bool found, has(moment.sealed));
  return found ? moment.sealed.segment.get() : nullptr;
}

}  // namespace

absl::Status CollectionSearcher::Search(const void* query, const PreparedSearch& prepared,
                                        Answer* answer, Counters* counters, SearchLimits limits) {
  const Moment& moment = *prepared.moment;
  const auto start = std::chrono::steady_clock::now();
  scratch_->Keep(moment);
  if (limits.budget.count() == 0 && prepared.budget.has_value()) limits.budget = *prepared.budget;
  const std::chrono::nanoseconds budget = limits.budget;
  answer->cut_short = false;
  Nearest nearest(prepared.k, prepared.max_distance, answer->nearest);
  const auto search = [&](const PreparedSearch::Part& part, const ResolvedParams& params) {
    HMANN_RETURN_IF_ERROR(
        scratch_->Of(*part.segment).Search(query, params, &scratch_->part, counters, limits));
    answer->cut_short |= scratch_->part.cut_short;
    nearest.Add(scratch_->part.nearest);
    return absl::OkStatus();
  };
  if (prepared.sealed.has_value())
    HMANN_RETURN_IF_ERROR(search(*prepared.sealed, prepared.sealed->params));
  for (const PreparedSearch::Part& graph : prepared.graphs) {
    ResolvedParams params = graph.params;
    params.max_distance = nearest.bound().value_or(*params.max_distance);
    if (budget.count() > 0) {  // the best of what is left; never 0: no limit
      const auto spent = std::chrono::nanoseconds(NanosecondsSince(start));
      limits.budget = std::max(budget - spent, std::chrono::nanoseconds(1000));
    }
    HMANN_RETURN_IF_ERROR(search(graph, params));
  }
  if (prepared.tail.has_value() ? prepared.tail->empty() : moment.tail.live() == 0)
    return absl::OkStatus();
  scratch_->query.resize(moment.shape->kernels.row_bytes);
  HMANN_RETURN_IF_ERROR(EncodeRow(moment.shape->kernels, query, scratch_->query.data()));
  ScanTail(prepared, scratch_->query.data(), nearest, counters);
  return absl::OkStatus();
}

absl::Status CollectionSearcher::Get(const Moment& moment, std::span<const std::uint64_t> labels,
                                     void* vectors, std::vector<std::string>* attributes) {
  scratch_->Keep(moment);
  // The tail is in no order. For a few labels, a map of them is smaller than one of it.
  absl::flat_hash_map<std::uint64_t, std::uint64_t> in_tail;
  const absl::flat_hash_set<std::uint64_t> asked(labels.begin(), labels.end());
  moment.tail.ForLive([&](std::uint64_t row) {
    if (asked.contains(moment.tail.Label(row))) in_tail[moment.tail.Label(row)] = row;
  });
  if (attributes != nullptr) attributes->assign(labels.size(), "{}");
  const CollectionShape& shape = *moment.shape;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::byte* const out = static_cast<std::byte*>(vectors) + i * shape.vector_bytes;
    AttributeCells cells;
    if (const auto row = in_tail.find(labels[i]); row != in_tail.end()) {
      std::memcpy(out, moment.tail.Row(row->second, shape.stride), shape.vector_bytes);
      cells = moment.tail.Cells(row->second);
    } else {
      std::uint32_t id = kNoId;
      HMANN_ASSIGN_OR_RETURN(const Segment* segment, FindSegment(moment, labels[i], &id));
      if (segment == nullptr)
        return NotFound("label ", labels[i], ": no vector of the collection has it");
      HMANN_RETURN_IF_ERROR(scratch_->Of(*segment).Get({&labels[i], 1}, out));
      if (attributes != nullptr) {
        HMANN_ASSIGN_OR_RETURN(cells, segment->CellsOf(id, *moment.fields));
      }
    }
    if (attributes != nullptr) (*attributes)[i] = JsonOf(*moment.fields, cells);
  }
  return absl::OkStatus();
}

}  // namespace hmann
