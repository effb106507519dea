#include "eval/models/first_touch.h"

#include "index/base/check.h"

namespace hmann {

FirstTouch::FirstTouch(std::uint64_t pages, std::uint64_t fast_pages) : places_(pages, Place::kNowhere), capacity_(fast_pages) {}

bool FirstTouch::Touch(std::uint64_t page) {
  HMANN_CHECK(page < places_.size());
  Place& place = places_[page];
  if (place == Place::kNowhere) {
    place = fast_pages_ < capacity_ ? Place::kFast : Place::kSlow;
    ++(place == Place::kFast ? fast_pages_ : slow_pages_);
  }
  return place == Place::kFast;
}

}  // namespace hmann
