/// Code shared by the programs over hnswlib.
#pragma once

#ifdef __SANITIZE_ADDRESS__  // its vectorized loops prefetch past a list's end
#define NO_MANUAL_VECTORIZATION
#endif
#include <hnswlib/hnswlib.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "index/base/errors.h"

namespace hmann::eval {

/// Calls add(i) for all n rows: for the first one alone, then for the others from several
/// threads. Rethrows an exception of one of them.
template <typename Add>
void AddRows(std::uint64_t n, int threads, Add add) {
  add(0);
  std::atomic<std::uint64_t> next{1};
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(threads));
  std::vector<std::jthread> pool;
  pool.reserve(errors.size());
  for (std::exception_ptr& error : errors) {
    pool.emplace_back([&] {
      try {
        for (std::uint64_t i = next++; i < n; i = next++) add(i);
      } catch (...) {
        error = std::current_exception();
      }
    });
  }
  pool.clear();  // joins them
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// Bytes that a search needs: records, one pointer to upper lists per record, and the
/// lists.
template <typename Dist>
std::uint64_t BytesOf(const hnswlib::HierarchicalNSW<Dist>& index) {
  std::uint64_t bytes = index.max_elements_ * (index.size_data_per_element_ + sizeof(void*));
  for (std::size_t i = 0; i < index.cur_element_count; ++i)
    bytes += static_cast<std::uint64_t>(index.element_levels_[i]) * index.size_links_per_element_;
  return bytes;
}

/// Calls `work` on the held graph. Converts an exception of hnswlib into a Status.
template <typename Held, typename Work>
absl::Status WithGraph(Held& held, Work work) {
  const auto call = [&](auto& graph) -> absl::Status {
    if constexpr (std::is_same_v<std::decay_t<decltype(graph)>, std::monostate>) {
      return FailedPrecondition("no data yet");
    } else if constexpr (std::is_void_v<decltype(work(graph))>) {
      work(graph);
      return absl::OkStatus();
    } else {
      return work(graph);
    }
  };
  try {
    return std::visit(call, held);
  } catch (const std::exception& error) {
    return Internal("hnswlib: ", error.what());
  }
}

}  // namespace hmann::eval
