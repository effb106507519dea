#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "hmann/collection.h"
#include "index/collection/delta_graph.h"
#include "index/collection/segment.h"
#include "index/collection/tail.h"

namespace hmann {

/// The last row of the delta of each label that has one. Rows that a merge has taken may
/// be left. Thread-safe.
class RowsByLabel {
 public:
  /// Now; absent: no row.
  std::optional<std::uint64_t> Find(std::uint64_t label) const {
    const std::scoped_lock lock(mutex_);
    const auto found = rows_.find(label);
    return found == rows_.end() ? std::nullopt : std::optional(found->second);
  }
  /// As of this version. False: there is another one now.
  bool FindAll(std::span<const std::uint64_t> labels, std::uint64_t version,
               std::vector<std::optional<std::uint64_t>>* rows) const;
  /// Takes over what writes changed; absent: no row. Returns the version.
  std::uint64_t Change(
      const absl::flat_hash_map<std::uint64_t, std::optional<std::uint64_t>>& changed);
  std::uint64_t EraseBelow(std::uint64_t row);
  /// The table is at least 7/16 full, and has a byte more for each place.
  static constexpr std::uint64_t kEntryBytes = (2 * sizeof(std::uint64_t) + 1) * 16 / 7 + 1;
  std::uint64_t bytes() const;

 private:
  mutable std::mutex mutex_;
  absl::flat_hash_map<std::uint64_t, std::uint64_t> rows_;
  std::uint64_t version_ = 0;
};

/// The rows of the delta for which the last filter held, dead ones included, so that the
/// next search with it looks at new rows only. Thread-safe.
class LastFilter {
 public:
  /// A bit for each row of the tail from base() on. Errors: those of the filter.
  absl::StatusOr<std::vector<std::uint64_t>> Matching(const Filter& filter, const Tail& tail,
                                                      const std::vector<AttributeField>& fields);

 private:
  std::mutex mutex_;
  std::string text_;
  std::uint64_t base_ = 0, end_ = 0;
  std::vector<std::uint64_t> words_;
};

/// What moments with the same numbers of rows share.
struct DeltaFacts {
  using Clock = std::chrono::steady_clock;

  RowsByLabel rows;
  LastFilter last_filter;

  /// Remembers that a search came, to some milliseconds.
  void Searched() {
    const Clock::time_point now = Clock::now();
    if (now - searched_at_.load(std::memory_order_relaxed) > std::chrono::milliseconds(20))
      searched_at_.store(now, std::memory_order_relaxed);
  }
  bool WasSearchedWithin(std::chrono::milliseconds time) const {
    return Clock::now() - searched_at_.load(std::memory_order_relaxed) < time;
  }

 private:
  std::atomic<Clock::time_point> searched_at_ = Clock::time_point();  ///< when it booted: never
};

/// What does not change while a collection is open.
struct CollectionShape {
  std::string folder, id;
  Kernels kernels;
  /// Bytes of a vector as a user gives it, and from one row in memory to the next.
  std::size_t vector_bytes = 0, stride = 0;
};

class Moment {
 public:
  /// More rows than this cannot be in one index.
  static constexpr std::uint64_t kMostLive = (std::uint64_t{1} << 31) - 1;

  /// A segment and its rows that are alive.
  struct Part {
    std::shared_ptr<const Segment> segment;  ///< nullptr: none
    std::shared_ptr<const Matches> live;     ///< nullptr: all
    /// Rows that die in a moment that is not visible yet. Settle takes them out of
    /// `live`.
    std::vector<std::uint32_t> killed;
    std::uint64_t rows() const {
      return segment == nullptr ? 0 : live == nullptr ? segment->n() : live->size();
    }
    bool Has(std::uint32_t id) const { return live == nullptr || live->Has(id); }
    void Settle();
  };

  std::shared_ptr<const CollectionShape> shape;
  std::shared_ptr<const std::vector<AttributeField>> fields;
  std::uint64_t sequence = 0;
  Part sealed;
  Tail tail;  ///< the delta
  std::shared_ptr<DeltaFacts> facts = std::make_shared<DeltaFacts>();
  std::uint64_t rows_version = 0;  ///< of facts->rows
  /// Over its rows, in their order. Rows that are in none yet are scanned.
  std::vector<std::shared_ptr<DeltaGraph>> graphs;

  /// Bytes of the writes in the journal that the sealed index has not.
  std::uint64_t unmerged_bytes = 0;

  std::uint64_t live() const { return sealed.rows() + tail.live(); }
  /// Memory of the delta, with all that it needs.
  std::uint64_t delta_bytes() const;
  /// Bytes of rows of the delta that were replaced or deleted, in memory or in the
  /// journal, whichever is more; and what they may take.
  std::uint64_t wasted_bytes() const;
  std::uint64_t most_wasted() const;
  /// Rows of the delta that are in no graph yet.
  std::uint64_t loose_rows() const;
  /// Errors: RESOURCE_EXHAUSTED: `more` rows are too many.
  absl::Status CheckLive(std::uint64_t more) const;
};

class PreparedSearch {
 public:
  struct Part {
    std::shared_ptr<const Segment> segment;
    std::shared_ptr<const Matches> matches;  ///< that `search` refers to
    ResolvedSearch search;
  };
  std::shared_ptr<const Moment> moment;
  std::uint32_t k = 0;
  std::optional<float> max_distance;
  std::optional<std::chrono::nanoseconds> budget;
  std::optional<Part> sealed;
  /// Rows of the delta that are alive and match, a bit each; absent: all that are alive.
  std::optional<std::vector<std::uint64_t>> delta;
  std::uint64_t delta_matching = 0;
  /// For a search in its graphs; absent: scan all.
  std::optional<ResolvedParams> delta_params;
  std::uint64_t matching = 0;
};

}  // namespace hmann
