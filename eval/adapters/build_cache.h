#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/adapters/adapter.h"

namespace hmann {

/// Built indexes, kept in job.work under a name that holds a hash of all that the build
/// depends on: data, parameters, thread count and the adapter's own executable (a new
/// engine builds anew). Beside each index, the figures of its build as JSON, written
/// last: an index without them is not there.
class BuildCache {
 public:
  /// Makes job.work. With job.work empty nothing is kept: index_path() then lies in a
  /// temporary folder that the destructor removes. Errors: as mkdir(2) and stat(2) of
  /// base.
  static absl::StatusOr<BuildCache> Open(const AdapterJob& job, const VectorFile& base,
                                         const std::string& library);
  BuildCache(BuildCache&& other) noexcept;
  ~BuildCache();

  const std::string& index_path() const { return index_path_; }
  /// The figures of the kept build; nullopt when there is none, or none that can be read.
  std::optional<BuildFigures> Find() const;
  /// Lets `save` write a file (a library that has built into index_path() need not),
  /// moves it to index_path() and writes the figures.
  absl::Status Keep(const std::function<absl::Status(const std::string& path)>& save,
                    const BuildFigures& figures) const;

 private:
  BuildCache() = default;

  std::string index_path_, temporary_folder_;
};

}  // namespace hmann
