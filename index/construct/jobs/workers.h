#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "index/base/job.h"
#include "index/construct/graph/phases.h"

namespace hmann {

/// Who makes jobs of a build's stages beside this process, which makes what is left.
class JobRunner {
 public:
  virtual ~JobRunner() = default;
  /// Has jobs (ascending) of a stage ("l0-lead") made by `hmann build-job` for the same
  /// work folder, which the runner knows, and waits until all have ended; `look` tells
  /// progress, and is called now and then meanwhile. A job that fails is left to the
  /// caller. Errors: CANCELLED; those of starting.
  virtual absl::Status Run(const std::string& stage, std::span<const std::size_t> jobs,
                           const Job& job, Phases& phases,
                           const std::function<void()>& look) const = 0;
};

/// Processes of this machine. The place for a scheduler's is a class beside it.
struct LocalWorkers : JobRunner {
  LocalWorkers(std::string hmann, std::string folder, int at_once, int threads_each,
               std::uint64_t memory_each)
      : program(std::move(hmann)),
        work(std::move(folder)),
        count(at_once),
        threads(threads_each),
        memory(memory_each) {}

  std::string program;       ///< path of hmann
  std::string work;          ///< folder
  int count = 0;             ///< at once
  int threads = 1;           ///< of each
  std::uint64_t memory = 0;  ///< of each, bytes

  /// One that fails leaves a line on stderr. When this process ends, so do they.
  absl::Status Run(const std::string& stage, std::span<const std::size_t> jobs, const Job& job,
                   Phases& phases, const std::function<void()>& look) const override;
};

}  // namespace hmann
