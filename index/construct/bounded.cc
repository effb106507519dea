#include "index/construct/bounded.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/graph/bottom_layer.h"
#include "index/construct/jobs/leaf_store.h"
#include "index/construct/jobs/nearest_links.h"
#include "index/construct/jobs/parted_layer.h"
#include "index/construct/jobs/partition.h"
#include "index/construct/make_bottom.h"
#include "index/graph/layers.h"

namespace hmann {
namespace {

constexpr std::uint64_t kIdBytes = sizeof(NodeId);
/// The smallest room that a job can work in; it may find that it needs more.
constexpr std::uint64_t kLeastRoom = 16_MiB;

std::uint64_t UpperBytes(const BuildShape& shape) {
  return Layers::Make(shape.n, shape.n1, shape.m).UpperLinkBytes() + shape.n1 * shape.stride;
}

/// Row and id of each node, from the ranking on, and labels.
std::uint64_t ByNode(const BuildShape& shape) {
  return std::uint64_t{shape.n} * (2 * kIdBytes + (shape.user_labels ? 8 : 0));
}

std::uint64_t FixedUpperBytes(const BuildShape& shape) {
  // The promoted nodes that are no copies, with their order and places, and the promoted
  // flags.
  return UpperBytes(shape) + ByNode(shape) + shape.n * kIdBytes + shape.n1 * (5 * kIdBytes) +
         BytesAround(shape.stride);
}

std::uint64_t FixedWriteBytes(const BuildShape& shape) {
  const std::uint64_t others = shape.n - shape.n1;
  // Scalar codes are made at the end: a sample is measured, then some vectors at a time.
  // (27 MiB were seen of 128 x u8.)
  const std::uint64_t scalar = 16_MiB + std::min<std::uint64_t>(shape.n, 65536) * shape.dim;
  // Ids by node, and by label.
  return scalar + UpperBytes(shape) + ByNode(shape) + shape.n * (2 * kIdBytes) +
         others * (shape.replicas == 2 ? kIdBytes : 0) + shape.n1 * (2 * kIdBytes) +
         BytesAround(shape.stride);
}

std::uint64_t FixedCellBytes(const BuildShape& shape) {
  const std::uint64_t others = shape.n - shape.n1;
  // Ids by node, two nearest centroids and a place for each unpromoted node.
  return UpperBytes(shape) + ByNode(shape) + shape.n * kIdBytes + others * (4 * kIdBytes) +
         shape.n1 * (3 * kIdBytes) + BytesAround(shape.stride);
}

/// While L1 is joined, and while its vectors give the unpromoted nodes their cells.
std::uint64_t FixedAboveBytes(const BuildShape& shape) {
  return std::max(FixedUpperBytes(shape), FixedCellBytes(shape));
}

}  // namespace

std::uint64_t FixedBytes(const BuildShape& shape) {
  // Degrees, and three orders of nodes.
  const std::uint64_t ranking = std::uint64_t{shape.n} * 7 * kIdBytes + BytesAround(shape.stride);
  return std::max({FixedBottomBytes(shape.n, shape.stride), ranking, FixedAboveBytes(shape),
                   FixedWriteBytes(shape)});
}

std::uint64_t WorkerMemory(const BuildShape& shape, std::uint64_t memory, int workers) {
  const std::uint64_t waiting =
      std::max(FixedBottomBytes(shape.n, shape.stride), FixedUpperBytes(shape));
  return memory <= waiting ? 0 : (memory - waiting) / static_cast<std::uint64_t>(workers);
}

BoundedMemory RoomsOf(const BuildShape& shape, std::uint64_t memory) {
  const auto room = [&](std::uint64_t fixed) {
    return memory > fixed + kLeastRoom ? memory - fixed : kLeastRoom;
  };
  return {room(FixedBottomBytes(shape.n, shape.stride)),
          room(FixedBottomBytes(shape.n1, shape.stride)), room(FixedWriteBytes(shape))};
}

absl::StatusOr<BoundedMemory> DivideMemory(const BuildShape& shape, std::uint64_t memory,
                                           int workers) {
  if (shape.inner_product) {
    return Unimplemented(
        "build-memory: an index of inner products is built in memory only: leave it out");
  }
  std::uint64_t least = FixedBytes(shape) + kLeastRoom;
  if (workers > 0) {
    least =
        std::max(least, std::max(FixedBottomBytes(shape.n, shape.stride), FixedUpperBytes(shape)) +
                            static_cast<std::uint64_t>(workers) *
                                (FixedBottomBytes(shape.n, shape.stride) + kLeastRoom));
  }
  if (memory < least) {
    return ResourceExhausted(
        "build-memory: ", FormatSize(memory), " are too little for ", shape.n, " vectors",
        workers > 0 ? absl::StrCat(" and ", workers, " workers") : "", ", expected at least about ",
        FormatSize(least), " (", least, " bytes)");
  }
  BoundedMemory rooms{memory - FixedBottomBytes(shape.n, shape.stride),
                      memory - FixedAboveBytes(shape), memory - FixedWriteBytes(shape)};
  if (workers > 0) {
    const BoundedMemory theirs = RoomsOf(shape, WorkerMemory(shape, memory, workers));
    rooms.bottom_room = std::min(rooms.bottom_room, theirs.bottom_room);
    rooms.upper_room = std::min(rooms.upper_room, theirs.upper_room);
  }
  return rooms;
}

namespace {

/// The share of the links that a vector may have which it has in each of its parts. It
/// was measured on a million SIFT vectors in eight parts; for other data it is a guess.
constexpr double kLinkedInPart = 0.67;

/// Bytes of a layer's artifacts per vector, at most and at the end (its links).
struct LayerBytes {
  double most, left;
};

/// The lists of a graph of n nodes that are inserted, per node: plain, and of the layers
/// above.
double InsertedBytes(std::uint32_t m) { return 2.0 * m * kIdBytes * (1 + 1.0 / m); }

LayerBytes WorkOfLayer(std::uint64_t n, std::uint32_t m, std::uint64_t stride) {
  // Measured on SIFT: 0.48 of the links that a node may have are chosen, and 0.45 of
  // those lead into other ranges, at 4.1 bytes each. For other data these are a guess.
  constexpr double kChosen = 0.48, kFar = 0.45, kWay = 4.1;
  const PartitionOptions options = PartitionFor(n, 0);
  const double length = 2.0 * m;
  const auto lists = static_cast<double>(LinkPacking::Of(2 * m, n).list_bytes);
  const double answered = lists * std::min(1.0, NodeLinker::kAnswered / length);
  if (PartedLayer::PartsOf(static_cast<NodeId>(n), options) > 1) {
    // Members with their vectors, and the links of each in each part.
    const double member = static_cast<double>(stride) + 3 * kIdBytes,
                 linked = kLinkedInPart * length * kIdBytes + 2 * kIdBytes;
    return {PartedLayer::kPartsOfVector * (member + linked) + lists, lists};
  }
  const double near = options.fan * kIdBytes,
               leaves = kBytesOfMember * options.fan * options.fan_below;
  const double links = kChosen * length * kIdBytes, ways = kChosen * length * kFar * kWay;
  return {
      std::max({2 * near, near + leaves, leaves + lists, answered + links + ways, lists + ways}),
      lists};
}

/// The number of parts of size `room` in which `bytes` bytes are loaded.
std::uint64_t Loads(std::uint64_t bytes, std::uint64_t room) { return (bytes + room - 1) / room; }

/// The number of loads of the members of all groups, which take `bytes` together. The
/// more loads, the more of them a vector is in: 1.4 of 2 and 2.5 of 8 on SIFT. For other
/// data this is a guess.
std::uint64_t GroupLoads(std::uint64_t bytes, std::uint64_t room) {
  constexpr double kAgain = 0.48;
  std::uint64_t loads = 1;
  for (double each = 1; each * static_cast<double>(bytes) > static_cast<double>(loads * room);
       loads *= 2)
    each += kAgain;
  return loads;
}

/// Passes over n vectors that are joined by leaves.
std::uint64_t JoinPasses(std::uint64_t n, const BuildShape& shape, std::uint64_t room) {
  const std::uint64_t lists = std::uint64_t{2} * shape.m * kIdBytes;
  const std::uint64_t loaded = n * (shape.stride + 3 * kIdBytes);
  const std::uint64_t range = n / 32 * 3 * lists;  // of the new range, and its lists
  const std::uint64_t left = room > 2 * range ? room - range : std::max(room / 2, kLeastRoom / 2);
  // Lists take half of the room. They need nearly all groups.
  const std::uint64_t at_once = std::min(n, std::max(room, kLeastRoom) / 2 / (2 * lists));
  const std::uint64_t of_vectors = std::max(room, kLeastRoom) - at_once * 2 * lists;
  const std::uint64_t joins =
      loaded <= of_vectors ? 1 : Loads(n, at_once) * GroupLoads(loaded, of_vectors);
  // Leaders; leaves; lists; links; the way back.
  return 1 + GroupLoads(loaded, room) + joins + Loads(loaded + n * (lists / 2 + kIdBytes), left) +
         Loads(loaded + n * lists, left);
}

/// The same for L0, which may be cut into parts: vectors are read, written to shelves,
/// and read from there twice, or joined there as often as a part needs.
std::uint64_t BottomPasses(const BuildShape& shape, std::uint64_t room) {
  // Copied in the order of nodes and written. What insertion reads of that is not told.
  if (shape.method == BuildMethod::kInsertion && !shape.finished_graph)
    return Loads(shape.n * (shape.stride + NodeVectors::kBytesOfGather), room) + 1;
  const std::uint32_t parts = PartedLayer::PartsOf(shape.n, PartitionFor(shape.n, 0));
  if (parts == 1) return JoinPasses(shape.n, shape, room);
  const std::uint64_t members = PartedLayer::MembersOf(shape.n, parts);
  const std::uint64_t joins = PartedLayer::FitsInMemory(members, shape.stride, shape.m, room)
                                  ? 1
                                  : JoinPasses(members, shape, room);
  return 1 + static_cast<std::uint64_t>(
                 std::ceil(PartedLayer::kPartsOfVector * static_cast<double>(2 + joins)));
}

}  // namespace

WorkFolderBytes WorkBytes(const BuildShape& shape) {
  const auto n = static_cast<double>(shape.n), n1 = static_cast<double>(shape.n1);
  constexpr double kOrders = 2 * kIdBytes;  // unique rows, or hashes, and the order of nodes
  const bool inserts = shape.method == BuildMethod::kInsertion && !shape.finished_graph;
  LayerBytes l0 = WorkOfLayer(shape.n, shape.m, shape.stride),
             l1 = WorkOfLayer(shape.n1, shape.m, shape.stride);
  // Vectors and lists that are inserted, and two checkpoints of the lists. L1 is in
  // memory.
  const double list = InsertedBytes(shape.m);
  if (inserts) l0.most = static_cast<double>(shape.stride) + 3 * list, l1 = {0, 0};
  // Links in a range before and after; hubs and their links, as in those that were
  // inserted in L1.
  const double plain = 2.0 * shape.m * kIdBytes;
  const double final = l0.left * (1 + 1.0 / 32) + (plain + kIdBytes) / kBackboneOfL0;
  const double joining = shape.finished_graph ? l0.left : std::max(l0.most, final);
  // Ids, rows and order of L1, the inserted nodes, and its own stages; two centroids.
  const double inserted = inserts ? 2 * list : plain * (1.0 / kBackboneOfL1 + 1.0 / shape.m);
  const double above = n * l0.left + n1 * (5 * kIdBytes + inserted + l1.most);
  const double cells = n * (l0.left + 2 * kIdBytes) + n1 * (5 * kIdBytes + 2 * l1.left);
  return {static_cast<std::uint64_t>(n * kOrders + std::max({n * joining, above, cells})),
          static_cast<std::uint64_t>(n * kOrders + cells)};
}

BoundedPlan PlanBounded(const BuildShape& shape, std::uint64_t memory) {
  BoundedPlan plan;
  plan.least_bytes = FixedBytes(shape) + kLeastRoom;
  if (memory < plan.least_bytes) return plan;
  const WorkFolderBytes work = WorkBytes(shape);
  plan.work_bytes = work.most;
  plan.work_bytes_at_end = work.at_end;
  const BoundedMemory rooms = RoomsOf(shape, memory);
  const std::uint64_t n = shape.n, lists = std::uint64_t{2} * shape.m * kIdBytes;
  const std::uint64_t loaded = n * (shape.stride + 3 * kIdBytes);
  // Hashes; L0; hubs, the promoted nodes, the mean of codes; cells; writing.
  plan.base_passes = static_cast<std::uint32_t>(
      1 + BottomPasses(shape, rooms.bottom_room) + 3 + Loads(loaded, rooms.upper_room) +
      Loads(n * (shape.stride + lists + 2 * kIdBytes), rooms.write_room));
  return plan;
}

namespace {

/// Everything that the contents of a work folder depend on.
std::string IdentityOf(const BuildOptions& options, const BuildInputs& inputs, NodeId n1) {
  namespace fs = std::filesystem;
  const Kernels& kernels = inputs.kernels();
  std::error_code error;
  const std::string& from = inputs.index() != nullptr ? options.from_index : options.base;
  const fs::path base = fs::canonical(from, error);
  const auto changed = fs::last_write_time(from, error).time_since_epoch().count();
  nlohmann::ordered_json of = {
      {"finished", inputs.index() != nullptr},
      {"base", absl::CEscape(base.string())},  // a name need not be UTF-8, which JSON is
      {"base_bytes", fs::file_size(from, error)},
      {"base_changed", changed},
      {"rows", inputs.n()},
      {"dim", kernels.dim},
      {"dtype", std::string(Name(kernels.dtype))},
      {"metric", std::string(Name(kernels.metric))},
      {"method", std::string(Name(inputs.method()))},
      {"m", inputs.m()},
      {"ef_construction", inputs.ef_construction()},
      {"alpha", inputs.alpha()},
      {"seed", inputs.seed()},
      {"promoted", n1},
  };
  // Sums of floats depend on how many are added at once.
  if (IsFloat(kernels.dtype)) of["simd"] = std::string(kernels.simd);
  return JsonText(of);
}

}  // namespace

absl::Status CheckDiskRoom(const std::string& path, const char* what, std::uint64_t need,
                           std::uint64_t there) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(StandingPart(path), error);
  if (error || need <= space.available + there) return absl::OkStatus();
  return ResourceExhausted(path, ": ", what, " takes about ", FormatSize(need), "; ",
                           FormatSize(space.available), " are free there");
}

std::string StandingPart(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path there = fs::absolute(path, error);
  while (!there.empty() && !fs::exists(there, error) && there != there.root_path())
    there = there.parent_path();
  return there.string();
}

absl::StatusOr<std::unique_ptr<WorkFolder>> OpenWorkFolder(const BuildOptions& options,
                                                           const BuildInputs& inputs, NodeId n1) {
  HMANN_ASSIGN_OR_RETURN(std::unique_ptr<WorkFolder> work,
                         WorkFolder::Open(options.work, IdentityOf(options, inputs, n1)));
  // Refuses only what surely cannot work, however wrong the estimate is.
  HMANN_RETURN_IF_ERROR(CheckDiskRoom(work->path(), "the work folder",
                                      WorkBytes(inputs.Shape(n1)).most / 4 * 3, work->Bytes()));
  return work;
}

absl::StatusOr<std::unique_ptr<WorkFolder>> JoinWorkFolder(const BuildOptions& options,
                                                           const BuildInputs& inputs, NodeId n1) {
  return WorkFolder::Join(options.work, IdentityOf(options, inputs, n1));
}

}  // namespace hmann
