/// hnswlib's search, told again so that each of its touches can be seen: the order of its
/// steps and its prefetches are those of hnswlib 0.6.2 (searchKnn, searchBaseLayerST),
/// and so are its answers.
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
#include "index/base/prefetch.h"
#include "index/distance/distance.h"

namespace hmann {

/// What is fetched ahead of its use.
enum class Ahead : std::uint8_t {
  kOwn = 0,  ///< as hnswlib does: one line of the next neighbour's vector, the visited mark, the
             ///< best candidate's record
  kVectors = 1,     ///< the same, but whole vectors, on the levels above too: what a CPU's own
                    ///< prefetchers may add
  kNeighbours = 2,  ///< all vectors of a node that will be needed, before the first distance: more
                    ///< than hnswlib or a CPU does
};

/// `Dist`: int for u8, float for f32, under L2; as hnswlib's own.
///
/// Departures, all in favour of the rival: a list is one touch (hnswlib waits for its
/// head, then reads on), the labels of the answer are fetched together, nothing behind
/// the end of a list is prefetched, and no counters are kept. Visited marks and queues
/// are taken to be in the CPU's cache.
template <typename Dist>
class HnswWalk {
 public:
  static_assert(std::is_same_v<Dist, int> || std::is_same_v<Dist, float>);

  /// Kernels::ToDistance without the call: of a squared distance, which is not negative.
  static Dist FromKey(DistanceKey key) { return std::bit_cast<Dist>(key ^ 0x80000000u); }

  HnswWalk(const HnswImage* image, const Kernels* kernels)
      : image_(image), kernels_(kernels), visited_(image->nodes, 0) {}

  /// The k nearest labels of those found with `ef`, nearest first, into `labels`; returns
  /// how many.
  template <typename Access>
  std::uint32_t Search(const std::byte* query, std::uint32_t k, std::uint32_t ef, Ahead ahead,
                       Access& access, std::uint32_t* labels) {
    access.NewQuery();
    const std::uint32_t start = Descend(query, ahead, access);
    Queue best = SearchLevelZero(query, start, std::max(ef, k), ahead, access);
    while (best.size() > k) best.pop();
    found_.clear();
    for (; !best.empty(); best.pop()) {
      const auto [distance, node] = best.top();
      access.Fetch(Part::kLabel, node, image_->Label(node), sizeof(std::uint64_t));
      found_.push_back({distance, node});
    }
    for (auto& [distance, id] : found_) {
      const std::byte* label = image_->Label(id);
      access.Use(Part::kLabel, id, label, sizeof(std::uint64_t));
      id = ReadU32(label);  // of a little-endian u64 that holds a row number
    }
    std::sort(found_.begin(),
              found_.end());  // equal distances by label, as hnswlib's last queue does
    for (const auto& [distance, label] : found_) *labels++ = label;
    return static_cast<std::uint32_t>(found_.size());
  }

 private:
  using Candidate = std::pair<Dist, std::uint32_t>;
  struct ByDistance {
    bool operator()(const Candidate& a, const Candidate& b) const { return a.first < b.first; }
  };
  using Queue = std::priority_queue<Candidate, std::vector<Candidate>, ByDistance>;

  template <typename Access>
  Dist Distance(const std::byte* query, std::uint32_t node, Access& access) {
    const std::byte* vector = image_->Vector(node);
    access.Use(Part::kVector, node, vector, image_->vector_bytes);
    return FromKey(kernels_->one(query, vector, kernels_->dim));
  }

  static std::uint32_t ReadU32(const std::byte* at) {
    std::uint32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  /// hnswlib keeps the count in the lower half: the upper one marks deletion.
  static std::uint32_t Count(const std::byte* list) { return ReadU32(list) & 0xffff; }
  static std::uint32_t Neighbour(const std::byte* list, std::uint32_t i) {
    return ReadU32(list + 4 + std::size_t{i} * 4);
  }

  /// A prefetch of the first line, or of the whole vector; the instruction itself and the
  /// word to the tier.
  template <typename Access>
  void FetchVector(std::uint32_t node, bool whole, Access& access) {
    const std::byte* vector = image_->Vector(node);
    const std::size_t bytes = whole ? image_->vector_bytes : 1;
    const std::size_t into_line = reinterpret_cast<std::uintptr_t>(vector) % kCacheLineBytes;
    PrefetchLines(vector - into_line, bytes + into_line);
    access.Fetch(Part::kVector, node, vector, bytes);
  }

  template <typename Access>
  std::uint32_t Descend(const std::byte* query, Ahead ahead, Access& access) {
    std::uint32_t current = image_->entry;
    Dist nearest = Distance(query, current, access);
    for (int level = image_->top_level; level > 0; --level) {
      for (bool changed = true; changed;) {
        changed = false;
        const std::byte* const* entry = image_->TableEntry(current);
        access.Use(Part::kUpperTable, current, entry, sizeof *entry);
        const std::byte* list = *entry + static_cast<std::size_t>(level - 1) * image_->list_bytes;
        access.Use(Part::kUpperLinks, current, list, image_->list_bytes);
        const std::uint32_t count = Count(list);
        for (std::uint32_t i = 0; ahead == Ahead::kNeighbours && i < count; ++i)
          FetchVector(Neighbour(list, i), true, access);
        for (std::uint32_t i = 0; i < count; ++i) {
          if (ahead == Ahead::kVectors && i + 1 < count)
            FetchVector(Neighbour(list, i + 1), true, access);
          const std::uint32_t neighbour = Neighbour(list, i);
          const Dist distance = Distance(query, neighbour, access);
          if (distance >= nearest) continue;
          nearest = distance;
          current = neighbour;
          changed = true;
        }
      }
    }
    return current;
  }

  void NewMark() {
    if (++mark_ != 0) return;
    std::fill(visited_.begin(), visited_.end(), 0);
    mark_ = 1;
  }

  template <typename Access>
  Queue SearchLevelZero(const std::byte* query, std::uint32_t start, std::size_t ef, Ahead ahead,
                        Access& access) {
    NewMark();
    Queue best, candidates;
    Dist bound = Distance(query, start, access);
    best.emplace(bound, start);
    candidates.emplace(-bound, start);
    visited_[start] = mark_;
    while (!candidates.empty()) {
      const Candidate current = candidates.top();
      if (-current.first > bound) break;
      candidates.pop();
      const std::byte* list = image_->Record(current.second);
      access.Use(Part::kLinks, current.second, list, image_->links_bytes);
      const std::uint32_t count = Count(list);
      FetchFirst(list, count, ahead, access);
      for (std::uint32_t i = 0; i < count; ++i) {
        if (i + 1 < count && ahead != Ahead::kNeighbours) {
          const std::uint32_t next = Neighbour(list, i + 1);
          PrefetchLines(&visited_[next], 1);
          FetchVector(next, ahead == Ahead::kVectors, access);
        }
        const std::uint32_t neighbour = Neighbour(list, i);
        if (visited_[neighbour] == mark_) continue;
        visited_[neighbour] = mark_;
        const Dist distance = Distance(query, neighbour, access);
        if (best.size() >= ef && bound <= distance) continue;
        candidates.emplace(-distance, neighbour);
        const std::uint32_t top = candidates.top().second;
        PrefetchLines(image_->Record(top), 1);
        access.Fetch(Part::kLinks, top, image_->Record(top), 1);
        best.emplace(distance, neighbour);
        if (best.size() > ef) best.pop();
        bound = best.top().first;
      }
    }
    return best;
  }

  /// What is asked for when a node's list is there.
  template <typename Access>
  void FetchFirst(const std::byte* list, std::uint32_t count, Ahead ahead, Access& access) {
    if (count == 0) return;
    if (ahead != Ahead::kNeighbours) {
      PrefetchLines(&visited_[Neighbour(list, 0)], 1);
      FetchVector(Neighbour(list, 0), ahead == Ahead::kVectors, access);
      return;
    }
    for (std::uint32_t i = 0; i < count; ++i) PrefetchLines(&visited_[Neighbour(list, i)], 1);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (visited_[Neighbour(list, i)] != mark_) FetchVector(Neighbour(list, i), true, access);
    }
  }

  const HnswImage* image_;
  const Kernels* kernels_;
  std::vector<std::uint16_t> visited_;
  std::uint16_t mark_ = 0;
  std::vector<Candidate> found_;  ///< node, then label
};

}  // namespace hmann
