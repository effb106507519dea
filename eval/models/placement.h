/// Where the lines of an index lie under one way of using two memories, as a model that a
/// running search queries line by line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hmann::eval {

/// The parts of an HNSW index that a search touches.
enum class Part : std::uint8_t {
  kLinks = 0,       ///< of level 0
  kVector = 1,      ///< lies between links and label in the node's level-0 record
  kLabel = 2,       ///< likewise
  kUpperTable = 3,  ///< pointer to the node's upper-level lists
  kUpperLinks = 4,  ///< those lists
};

/// How an index is spread over fast and slow memory.
struct PlacementRequest {
  std::string name;  ///< one of kPlacements
  /// The share of the footprint's bytes that fast memory holds. Only the models of
  /// hardware and operating system use it.
  double fast_share = 0.1;
  /// Footprint: 64-byte lines, numbered from 0 in the order in which loading writes them.
  std::uint64_t lines = 0;
  std::vector<bool> in_upper;  ///< by node: whether it has upper levels
};

/// Not thread-safe.
class PlacementModel {
 public:
  virtual ~PlacementModel() = default;

  /// Starts a query. A line that a query touches twice is in the CPU's cache the second
  /// time, so its first answer holds until the next query begins.
  virtual void NewQuery() {}
  /// Whether this line of a node now comes from slow memory. Every call changes the state
  /// of a cache model.
  virtual bool Slow(Part part, std::uint32_t node, std::uint64_t line) = 0;
  /// Whether answers depend on earlier calls, so that a search must first reach a steady
  /// state.
  virtual bool Learns() const { return false; }
};

/// - "dram": nothing is slow.
/// - "slow": everything is slow.
/// - "fast-upper": upper links, and the vectors of nodes that have some, are fast.
/// - "memory-mode": fast memory is a direct-mapped cache of everything (memory_mode.h),
///   with contiguous physical addresses, which is its best case.
/// - "memory-mode-lru": the same, fully associative.
/// - "first-touch": pages of 4 KiB become fast in the order in which loading writes them.
/// - "first-touch-queries": in the order in which the first queries touch them, as with a
///   mapped file.
inline constexpr const char* kPlacements[] = {"dram",
                                              "slow",
                                              "fast-upper",
                                              "memory-mode",
                                              "memory-mode-lru",
                                              "first-touch",
                                              "first-touch-queries"};

/// Errors: INVALID_ARGUMENT for another name, or a share outside (0, 1].
absl::StatusOr<std::unique_ptr<PlacementModel>> MakePlacement(const PlacementRequest& request);

/// Lines that fast memory holds under the request. 0 for "fast-upper", whose size follows
/// from the index alone.
std::uint64_t FastLines(const PlacementRequest& request);

}  // namespace hmann::eval
