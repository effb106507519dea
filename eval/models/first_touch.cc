#include "eval/models/first_touch.h"

#include "index/base/check.h"

namespace hmann::eval {

FirstTouch::FirstTouch(std::uint64_t pages, std::uint64_t fast_pages)
    : places_(pages, Place::kNowhere), free_pages_(fast_pages) {}

bool FirstTouch::Touch(std::uint64_t page) {
  HMANN_CHECK(page < places_.size());
  Place& place = places_[page];
  if (place == Place::kNowhere) {
    place = free_pages_ > 0 ? Place::kFast : Place::kSlow;
    free_pages_ -= place == Place::kFast ? 1 : 0;
  }
  return place == Place::kFast;
}

}  // namespace hmann::eval
