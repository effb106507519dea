#include "index/search/page_ahead.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>

namespace hmann {
namespace {

constexpr std::uintptr_t kPage = 4096;

}  // namespace

void PageAhead::Look() {
  rusage use{};
  if (::getrusage(RUSAGE_THREAD, &use) != 0) return;
  // A page a query, in units of 512 bytes. With fewer, requests cost more than faults.
  on_ = use.ru_inblock - read_ >= std::int64_t{kBetweenLooks * (kPage / 512)};
  read_ = use.ru_inblock;
}

void PageAhead::Add(std::span<const std::byte> bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  for (std::uintptr_t page = begin / kPage; page * kPage < begin + bytes.size(); ++page)
    pages_.push_back(page);
}

/// A system call for each run of pages: one for all of them (process_madvise) is no
/// faster, and needs a capability before Linux 6.13.
void PageAhead::Send() {
  std::sort(pages_.begin(), pages_.end());
  for (std::size_t first = 0, end = 0; first < pages_.size(); first = end) {
    for (end = first + 1; end < pages_.size() && pages_[end] - pages_[end - 1] <= 1;) ++end;
    ::madvise(reinterpret_cast<void*>(pages_[first] * kPage),
              (pages_[end - 1] + 1 - pages_[first]) * kPage, MADV_WILLNEED);
  }
  pages_.clear();
}

}  // namespace hmann
