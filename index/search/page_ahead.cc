#include "index/search/page_ahead.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>

namespace hmann {
namespace {

constexpr std::ptrdiff_t kPage = 4096;

}  // namespace

void PageAhead::Look() {
  rusage use{};
  if (::getrusage(RUSAGE_THREAD, &use) != 0) return;
  // A page a query, in units of 512 bytes. That requests cost more than faults where
  // fewer are read is a guess, measured on one machine.
  on_ = read_ >= 0 && use.ru_inblock - read_ >= std::int64_t{queries_} * kPage / 512;
  read_ = use.ru_inblock;
  queries_ = 0;
  until_look_ = std::min(2 * until_look_, 8u);
}

void PageAhead::Add(std::span<const std::byte> bytes) {
  const std::byte* const end = bytes.data() + bytes.size();
  for (const std::byte* page =
           bytes.data() - reinterpret_cast<std::uintptr_t>(bytes.data()) % std::size_t{kPage};
       page < end; page += kPage)
    pages_.push_back(page);
}

/// A system call for each run of pages: one for all of them (process_madvise) is no
/// faster, and needs a capability before Linux 6.13.
void PageAhead::Send() {
  std::sort(pages_.begin(), pages_.end());
  for (std::size_t first = 0, end = 0; first < pages_.size(); first = end) {
    for (end = first + 1; end < pages_.size() && pages_[end] - pages_[end - 1] <= kPage;) ++end;
    ::madvise(const_cast<std::byte*>(pages_[first]),
              static_cast<std::size_t>(pages_[end - 1] + kPage - pages_[first]), MADV_WILLNEED);
  }
  pages_.clear();
}

}  // namespace hmann
