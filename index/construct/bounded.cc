#include "index/construct/bounded.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/codes/code_layout.h"
#include "index/construct/partition.h"
#include "index/construct/streamed_bottom.h"
#include "index/graph/layers.h"

namespace hmann {
namespace {

constexpr std::uint64_t kId = sizeof(NodeId);
/// Threads' scratch, buffers of files, the program itself.
constexpr std::uint64_t kAround = 64_MiB;
/// What a job needs in order to get on at all; it may find that it needs more.
constexpr std::uint64_t kLeastRoom = 32_MiB;

std::uint64_t UpperBytes(const BuildShape& shape) {
  return Layers::Make(shape.n, shape.n1, shape.m).UpperLinkBytes() + shape.n1 * shape.stride;
}

/// Row and id of each node, from the ranking on; labels.
std::uint64_t ByNode(const BuildShape& shape) {
  return std::uint64_t{shape.n} * (2 * kId + (shape.user_labels ? 8 : 0));
}

std::uint64_t FixedUpperBytes(const BuildShape& shape) {
  // The promoted that are no copies, their order and places; who is promoted.
  return UpperBytes(shape) + ByNode(shape) + shape.n * kId + shape.n1 * (5 * kId) + kAround;
}

std::uint64_t FixedWriteBytes(const BuildShape& shape) {
  const std::uint64_t others = shape.n - shape.n1;
  // Ids by node, and by label.
  return UpperBytes(shape) + ByNode(shape) + shape.n * (2 * kId) +
         others * (shape.replicas == 2 ? kId : 0) + shape.n1 * (2 * kId) + kAround;
}

}  // namespace

std::uint64_t FixedBytes(const BuildShape& shape) {
  const std::uint64_t others = shape.n - shape.n1;
  // Degrees, and three orders of nodes.
  const std::uint64_t ranking = std::uint64_t{shape.n} * 7 * kId + kAround;
  // Ids by node, two nearest centroids and a place for each unpromoted node.
  const std::uint64_t cells = UpperBytes(shape) + ByNode(shape) + shape.n * kId +
                              others * (4 * kId) + shape.n1 * (3 * kId) + kAround;
  return std::max(
      {FixedBottomBytes(shape.n), ranking, FixedUpperBytes(shape), cells, FixedWriteBytes(shape)});
}

std::uint64_t WorkerMemory(const BuildShape& shape, std::uint64_t memory, int workers) {
  const std::uint64_t waiting = std::max(FixedBottomBytes(shape.n), FixedUpperBytes(shape));
  return memory <= waiting ? 0 : (memory - waiting) / static_cast<std::uint64_t>(workers);
}

BoundedMemory RoomsOf(const BuildShape& shape, std::uint64_t memory) {
  const auto room = [&](std::uint64_t fixed) {
    return memory > fixed + kLeastRoom ? memory - fixed : kLeastRoom;
  };
  return {room(FixedBottomBytes(shape.n)), room(FixedBottomBytes(shape.n1)),
          room(FixedWriteBytes(shape))};
}

absl::StatusOr<BoundedMemory> DivideMemory(const BuildShape& shape, std::uint64_t memory,
                                           int workers) {
  std::uint64_t least = FixedBytes(shape) + kLeastRoom;
  if (workers > 0) {
    least = std::max(
        least, std::max(FixedBottomBytes(shape.n), FixedUpperBytes(shape)) +
                   static_cast<std::uint64_t>(workers) * (FixedBottomBytes(shape.n) + kLeastRoom));
  }
  if (memory < least) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "build-memory: ", FormatSize(memory), " are too little for ", shape.n, " vectors",
        workers > 0 ? absl::StrCat(" and ", workers, " workers") : "",
        ": the smallest that works is about ", FormatSize(least), " (", least, " bytes)"));
  }
  BoundedMemory rooms{memory - FixedBottomBytes(shape.n), memory - FixedUpperBytes(shape),
                      memory - FixedWriteBytes(shape)};
  if (workers > 0) {
    const BoundedMemory theirs = RoomsOf(shape, WorkerMemory(shape, memory, workers));
    rooms.bottom_room = std::min(rooms.bottom_room, theirs.bottom_room);
    rooms.upper_room = std::min(rooms.upper_room, theirs.upper_room);
  }
  return rooms;
}

BoundedPlan PlanBounded(const BuildShape& shape, std::uint64_t memory) {
  BoundedPlan plan;
  const std::uint64_t lists = std::uint64_t{2} * shape.m * kId, n = shape.n;
  const std::uint32_t fan = PartitionFor(n, 0).fan;
  const auto in_shards = [&](double shards) {  // that a vector is in
    return shards < 2 ? 1.0 : std::min({0.62 + 0.84 * std::log2(shards), 1.0 * fan, shards});
  };
  // Vectors, their lists with distances, numbers; memberships.
  const auto need = [&](double shards) {
    return static_cast<double>(n) / shards *
           (in_shards(shards) * static_cast<double>(shape.stride + 2 * lists + 2 * kId) +
            static_cast<double>(fan * kId));
  };
  plan.least_bytes = std::max(FixedBytes(shape) + kLeastRoom,
                              FixedBottomBytes(n) + static_cast<std::uint64_t>(need(256)));
  if (memory < plan.least_bytes) return plan;
  const auto room = static_cast<double>(memory - FixedBottomBytes(n));
  for (plan.shards = 1; need(plan.shards) > room;) ++plan.shards;
  // While lists are merged: vectors, leaders, the lists of shards and the merged ones.
  plan.work_bytes =
      n * (shape.stride + fan * kId + lists + 3 * kId) +
      static_cast<std::uint64_t>(in_shards(plan.shards) * static_cast<double>(n * (lists + kId)));
  return plan;
}

namespace {

/// All that the contents of a work folder follow from.
std::string IdentityOf(const BuildOptions& options, const BuildInputs& inputs, NodeId n1) {
  namespace fs = std::filesystem;
  const Kernels& kernels = inputs.kernels();
  std::error_code error;
  const std::string& from = inputs.index() != nullptr ? options.from_index : options.base;
  const fs::path base = fs::canonical(from, error);
  const auto changed = fs::last_write_time(from, error).time_since_epoch().count();
  nlohmann::ordered_json of = {
      {"finished", inputs.index() != nullptr},
      {"base", base.string()},
      {"base_bytes", fs::file_size(from, error)},
      {"base_changed", changed},
      {"rows", inputs.n()},
      {"dim", kernels.dim},
      {"dtype", std::string(Name(kernels.dtype))},
      {"metric", std::string(Name(kernels.metric))},
      {"m", inputs.m()},
      {"ef_construction", inputs.ef_construction()},
      {"alpha", inputs.alpha()},
      {"seed", inputs.seed()},
      {"promoted", n1},
  };
  // Sums of floats differ by how many are added at once.
  if (IsFloat(kernels.dtype)) of["simd"] = std::string(kernels.simd);
  return of.dump();
}

/// Refuses what surely cannot work: vectors and links are there at once, and links a
/// second time while they are made of others.
absl::Status CheckDisk(const WorkFolder& work, const BuildShape& shape, bool finished) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(work.path(), error);
  if (error) return absl::OkStatus();
  const std::uint64_t lists = std::uint64_t{2} * shape.m * kId;
  const std::uint64_t need = shape.n * (shape.stride + (finished ? 1 : 2) * lists);
  const std::uint64_t there = work.Bytes();
  if (need <= space.available + there) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(work.path(), ": the work folder takes ", FormatSize(need),
                   " at least, and up to half as much again by the number of shards (hmann plan); ",
                   FormatSize(space.available), " are free there"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkFolder>> OpenWorkFolder(const BuildOptions& options,
                                                           const BuildInputs& inputs, NodeId n1) {
  if (inputs.kernels().metric == Metric::kInnerProduct) {
    return absl::UnimplementedError(
        "build-memory: an index of inner products is built in memory only: leave it out");
  }
  if (inputs.method() != BuildMethod::kPartition) {
    return absl::InvalidArgumentError(
        "build-memory: L0 is made by partition then: leave out --method insertion, or "
        "--build-memory");
  }
  HMANN_ASSIGN_OR_RETURN(std::unique_ptr<WorkFolder> work,
                         WorkFolder::Open(options.work, IdentityOf(options, inputs, n1)));
  HMANN_RETURN_IF_ERROR(CheckDisk(*work, inputs.Shape(n1), inputs.index() != nullptr));
  return work;
}

absl::StatusOr<std::unique_ptr<WorkFolder>> JoinWorkFolder(const BuildOptions& options,
                                                           const BuildInputs& inputs, NodeId n1) {
  return WorkFolder::Join(options.work, IdentityOf(options, inputs, n1));
}

}  // namespace hmann
