#pragma once

#include <cstdint>
#include <vector>

namespace hmann::eval {

/// Pages go to DRAM in the order of their first touch until it is full, then to slow
/// memory. They never move. An operating system does this if it fills the nearest node
/// first and migrates nothing. Not thread-safe.
class FirstTouch {
 public:
  /// `pages`: footprint; pages are numbered from 0. `fast_pages`: the pages that fit in
  /// DRAM.
  FirstTouch(std::uint64_t pages, std::uint64_t fast_pages);

  /// Touches a page and returns whether it lies in DRAM.
  bool Touch(std::uint64_t page);

 private:
  enum class Place : std::uint8_t { kNowhere, kFast, kSlow };
  std::vector<Place> places_;
  std::uint64_t free_pages_;  ///< of DRAM
};

}  // namespace hmann::eval
