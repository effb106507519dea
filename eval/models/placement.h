/// Where the lines of an index lie under one way of using two memories, as a model that
/// is asked line by line while a search runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hmann::eval {

/// What of an HNSW index a search touches.
enum class Part : std::uint8_t {
  kLinks = 0,       ///< of level 0
  kVector = 1,      ///< which lies between links and label in the node's record of level 0
  kLabel = 2,       ///< likewise
  kUpperTable = 3,  ///< the pointer to the node's lists of the levels above
  kUpperLinks = 4,  ///< these
};

/// How an index is spread over fast and slow memory.
struct PlacementRequest {
  std::string name;         ///< one of kPlacements
  double fast_share = 0.1;  ///< of the footprint's bytes that fast memory holds; of the models of
                            ///< hardware and operating system alone
  std::uint64_t lines =
      0;  ///< footprint: 64-byte lines, numbered from 0 in the order in which loading writes them
  std::vector<bool> in_upper;  ///< by node: whether it lives above level 0
};

/// Not thread-safe.
class PlacementModel {
 public:
  virtual ~PlacementModel() = default;

  /// A line that a query touches twice is in the CPU's cache and asked for once: what a
  /// query was told stays until the next begins.
  virtual void NewQuery() {}
  /// Whether this line of a node comes from slow memory now. Models of caches change with
  /// every question.
  virtual bool Slow(Part part, std::uint32_t node, std::uint64_t line) = 0;
  /// Whether answers depend on what was asked before, so that a steady state has to be
  /// reached first.
  virtual bool Learns() const { return false; }
};

/// "dram": nothing is slow; "slow": everything; "fast-upper": upper links, and the
/// vectors of nodes that have some, are fast; "memory-mode": fast memory is a
/// direct-mapped cache of all (memory_mode.h), whose physical addresses are contiguous,
/// which is its best case; "memory-mode-lru": the same, fully associative; "first-touch":
/// pages of 4 KiB are fast in the order in which loading writes them;
/// "first-touch-queries": in the order in which the first queries touch them, as with a
/// file that is mapped.
inline constexpr const char* kPlacements[] = {"dram",
                                              "slow",
                                              "fast-upper",
                                              "memory-mode",
                                              "memory-mode-lru",
                                              "first-touch",
                                              "first-touch-queries"};

/// Errors: INVALID_ARGUMENT for another name, or a share outside (0, 1].
absl::StatusOr<std::unique_ptr<PlacementModel>> MakePlacement(const PlacementRequest& request);

/// Lines that fast memory holds under the request; 0 for "fast-upper", whose size follows
/// from the index alone.
std::uint64_t FastLines(const PlacementRequest& request);

}  // namespace hmann::eval
