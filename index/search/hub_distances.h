#pragma once

#include <cstdint>
#include <vector>

#include "index/graph/types.h"
#include "index/search/id_map.h"

namespace hmann {

/// The distance of a query to the hubs that it has met, each computed once.
class HubDistances {
 public:
  static constexpr std::uint32_t kAbsent = IdMap::kAbsent;

  void Clear() {
    places_.Clear();
    distances_.clear();
  }
  /// Where the hub's distance is or will be; kAbsent when it was not met yet.
  std::uint32_t Find(NodeId hub) const { return places_.Find(hub); }
  /// Of a hub that is absent.
  std::uint32_t Add(NodeId hub, float distance) {
    const auto place = static_cast<std::uint32_t>(distances_.size());
    places_.Insert(hub, place);
    distances_.push_back(distance);
    return place;
  }
  void Set(std::uint32_t place, float distance) { distances_[place] = distance; }
  float At(std::uint32_t place) const { return distances_[place]; }

 private:
  IdMap places_;
  std::vector<float> distances_;
};

}  // namespace hmann
