#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "index/base/errors.h"

namespace hmann {

/// Collects faults found by several threads and keeps the one with the lowest file
/// offset.
class FirstFault {
 public:
  void Report(std::uint64_t offset, std::string what) {
    std::lock_guard lock(mutex_);
    if (found_ && offset >= offset_) return;
    found_ = true;
    offset_ = offset;
    what_ = std::move(what);
  }
  absl::Status ToStatus(const std::string& path) const {
    if (!found_) return absl::OkStatus();
    return DataLoss(path, ": offset ", offset_, ": ", what_);
  }

 private:
  std::mutex mutex_;
  bool found_ = false;
  std::uint64_t offset_ = 0;
  std::string what_;
};

}  // namespace hmann
