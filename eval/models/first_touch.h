#pragma once

#include <cstdint>
#include <vector>

namespace hmann::eval {

/// Pages go to DRAM in the order in which they are first touched until it is full, then
/// to slow memory, and stay where they are: what an operating system does that fills the
/// nearest node first and migrates nothing. Not thread-safe.
class FirstTouch {
 public:
  /// `pages`: footprint; pages are numbered from 0. `fast_pages`: that fit in DRAM.
  FirstTouch(std::uint64_t pages, std::uint64_t fast_pages);

  /// Touches a page; whether it lies in DRAM.
  bool Touch(std::uint64_t page);

 private:
  enum class Place : std::uint8_t { kNowhere, kFast, kSlow };
  std::vector<Place> places_;
  std::uint64_t free_pages_;  ///< of DRAM
};

}  // namespace hmann::eval
