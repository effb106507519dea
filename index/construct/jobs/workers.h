#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "index/base/job.h"
#include "index/construct/graph/phases.h"

namespace hmann {

/// Processes that make jobs of a build's stages beside each other: `hmann build-job`, as
/// anybody may start it for a work folder, on another machine, too.
struct Workers {
  std::string program;       ///< path of hmann
  std::string work;          ///< folder
  int count = 0;             ///< at once
  int threads = 1;           ///< of each
  std::uint64_t memory = 0;  ///< of each, bytes

  /// Starts them for jobs (ascending) of a stage and waits until all have ended; `look`
  /// is called meanwhile. A worker that fails leaves its jobs to the caller, and a line
  /// on stderr. When this process ends, so do they. Errors: CANCELLED; those of starting.
  absl::Status Make(const std::string& stage, std::span<const std::size_t> jobs, const Job& job,
                    Phases& phases, const std::function<void()>& look) const;
};

}  // namespace hmann
