#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/progress.h"
#include "index/collection/moment.h"

namespace hmann {

/// What a merge builds from.
struct MergeJob {
  std::uint64_t covered = 0;     ///< the last write that it has
  std::uint64_t rows = 0;        ///< vectors
  std::uint64_t generation = 0;  ///< of the sealed index that it replaces
  std::string types{};           ///< of the attributes that some row has
  std::uint64_t end = 0;         ///< the delta's rows below are in it
  int threads = 0;               ///< 0: all usable cores
};

/// The files of a merge, in the folder `merge` of a collection: live vectors of a moment
/// and their labels, in the order of labels, attributes, and the work of the build. A
/// merge that was interrupted continues with them.
class MergeFiles {
 public:
  explicit MergeFiles(const std::string& folder) : folder_(folder + "/merge") {}

  std::string base(DType dtype) const;
  std::string labels() const { return folder_ + "/labels.u64"; }
  std::string attributes() const { return folder_ + "/attributes.ndjson"; }
  std::string work() const { return folder_ + "/work"; }

  /// The job whose files are complete (without `end`). Errors: NOT_FOUND; DATA_LOSS.
  absl::StatusOr<MergeJob> Read() const;
  /// Writes all files for a moment. `memory`: for vectors at once. Errors: those of
  /// files; RESOURCE_EXHAUSTED before the disk is full; CANCELLED.
  absl::Status Write(const Moment& moment, MergeJob* job, std::uint64_t memory,
                     const std::atomic<bool>& cancelled, Progress& progress) const;
  void Remove() const;

 private:
  absl::Status WriteAttributes(const Moment& moment, std::string* types) const;

  std::string folder_;
};

}  // namespace hmann
