#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/build_options.h"
#include "index/construct/build_bytes.h"
#include "index/construct/inputs.h"
#include "index/construct/jobs/work_folder.h"

namespace hmann {

/// What a build within bounded memory may take, stage by stage.
struct BoundedMemory {
  std::uint64_t bottom_room = 0;  ///< a job of L0, besides what L0 always takes
  std::uint64_t upper_room = 0;   ///< a job of L1
  std::uint64_t write_room = 0;   ///< vectors and links on their way into the index
};

/// Bytes that are always held at the most, whatever a job may load: arrays of a number a
/// node, and the upper layers.
std::uint64_t FixedBytes(const BuildShape& shape);

/// Divides `memory`, with `workers` among them and the process that waits for them.
/// Errors: RESOURCE_EXHAUSTED naming the smallest that works.
absl::StatusOr<BoundedMemory> DivideMemory(const BuildShape& shape, std::uint64_t memory,
                                           int workers);
/// What one worker has of `memory`.
std::uint64_t WorkerMemory(const BuildShape& shape, std::uint64_t memory, int workers);
/// Rooms in the memory of one process, however small.
BoundedMemory RoomsOf(const BuildShape& shape, std::uint64_t memory);

/// What a bounded build will take, about.
struct BoundedPlan {
  std::uint64_t least_bytes = 0;        ///< the smallest memory that works
  std::uint32_t base_passes = 0;        ///< over the base; 0: the memory is too small
  std::uint64_t work_bytes = 0;         ///< of the work folder at the most
  std::uint64_t work_bytes_at_end = 0;  ///< while the index is written
};
/// How many links there are, and how many lead far, was seen on SIFT: elsewhere a guess.
BoundedPlan PlanBounded(const BuildShape& shape, std::uint64_t memory);

/// Bytes of the work folder at its largest, and while the index is written, about.
struct WorkFolderBytes {
  std::uint64_t most = 0, at_end = 0;
};
WorkFolderBytes WorkBytes(const BuildShape& shape);

/// Whether `need` bytes find room where `path` is, or will be made; `there`: of these,
/// what an earlier process has left. Errors: RESOURCE_EXHAUSTED naming both.
absl::Status CheckDiskRoom(const std::string& path, const char* what, std::uint64_t need,
                           std::uint64_t there = 0);
/// The longest part of a path that exists.
std::string StandingPart(const std::string& path);

/// Opens the work folder of a build; its manifest says what all files in it follow from.
/// Errors: UNIMPLEMENTED (inner product), INVALID_ARGUMENT (insertion), those of
/// WorkFolder::Open.
absl::StatusOr<std::unique_ptr<WorkFolder>> OpenWorkFolder(const BuildOptions& options,
                                                           const BuildInputs& inputs, NodeId n1);
/// The same folder, for a worker. Errors: those of WorkFolder::Join.
absl::StatusOr<std::unique_ptr<WorkFolder>> JoinWorkFolder(const BuildOptions& options,
                                                           const BuildInputs& inputs, NodeId n1);

}  // namespace hmann
