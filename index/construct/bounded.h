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

/// The memory that a build within bounded memory may take, by stage.
struct BoundedMemory {
  std::uint64_t bottom_room = 0;  ///< a job of L0, in addition to its fixed part
  std::uint64_t upper_room = 0;   ///< a job of L1
  std::uint64_t write_room = 0;   ///< vectors and links that are being written to the index
};

/// Upper bound in bytes of what a build always holds, whatever a job may load: arrays of
/// one number per node, and the upper layers.
std::uint64_t FixedBytes(const BuildShape& shape);

/// Divides `memory` between `workers` workers and the process that waits for them.
/// Errors: RESOURCE_EXHAUSTED naming the smallest memory that works; UNIMPLEMENTED for
/// inner products.
absl::StatusOr<BoundedMemory> DivideMemory(const BuildShape& shape, std::uint64_t memory,
                                           int workers);
/// One worker's part of `memory`.
std::uint64_t WorkerMemory(const BuildShape& shape, std::uint64_t memory, int workers);
/// The rooms that one process has in `memory`, however small it is.
BoundedMemory RoomsOf(const BuildShape& shape, std::uint64_t memory);

/// Estimated cost of a bounded build.
struct BoundedPlan {
  std::uint64_t least_bytes = 0;        ///< the smallest memory that works
  std::uint32_t base_passes = 0;        ///< passes over the base; 0: the memory is too small
  std::uint64_t work_bytes = 0;         ///< of the work folder at its largest
  std::uint64_t work_bytes_at_end = 0;  ///< of the work folder while the index is written
};
/// The number of links, and the share of them that lead far, were measured on SIFT. For
/// other data they are a guess.
BoundedPlan PlanBounded(const BuildShape& shape, std::uint64_t memory);

/// Estimated bytes of the work folder at its largest, and while the index is written.
struct WorkFolderBytes {
  std::uint64_t most = 0, at_end = 0;
};
WorkFolderBytes WorkBytes(const BuildShape& shape);

/// Checks that the disk has room for `need` bytes at `path`, which need not exist yet. An
/// earlier process has already written `there` of these bytes. Errors: RESOURCE_EXHAUSTED
/// naming both.
absl::Status CheckDiskRoom(const std::string& path, const char* what, std::uint64_t need,
                           std::uint64_t there = 0);
/// The longest prefix of a path that exists.
std::string StandingPart(const std::string& path);

/// Opens the work folder of a build. Its manifest records everything that its files
/// depend on. Errors: those of WorkFolder::Open.
absl::StatusOr<std::unique_ptr<WorkFolder>> OpenWorkFolder(const BuildOptions& options,
                                                           const BuildInputs& inputs, NodeId n1);
/// Opens the same folder for a worker. Errors: those of WorkFolder::Join.
absl::StatusOr<std::unique_ptr<WorkFolder>> JoinWorkFolder(const BuildOptions& options,
                                                           const BuildInputs& inputs, NodeId n1);

}  // namespace hmann
