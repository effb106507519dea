#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "index/base/task_context.h"
#include "index/construct/graph/phases.h"

namespace hmann {

/// Makes jobs of a build's stages outside this process, which makes what is left.
class BuildJobRunner {
 public:
  virtual ~BuildJobRunner() = default;
  /// Has `hmann build-job` make jobs (ascending) of a stage ("l0-lead") for the same work
  /// folder, which the runner knows. Waits until all have ended, and meanwhile calls
  /// `look` now and then to report progress. A job that fails is left to the caller.
  /// Errors: CANCELLED; those of starting.
  virtual absl::Status Run(const std::string& stage, std::span<const std::size_t> jobs,
                           const TaskContext& job, Phases& phases,
                           const std::function<void()>& look) const = 0;
};

/// Processes on this machine. A runner for a scheduler would be another subclass.
struct LocalWorkers : BuildJobRunner {
  LocalWorkers(std::string hmann, std::string folder, int at_once, int threads_each,
               std::uint64_t memory_each)
      : program(std::move(hmann)),
        work(std::move(folder)),
        count(at_once),
        threads(threads_each),
        memory(memory_each) {}

  std::string program;       ///< path of hmann
  std::string work;          ///< folder
  int count = 0;             ///< processes at once
  int threads = 1;           ///< threads of each
  std::uint64_t memory = 0;  ///< bytes of each

  /// A failed process leaves a line on stderr. When this process ends, so do they.
  absl::Status Run(const std::string& stage, std::span<const std::size_t> jobs,
                   const TaskContext& job, Phases& phases,
                   const std::function<void()>& look) const override;
};

}  // namespace hmann
