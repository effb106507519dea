/// What a disk gives by itself: the limit that a search on it is held against.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/adapters/latency.h"

namespace hmann {

struct DiskOptions {
  std::vector<std::uint32_t> depths = {1,  2,  4, 8,
                                       16, 32, 64};  ///< reads in flight, of all threads together
  int threads = 1;  ///< that read side by side; a depth below it leaves some idle
  std::chrono::nanoseconds time = std::chrono::seconds(1);  ///< of each depth; more if no read ends
  std::uint64_t seed = 1;
  const std::atomic<bool>* cancelled = nullptr;  ///< not owned
};

struct DepthFigures {
  std::uint32_t depth = 0;
  std::uint64_t reads = 0;
  double seconds = 0, iops = 0;
  LatencyUs latency;  ///< of one read, from its submission to its being seen done
};

struct DiskFigures {
  std::string path, tier;
  std::uint64_t blocks = 0;  ///< of 4 KiB that were read from, at random, each as likely
  int threads = 1;
  std::vector<DepthFigures> depths;
  double most_iops() const;
};

/// Random reads of whole 4 KiB blocks of a file past the page cache, through tier `nvme`,
/// in a closed loop: a read that is done is followed by the next. The first tenth of each
/// depth's time is not counted; a depth at which no read was done is read at again, for
/// up to 64 times as long. Errors: INVALID_ARGUMENT for no depth or a file below one
/// block; DEADLINE_EXCEEDED for a disk that never answered; CANCELLED; those of the tier.
absl::StatusOr<DiskFigures> MeasureDisk(const std::string& path, const DiskOptions& options);

}  // namespace hmann
