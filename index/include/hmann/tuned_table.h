#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/calibration.h"
#include "hmann/resolved_params.h"
#include "hmann/target.h"

namespace hmann {

/// A parameter setting and its results on the learning queries.
struct TunedSetting {
  ResolvedParams params;
  double recall = 0, recall_low = 0, recall_p05 = 0;
  double mean_us = 0, p95_us = 0, p99_us = 0;
};

/// The placement of an index, reduced to what affects times: names of tiers without paths
/// ("nvme", "numa:1", "emulated:lat=300ns"), and the cache ("none", "dynamic 268435456").
struct TunedEntryKey {
  std::string fast, slow, cache;
  friend bool operator==(const TunedEntryKey&, const TunedEntryKey&) = default;
};
/// Drops the path from a tier's name ("nvme:/mnt/x" becomes "nvme").
std::string TierWithoutPath(const std::string& tier);

/// The tuning result for one placement and k.
struct TunedEntry {
  TunedEntryKey placement;
  std::uint32_t k = 0;
  std::uint32_t of_shards = 1;  ///< recalls are those of this many shards merged
  std::uint64_t queries = 0;    ///< number of learning queries
  std::string origin;           ///< where the queries came from
  std::string cpu, simd;        ///< the machine that the times were measured on
  /// The number of queries that a thread should keep in flight, and its gain: queries per
  /// second relative to one query at a time. 0: not measured.
  std::uint32_t in_flight = 0;
  double in_flight_gain = 0;
  std::vector<TunedSetting>
      /// Settings that no other beats in both time and recall, ascending by mean_us; at
      /// least one.
      settings;
};

/// The tuned table of an index: `<index>.tuned`, JSON (FORMAT.md, "The tuned table"). A
/// hash binds it to the content of the index.
struct TunedTable {
  std::uint64_t content_hash = 0;
  std::vector<TunedEntry> entries;
  /// For defaults, and for targets that are not tuned.
  std::optional<Calibration> calibration{};

  /// The entry for `placement` and `k`; nullptr: not tuned.
  const TunedEntry* Find(const TunedEntryKey& placement, std::uint32_t k) const;
  /// Adds an entry; replaces the entry of the same placement and k, if any.
  void Put(TunedEntry entry);

  /// The setting for a target. Between two settings that differ only in ef_scale, it
  /// interpolates. Errors: NOT_FOUND for a placement or k that is not tuned, naming what
  /// is tuned; OUT_OF_RANGE for a target that no setting meets, with the best available
  /// value.
  absl::StatusOr<TunedSetting> Choose(const TunedEntryKey& placement, std::uint32_t k,
                                      const Target& target) const;
};

/// The file of the table: INDEX.tuned, next to the file that `index` leads to if it is a
/// link.
std::string TunedPath(const std::string& index);

/// Reads the table of the index file `index`, which has `content_hash` and `n` vectors.
/// Errors: NOT_FOUND if there is none; FAILED_PRECONDITION for a stale table (of other
/// content); DATA_LOSS for a damaged one, naming file, key, expected and found;
/// UNIMPLEMENTED for another version.
absl::StatusOr<TunedTable> ReadTunedTable(const std::string& index, std::uint64_t content_hash,
                                          std::uint64_t n);

/// Writes the table completely or not at all; an older table remains until then. Errors:
/// those of AtomicFile.
absl::Status WriteTunedTable(const std::string& index, const TunedTable& table);

}  // namespace hmann
