/// A cache of built indexes for later benchmarks.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/adapters/adapter.h"

namespace hmann::eval {

/// Turns a name such as "hnswlib u8" into a file name.
std::string FileName(const std::string& name);

/// A key that changes when the file does: path, size, and time of the last change.
/// "x.hdf5:train" uses x.hdf5.
std::string FileKey(const std::string& path);

/// The path at which a job's index is kept: in job.work, which is created if missing. The
/// name holds a hash of everything that the build depends on: data, parameters, thread
/// count and the adapter's executable (a new engine rebuilds). Errors: INVALID_ARGUMENT
/// without job.work; as mkdir(2).
absl::StatusOr<std::string> KeptIndexPath(const AdapterInput& job, const VectorFile& base,
                                          const std::string& library);

/// The figures of a kept build. nullopt if there is none: the figures are written last.
std::optional<BuildFigures> KeptFigures(const std::string& index_path);

/// Calls `save` to write a file, unless the library has built into index_path itself.
/// Moves the file to index_path and writes the figures next to it.
absl::Status KeepIndex(const std::string& index_path,
                       const std::function<absl::Status(const std::string& path)>& save,
                       const BuildFigures& figures);

}  // namespace hmann::eval
