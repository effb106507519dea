/// hnswlib's search, reimplemented so that each of its memory accesses can be observed.
/// The order of its steps, its prefetches and its answers are those of hnswlib 0.6.2
/// (searchKnn, searchBaseLayerST).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <queue>
#include <type_traits>
#include <utility>
#include <vector>

#include "eval/adapters/hnsw_image.h"
#include "hmann/distance.h"
#include "index/base/prefetch.h"

namespace hmann::eval {

/// What a search prefetches.
enum class Ahead : std::uint8_t {
  /// As hnswlib does: one line of the next neighbor's vector, the visited mark, and the
  /// best candidate's record.
  kOwn = 0,
  /// All vectors of a node that will be needed, before the first distance: more than
  /// hnswlib or a CPU does.
  kNeighbors = 1,
};

/// `Dist`: int for u8, float for f32, under L2, as in hnswlib.
///
/// There are four departures, all in favor of the baseline. A list is one access (hnswlib
/// waits for its head, then reads on). The labels of the answer are fetched together.
/// Nothing past the end of a list is prefetched. No counters are kept. Visited marks and
/// queues are assumed to be in the CPU's cache.
template <typename Dist>
class HnswTraversal {
 public:
  static_assert(std::is_same_v<Dist, int> || std::is_same_v<Dist, float>);

  /// Kernels::ToDistance without the call, for a squared distance, which is not negative.
  static Dist FromKey(DistanceKey key) { return std::bit_cast<Dist>(key ^ 0x80000000u); }

  HnswTraversal(const HnswImage* image, const Kernels* kernels)
      : image_(image), kernels_(kernels), visited_(image->nodes, 0) {}

  /// Starts a search for the k nearest of those found with `ef`. It runs in steps, so
  /// that several queries can share a thread, each with its own traversal.
  ///
  /// `waits`: each step but the first uses exactly what the previous one fetched, and
  /// ends when it needs more. Otherwise one step is the whole search.
  template <typename Access>
  void Begin(const std::byte* query, std::uint32_t k, std::uint32_t ef, Ahead ahead, bool waits,
             Access& access) {
    access.NewQuery();
    query_ = query;
    k_ = k;
    ef_ = std::max(ef, k);
    ahead_ = ahead;
    waits_ = waits;
    best_ = Queue();
    candidates_ = Queue();
    current_ = image_->entry;
    level_ = image_->top_level;
    nearest_ = Distance(current_, access);
    NewMark();
    level_ > 0 ? RequestTable(access) : OpenLevelZero(access);
  }
  /// Returns false once the search is done.
  template <typename Access>
  bool Step(Access& access) {
    do {
      if (stage_ == Stage::kTable)
        ReadTable(access);
      else if (stage_ == Stage::kUpperList)
        ReadUpperList(access);
      else if (stage_ == Stage::kUpperVectors)
        ScanUpper(access);
      else if (stage_ == Stage::kList)
        ReadList(access);
      else if (stage_ == Stage::kVectors)
        Scan(access);
    } while (!waits_ && stage_ != Stage::kDone);
    return stage_ != Stage::kDone;
  }
  /// Stores the labels in `labels`, nearest first, and returns their number.
  template <typename Access>
  std::uint32_t Finish(Access& access, std::uint32_t* labels) {
    while (best_.size() > k_) best_.pop();
    found_.clear();
    for (; !best_.empty(); best_.pop()) {
      const auto [distance, node] = best_.top();
      access.Fetch(Part::kLabel, node, image_->Label(node), sizeof(std::uint64_t));
      found_.push_back({distance, node});
    }
    for (auto& [distance, id] : found_) {
      const std::byte* label = image_->Label(id);
      access.Use(Part::kLabel, id, label, sizeof(std::uint64_t));
      id = ReadU32(label);  // the low half of a little-endian u64 that holds a row number
    }
    // Equal distances are ordered by label, as in hnswlib's last queue.
    std::sort(found_.begin(), found_.end());
    for (const auto& [distance, label] : found_) *labels++ = label;
    return static_cast<std::uint32_t>(found_.size());
  }

 private:
  using Candidate = std::pair<Dist, std::uint32_t>;
  struct ByDistance {
    bool operator()(const Candidate& a, const Candidate& b) const { return a.first < b.first; }
  };
  using Queue = std::priority_queue<Candidate, std::vector<Candidate>, ByDistance>;

  /// What the next step reads.
  enum class Stage : std::uint8_t { kTable, kUpperList, kUpperVectors, kList, kVectors, kDone };

  template <typename Access>
  Dist Distance(std::uint32_t node, Access& access) {
    const std::byte* vector = image_->Vector(node);
    access.Use(Part::kVector, node, vector, image_->vector_bytes);
    return FromKey(kernels_->one(query_, vector, kernels_->dim));
  }

  static std::uint32_t ReadU32(const std::byte* at) {
    std::uint32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  /// hnswlib keeps the count in the lower half; the upper half marks deletion.
  static std::uint32_t Count(const std::byte* list) { return ReadU32(list) & 0xffff; }
  static std::uint32_t Neighbor(const std::byte* list, std::uint32_t i) {
    return ReadU32(list + 4 + std::size_t{i} * 4);
  }

  /// Prefetches the first line or the whole vector: issues the instruction and notifies
  /// the tier.
  template <typename Access>
  void FetchVector(std::uint32_t node, bool whole, Access& access) {
    const std::byte* vector = image_->Vector(node);
    const std::size_t bytes = whole ? image_->vector_bytes : 1;
    const std::size_t into_line = reinterpret_cast<std::uintptr_t>(vector) % kCacheLineBytes;
    PrefetchLines(vector - into_line, bytes + into_line);
    access.Fetch(Part::kVector, node, vector, bytes);
  }

  /// Requests the pointer to the upper-level lists of the current node.
  template <typename Access>
  void RequestTable(Access& access) {
    const std::byte* const* entry = image_->TableEntry(current_);
    if (waits_) access.Fetch(Part::kUpperTable, current_, entry, sizeof *entry);
    stage_ = Stage::kTable;
  }
  template <typename Access>
  void ReadTable(Access& access) {
    const std::byte* const* entry = image_->TableEntry(current_);
    access.Use(Part::kUpperTable, current_, entry, sizeof *entry);
    list_ = *entry + static_cast<std::size_t>(level_ - 1) * image_->list_bytes;
    if (waits_) access.Fetch(Part::kUpperLinks, current_, list_, image_->list_bytes);
    stage_ = Stage::kUpperList;
  }
  template <typename Access>
  void ReadUpperList(Access& access) {
    access.Use(Part::kUpperLinks, current_, list_, image_->list_bytes);
    count_ = Count(list_);
    at_ = 0;
    best_neighbor_ = current_;
    for (std::uint32_t i = 0; ahead_ == Ahead::kNeighbors && i < count_; ++i)
      FetchVector(Neighbor(list_, i), true, access);
    asked_ = kNothing;
    stage_ = Stage::kUpperVectors;
  }
  template <typename Access>
  void ScanUpper(Access& access) {
    for (; at_ < count_; ++at_) {
      const std::uint32_t neighbor = Neighbor(list_, at_);
      if (MustWait(neighbor, access)) return;
      const Dist distance = Distance(neighbor, access);
      if (distance >= nearest_) continue;
      nearest_ = distance;
      best_neighbor_ = neighbor;
    }
    if (best_neighbor_ == current_) --level_;
    current_ = best_neighbor_;
    level_ > 0 ? RequestTable(access) : OpenLevelZero(access);
  }
  /// Requests this neighbor's vector. Returns whether to return once it has arrived.
  template <typename Access>
  bool MustWait(std::uint32_t neighbor, Access& access) {
    if (!waits_ || ahead_ == Ahead::kNeighbors || asked_ == at_) return false;
    asked_ = at_;
    FetchVector(neighbor, true, access);
    return true;
  }

  void NewMark() {
    if (++mark_ != 0) return;
    std::fill(visited_.begin(), visited_.end(), 0);
    mark_ = 1;
  }

  template <typename Access>
  void OpenLevelZero(Access& access) {
    bound_ = Distance(current_, access);
    best_.emplace(bound_, current_);
    candidates_.emplace(-bound_, current_);
    visited_[current_] = mark_;
    TakeCandidate(access);
  }
  template <typename Access>
  void TakeCandidate(Access& access) {
    stage_ = Stage::kDone;
    if (candidates_.empty() || -candidates_.top().first > bound_) return;
    current_ = candidates_.top().second;
    candidates_.pop();
    list_ = image_->Record(current_);
    if (waits_) access.Fetch(Part::kLinks, current_, list_, image_->links_bytes);
    stage_ = Stage::kList;
  }
  template <typename Access>
  void ReadList(Access& access) {
    access.Use(Part::kLinks, current_, list_, image_->links_bytes);
    count_ = Count(list_);
    at_ = 0;
    FetchFirst(access);
    asked_ = kNothing;
    stage_ = Stage::kVectors;
  }
  template <typename Access>
  void Scan(Access& access) {
    for (; at_ < count_; ++at_) {
      const std::uint32_t neighbor = Neighbor(list_, at_);
      const bool asks = asked_ != at_;
      if (asks && at_ + 1 < count_ && ahead_ != Ahead::kNeighbors) {
        const std::uint32_t next = Neighbor(list_, at_ + 1);
        PrefetchLines(&visited_[next], 1);
        FetchVector(next, false, access);
      }
      if (visited_[neighbor] == mark_) continue;
      if (MustWait(neighbor, access)) return;
      visited_[neighbor] = mark_;
      const Dist distance = Distance(neighbor, access);
      if (best_.size() >= ef_ && bound_ <= distance) continue;
      candidates_.emplace(-distance, neighbor);
      const std::uint32_t top = candidates_.top().second;
      PrefetchLines(image_->Record(top), 1);
      access.Fetch(Part::kLinks, top, image_->Record(top), 1);
      best_.emplace(distance, neighbor);
      if (best_.size() > ef_) best_.pop();
      bound_ = best_.top().first;
    }
    TakeCandidate(access);
  }

  /// Prefetches what is wanted as soon as a node's list has arrived.
  template <typename Access>
  void FetchFirst(Access& access) {
    const bool all = ahead_ == Ahead::kNeighbors;
    const std::uint32_t first = all ? count_ : std::min(count_, 1u);
    for (std::uint32_t i = 0; i < first; ++i) PrefetchLines(&visited_[Neighbor(list_, i)], 1);
    for (std::uint32_t i = 0; i < first; ++i) {
      const std::uint32_t neighbor = Neighbor(list_, i);
      if (!all || visited_[neighbor] != mark_) FetchVector(neighbor, all, access);
    }
  }

  const HnswImage* image_;
  const Kernels* kernels_;
  std::vector<std::uint16_t> visited_;
  std::uint16_t mark_ = 0;
  // State of the query in flight.
  static constexpr std::uint32_t kNothing = 0xffffffff;
  const std::byte* query_ = nullptr;
  std::uint32_t k_ = 0;
  std::size_t ef_ = 0;
  Ahead ahead_ = Ahead::kOwn;
  bool waits_ = false;
  Stage stage_ = Stage::kDone;
  int level_ = 0;
  std::uint32_t current_ = 0, best_neighbor_ = 0;
  Dist nearest_ = 0, bound_ = 0;
  Queue best_, candidates_;
  const std::byte* list_ = nullptr;   ///< the current list
  std::uint32_t count_ = 0, at_ = 0;  ///< its length; the next neighbor
  std::uint32_t asked_ = kNothing;    ///< the neighbor that ended a step
  std::vector<Candidate> found_;      ///< node, then label
};

}  // namespace hmann::eval
