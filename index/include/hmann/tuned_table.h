#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/calibration.h"
#include "hmann/dials.h"
#include "hmann/target.h"

namespace hmann {

/// A setting of the dials and what it did on the learning queries.
struct TunedSetting {
  Dials dials;
  double recall = 0, recall_low = 0, recall_p05 = 0;
  double mean_us = 0, p95_us = 0, p99_us = 0;
};

/// Where an index lies, as far as times depend on it: names of tiers without paths
/// ("nvme", "numa:1", "emulated:lat=300ns"), and the cache ("none", "dynamic 268435456").
struct TunedPlacement {
  std::string fast, slow, cache;
  friend bool operator==(const TunedPlacement&, const TunedPlacement&) = default;
};
/// Drops the path of a tier's name ("nvme:/mnt/x" becomes "nvme").
std::string TierWithoutPath(const std::string& tier);

/// What was found for one placement and k.
struct TunedEntry {
  TunedPlacement placement;
  std::uint32_t k = 0;
  std::uint64_t queries = 0;  ///< learning queries
  std::string origin;         ///< where they came from
  std::string cpu, simd;      ///< whose times these are
  /// Queries that a thread should have under way at once, and how many times the queries
  /// a second of one at a time that gave. 0: not measured.
  std::uint32_t in_flight = 0;
  double in_flight_gain = 0;
  std::vector<TunedSetting>
      settings;  ///< that no other beats in both time and recall, mean_us ascending; at least one
};

/// The tuned table of an index: `<index>.tuned`, JSON (FORMAT.md, "The tuned table").
/// Bound to the content of the index by its hash.
struct TunedTable {
  std::uint64_t content_hash = 0;
  std::vector<TunedEntry> entries;
  std::optional<Calibration> calibration{};  ///< for defaults, and targets that are not tuned

  /// nullptr: not tuned.
  const TunedEntry* Find(const TunedPlacement& placement, std::uint32_t k) const;
  /// In place of the entry of the same placement and k, if there is one.
  void Put(TunedEntry entry);

  /// The setting for a target: of two that differ in effort alone, what lies between
  /// them. Errors: NOT_FOUND naming what is tuned, for a placement or k that is not;
  /// OUT_OF_RANGE for a target that no setting meets, with the best that can be had.
  absl::StatusOr<TunedSetting> Choose(const TunedPlacement& placement, std::uint32_t k,
                                      const Target& target) const;
};

std::string TunedPath(const std::string& index);

/// The table of the index file `index`, which has `content_hash` and `n` vectors. Errors:
/// NOT_FOUND where there is none; FAILED_PRECONDITION for a stale one (of other content);
/// DATA_LOSS naming file, key, expected and found for a damaged one; UNIMPLEMENTED for
/// another version.
absl::StatusOr<TunedTable> ReadTunedTable(const std::string& index, std::uint64_t content_hash,
                                          std::uint64_t n);

/// Whole or not at all; an older table stays until then. Errors: those of AtomicFile.
absl::Status WriteTunedTable(const std::string& index, const TunedTable& table);

}  // namespace hmann
