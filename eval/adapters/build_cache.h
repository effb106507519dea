/// Built indexes that are kept for the next benchmark.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/adapters/adapter.h"

namespace hmann::eval {

/// "hnswlib u8" as a file name.
std::string FileName(const std::string& name);

/// Changes when a file does: its path, size, and time of the last change. "x.hdf5:train"
/// is of x.hdf5.
std::string FileKey(const std::string& path);

/// Where the index of a job is kept: in job.work, which is made, under a name with a hash
/// of all that the build depends on: data, parameters, thread count and the adapter's own
/// executable (a new engine builds anew). Errors: INVALID_ARGUMENT without job.work; as
/// mkdir(2).
absl::StatusOr<std::string> KeptIndexPath(const AdapterJob& job, const VectorFile& base,
                                          const std::string& library);

/// The figures of a kept build; nullopt when there is none: they are written last.
std::optional<BuildFigures> KeptFigures(const std::string& index_path);

/// Lets `save` write a file (a library that has built into index_path need not), moves it
/// to index_path and writes the figures beside it.
absl::Status KeepIndex(const std::string& index_path,
                       const std::function<absl::Status(const std::string& path)>& save,
                       const BuildFigures& figures);

}  // namespace hmann::eval
