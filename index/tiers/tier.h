#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "index/base/file.h"
#include "index/base/progress.h"

namespace hmann {

/// Where the kernel says that a region lies.
struct Whereabouts {
  std::uint64_t bytes = 0;  ///< of the region
  /// (NUMA node, share of the pages that are present), by node; empty when the kernel would not say.
  std::vector<std::pair<int, double>> nodes;
  double present = 0;            ///< share of the region's pages that this process has mapped right now
  std::optional<double> huge;    ///< share of its bytes in 2 MiB pages; unknown when it shares its mapping with other bytes
  std::optional<double> locked;  ///< share of its bytes that cannot be paged out
  bool file_backed = false;      ///< pages of a file in the page cache, not of our own
  std::string error;             ///< why `nodes` is empty

  /// "node 0: 100 %, 2 MiB pages 96 %, locked"; "page cache, 12 % present, node 0: 100 %"; "empty".
  std::string ToString() const;
};

/// Bytes that a tier holds, read-only: a write is a SIGSEGV. Move-only; the destructor gives the memory back.
/// Thread-safe for reading.
class Region {
 public:
  Region() = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  /// Asks the kernel (move_pages for a sample of at most 65536 pages, smaps for the rest): milliseconds, not for a hot path.
  Whereabouts Where() const;

  /// What could not be done and was done without, for the log: "... is not locked: RLIMIT_MEMLOCK is 8 MiB". Empty: nothing.
  const std::string& warning() const { return warning_; }

 private:
  friend class RegionBuilder;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  MappedFile file_;          ///< that holds the bytes, if they are a file of the region's own
  void* mapping_ = nullptr;  ///< what munmap gets, if they are memory of its own
  std::size_t mapping_bytes_ = 0;
  std::size_t capacity_ = 0;  ///< size_ rounded up to whole pages of the kind that was asked for
  bool file_backed_ = false;
  std::string warning_;
};

/// Bytes of a mapped index file that are to be placed, starting on a 4 KiB boundary of the file, and their checksum in the section table.
struct PlacementSource {
  std::span<const std::byte> bytes;
  std::uint64_t checksum = 0;
};

/// How a tier gives records to a driver.
struct TierTraits {
  std::string name;            ///< as asked for: "dram", "numa:1", "mapped:/mnt/x"
  bool addressable = true;     ///< hands out pointers and takes prefetch hints
  bool in_place = false;       ///< the index file itself serves: the source must outlive the region
  std::uint32_t granule = 64;  ///< bytes that one access costs at least
};

/// A kind of memory that holds regions. Thread-safe.
class Tier {
 public:
  virtual ~Tier() = default;

  const TierTraits& traits() const { return traits_; }

  /// Brings the bytes here and makes them read-only. An empty source gives an empty region.
  /// Errors: RESOURCE_EXHAUSTED with needed and usable bytes before anything is allocated; those of the device.
  virtual absl::StatusOr<Region> Place(const PlacementSource& source, Progress& progress) const = 0;

 protected:
  explicit Tier(TierTraits traits) : traits_(std::move(traits)) {}

 private:
  TierTraits traits_;
};

/// "dram"; "numa:N"; "mapped" (the index file in place); "mapped:PATH" (a copy at PATH, made once and used again while its checksum
/// agrees). Errors: INVALID_ARGUMENT naming the tiers that this build has, or the nodes that this machine has.
absl::StatusOr<std::unique_ptr<Tier>> MakeTier(std::string_view spec);

}  // namespace hmann
