#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/block_reader.h"
#include "hmann/progress.h"

namespace hmann {

struct EmulatedBus;

/// The location of a region, as the kernel reports it.
struct MemoryResidency {
  std::uint64_t bytes = 0;  ///< size of the region
  /// (NUMA node, share of the present pages), by node. Empty for a block tier, and if the
  /// kernel does not report it.
  std::vector<std::pair<int, double>> nodes;
  double present = 0;  ///< share of the region's pages that this process has mapped now
  /// Share of its bytes in 2 MiB pages; unknown if its mapping also holds other bytes.
  std::optional<double> huge;
  std::optional<double> locked;  ///< share of its bytes that cannot be paged out
  bool file_backed = false;      ///< pages of a file in the page cache
  /// "O_DIRECT from /dev/vda (file /mnt/x)", "DAX from /dev/pmem0 (file /mnt/x)";
  /// otherwise empty.
  std::string device;
  /// Block tier: share of its bytes that is in the page cache anyway. Reads bypass the
  /// cache.
  std::optional<double> cached;
  std::string note;   ///< details of an emulated or decorated tier: settings, counts
  std::string error;  ///< why `nodes` is empty

  /// "node 0: 100 %, 2 MiB pages 96 %, locked"; "page cache, 12 % present, node 0: 100
  /// %"; "O_DIRECT from /dev/vda (file /mnt/x), 0 % in the page cache"; "empty".
  std::string ToString() const;
};

/// The source of a region on a block tier. It creates readers and knows where the bytes
/// are stored. Thread-safe.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  virtual absl::StatusOr<std::unique_ptr<BlockReader>> NewReader(
      const ReaderOptions& options) const = 0;
  /// What offsets and lengths of reads are multiples of: 512 or 4096.
  virtual std::uint32_t sector_bytes() const { return 4096; }
  virtual void Where(MemoryResidency* where) const = 0;
};

/// Read-only bytes held by a tier; a write to a region of a built-in tier is a SIGSEGV.
/// Move-only; the destructor frees the memory. Thread-safe for reading.
class Region {
 public:
  Region();  ///< empty
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  /// A region in the memory of a tier that the program provides. The memory must be
  /// aligned to 64 bytes, and mapped and unchanged while `owner` lives.
  static Region OfMemory(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  /// A region of a block tier. `warning`: see warning().
  static Region OfBlocks(std::shared_ptr<const BlockSource> blocks, std::size_t bytes,
                         std::string warning = "");

  /// Whether the bytes were compared with their checksum when they were copied to memory.
  /// Otherwise they are read in place and are unverified.
  bool checked() const;

  /// nullptr on a block tier and for an empty region.
  const std::byte* data() const;
  std::size_t size() const;
  /// Empty on a block tier.
  std::span<const std::byte> bytes() const { return {data(), data() == nullptr ? 0 : size()}; }

  /// Queries the kernel (move_pages for a sample of at most 65536 pages, smaps and
  /// mincore for the rest). Takes milliseconds; do not call it on a hot path.
  MemoryResidency Where() const;
  /// The same of each, with smaps read only once: it has a text for each mapping of the
  /// process.
  static std::vector<MemoryResidency> Where(std::span<const Region* const> regions);

  /// What the region has to work without, for the log:
  /// "... is not locked: RLIMIT_MEMLOCK is 8 MiB". Empty: nothing.
  const std::string& warning() const;

  /// Creates a reader for a region of a block tier, where data() is nullptr. Use one
  /// reader per thread; the region must outlive it. Errors: UNIMPLEMENTED on an
  /// addressable tier; INVALID_ARGUMENT naming the option; RESOURCE_EXHAUSTED; those of
  /// the device.
  absl::StatusOr<std::unique_ptr<BlockReader>> NewReader(const ReaderOptions& options) const;

  /// What offsets and lengths of reads, and frames, are multiples of. Only of a block
  /// tier.
  std::uint32_t sector_bytes() const;

  /// The bus of an emulated tier; nullptr on a real tier. Every access must be reported
  /// to its EmulatedLines. Regions that one Tier placed share the bus.
  EmulatedBus* emulated() const;

 private:
  friend class RegionBuilder;
  struct Parts;
  std::unique_ptr<Parts> parts_;  ///< never nullptr
};

/// Bytes of a mapped index file to be placed, starting on a 4 KiB boundary of the file,
/// and their checksum in the section table.
struct PlacementSource {
  std::span<const std::byte> bytes;
  std::uint64_t checksum = 0;
  std::string path = {};          ///< the index file, for tiers that read it themselves
  std::uint64_t file_offset = 0;  ///< offset of `bytes` in the file
  std::string section = {};       ///< section name, for messages
  int fd = -1;                    ///< the file, if it can be read; -1: copy `bytes`

  /// `found`: the checksum of the copied bytes. Errors: DATA_LOSS naming section, file
  /// and remedy.
  absl::Status Check(std::uint64_t found) const;
  /// The same, computed from all the copied bytes.
  absl::Status CheckCopy(std::span<const std::byte> copied) const;
};

/// How a tier provides node records to an executor.
struct TierTraits {
  std::string name;          ///< as requested: "dram", "numa:1", "mapped:/mnt/x"
  bool addressable = true;   ///< provides pointers and accepts prefetch hints
  bool one_section = false;  ///< keeps one section per path: the next Place replaces it
};

/// A kind of memory that holds regions. Thread-safe.
class Tier {
 public:
  virtual ~Tier() = default;

  const TierTraits& traits() const { return traits_; }

  /// Copies or maps the bytes to this tier, read-only. Copied bytes are compared with
  /// their checksum. An empty source gives an empty region. Errors: RESOURCE_EXHAUSTED
  /// with needed and usable bytes, before any allocation; DATA_LOSS for damaged bytes;
  /// those of the device.
  virtual absl::StatusOr<Region> Place(const PlacementSource& source, Progress& progress) const = 0;

  /// Allocates memory for bytes that are in no file: `fill` writes them, then they are
  /// read-only. If programs cannot write to this tier, the memory is DRAM. Errors:
  /// RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<Region> Make(std::uint64_t bytes,
                                      const std::function<void(std::byte*)>& fill) const;

 protected:
  explicit Tier(TierTraits traits) : traits_(std::move(traits)) {}

 private:
  TierTraits traits_;
};

/// Creates a tier from its specification:
///
/// - "dram"; "numa:N" (memory of node N alone).
/// - "mapped" (the index file in place, through the page cache); "mapped:PATH" (a copy at
///   PATH, created once and reused while its checksum matches).
/// - "dax:PATH" (such a copy on a DAX file system, or a devdax node).
/// - "nvme" (the index file in place, O_DIRECT), "nvme:PATH" (a copy): block tiers.
/// - "emulated:lat=300ns,bw=6GB/s,lines=12" (dram slowed down by EmulatedLines), or a
///   preset such as "emulated:cxl".
///
/// Errors: INVALID_ARGUMENT naming the tiers of this build or the nodes of this machine;
/// FAILED_PRECONDITION if a tier cannot work on this machine.
absl::StatusOr<std::unique_ptr<Tier>> MakeTier(std::string_view spec);

/// Registers tiers that a program provides: classes that derive from Tier and return
/// regions of memory or blocks. MakeTier calls `maker` first. `maker` returns nullptr if
/// `spec` is not one of its own; it may call MakeTier for the rest of a spec. There is
/// one maker per process, set before any tier is created; nullptr: none.
using TierMaker = absl::StatusOr<std::unique_ptr<Tier>> (*)(std::string_view spec);
void RegisterTiers(TierMaker maker);

}  // namespace hmann
