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

/// Where the kernel says that a region lies.
struct Whereabouts {
  std::uint64_t bytes = 0;  ///< of the region
  /// (NUMA node, share of the pages that are present), by node; empty when the kernel
  /// would not say, and for a block tier.
  std::vector<std::pair<int, double>> nodes;
  double present = 0;  ///< share of the region's pages that this process has mapped right now
  std::optional<double> huge;    ///< share of its bytes in 2 MiB pages; unknown when it shares its
                                 ///< mapping with other bytes
  std::optional<double> locked;  ///< share of its bytes that cannot be paged out
  bool file_backed = false;      ///< pages of a file in the page cache, not of our own
  std::string device;  ///< "O_DIRECT from /dev/vda (file /mnt/x)", "DAX from /dev/pmem0 (file
                       ///< /mnt/x)"; else empty
  std::optional<double> cached;  ///< block tier: share of its bytes that lies in the page cache all
                                 ///< the same; reads go past it
  std::string note;   ///< what an emulated or decorated tier adds: its settings, its counts
  std::string error;  ///< why `nodes` is empty

  /// "node 0: 100 %, 2 MiB pages 96 %, locked"; "page cache, 12 % present, node 0: 100
  /// %"; "O_DIRECT from /dev/vda (file /mnt/x), 0 % in the page cache"; "empty".
  std::string ToString() const;
};

/// What stands behind a region of a block tier: makes its readers and knows where its
/// bytes lie. Thread-safe.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  virtual absl::StatusOr<std::unique_ptr<BlockReader>> NewReader(
      const ReaderOptions& options) const = 0;
  virtual void Where(Whereabouts* where) const = 0;
};

/// Bytes that a tier holds, read-only (of our own tiers a write is a SIGSEGV). Move-only;
/// the destructor gives the memory back. Thread-safe for reading.
class Region {
 public:
  Region();  ///< empty
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  /// Memory of a tier that a program brings itself: aligned to 64 bytes, and mapped and
  /// unchanged for as long as `owner` lives.
  static Region OfMemory(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  /// A region of a block tier. `warning`: see below.
  static Region OfBlocks(std::shared_ptr<const BlockSource> blocks, std::size_t bytes,
                         std::string warning = "");

  /// Whether its bytes were compared with their checksum as they were copied to memory.
  /// Else they are read where they lie, and nobody has looked.
  bool checked() const;

  /// nullptr on a block tier, and when it is empty.
  const std::byte* data() const;
  std::size_t size() const;
  /// Empty on a block tier.
  std::span<const std::byte> bytes() const { return {data(), data() == nullptr ? 0 : size()}; }

  /// Asks the kernel (move_pages for a sample of at most 65536 pages, smaps and mincore
  /// for the rest): milliseconds, not for a hot path.
  Whereabouts Where() const;

  /// What could not be done and was done without, for the log: "... is not locked:
  /// RLIMIT_MEMLOCK is 8 MiB". Empty: nothing.
  const std::string& warning() const;

  /// Of a block tier: data() is nullptr, and records are read through readers, one per
  /// thread, which the region must outlive. Errors: UNIMPLEMENTED on an addressable tier;
  /// INVALID_ARGUMENT naming the option; RESOURCE_EXHAUSTED; those of the device.
  absl::StatusOr<std::unique_ptr<BlockReader>> NewReader(const ReaderOptions& options) const;

  /// Of an emulated tier: the bus whose EmulatedLines every access must be told to;
  /// nullptr on real ones. Regions that one Tier has placed share it.
  EmulatedBus* emulated() const;

 private:
  friend class RegionBuilder;
  struct Parts;
  std::unique_ptr<Parts> parts_;  ///< never nullptr
};

/// Bytes of a mapped index file that are to be placed, starting on a 4 KiB boundary of
/// the file, and their checksum in the section table.
struct PlacementSource {
  std::span<const std::byte> bytes;
  std::uint64_t checksum = 0;
  std::string path = {};          ///< of the index file, for tiers that read it themselves
  std::uint64_t file_offset = 0;  ///< of `bytes` in it
  std::string section = {};       ///< name, for messages

  /// `found`: the checksum of what was copied. Errors: DATA_LOSS naming all of it and
  /// what to do.
  absl::Status Check(std::uint64_t found) const;
  /// The same of all the bytes that were copied.
  absl::Status CheckCopy(std::span<const std::byte> copied) const;
};

/// How a tier gives records to a driver.
struct TierTraits {
  std::string name;          ///< as asked for: "dram", "numa:1", "mapped:/mnt/x"
  bool addressable = true;   ///< hands out pointers and takes prefetch hints
  bool one_section = false;  ///< keeps one section under a path: the next Place would replace it
};

/// A kind of memory that holds regions. Thread-safe.
class Tier {
 public:
  virtual ~Tier() = default;

  const TierTraits& traits() const { return traits_; }

  /// Brings the bytes here and makes them read-only; what is copied is compared with its
  /// checksum. An empty source gives an empty region. Errors: RESOURCE_EXHAUSTED with
  /// needed and usable bytes before anything is allocated; DATA_LOSS for damaged bytes;
  /// those of the device.
  virtual absl::StatusOr<Region> Place(const PlacementSource& source, Progress& progress) const = 0;

  /// Memory for bytes that no file has: `fill` writes them, then they are read-only. DRAM
  /// where the tier is none that programs can write. Errors: RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<Region> Make(std::uint64_t bytes,
                                      const std::function<void(std::byte*)>& fill) const;

 protected:
  explicit Tier(TierTraits traits) : traits_(std::move(traits)) {}

 private:
  TierTraits traits_;
};

/// "dram", "numa:N" (memory of node N alone); "mapped" (the index file in place, through
/// the page cache), "mapped:PATH" (a copy at PATH, made once and used again while its
/// checksum agrees); "dax:PATH" (such a copy on a DAX file system, or a devdax node);
/// "nvme" (the index file in place, O_DIRECT), "nvme:PATH" (a copy): block tiers;
/// "emulated:lat=300ns,bw=6GB/s,lines=12" (dram, made slower by EmulatedLines) or a
/// preset, as "emulated:cxl".
///
/// Errors: INVALID_ARGUMENT naming the tiers that this build has, or the nodes that this
/// machine has; FAILED_PRECONDITION where a tier cannot work on this machine.
absl::StatusOr<std::unique_ptr<Tier>> MakeTier(std::string_view spec);

/// The door for kinds of tiers that a program brings itself: a class that derives from
/// Tier and gives regions of memory or of blocks. MakeTier asks `maker` first; it answers
/// with nullptr where `spec` is none of its own, and may ask MakeTier for the rest of
/// one. One for the process, to be given before any tier is made; nullptr: none.
using TierMaker = absl::StatusOr<std::unique_ptr<Tier>> (*)(std::string_view spec);
void RegisterTiers(TierMaker maker);

}  // namespace hmann
