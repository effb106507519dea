#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/base/buffer.h"
#include "index/base/file_lock.h"
#include "index/construct/jobs/artifacts.h"

namespace hmann {

/// The folder in which a build within bounded memory keeps finished work, so that it can
/// continue after any interruption. One build uses a folder at a time, with any number of
/// processes that help it.
class WorkFolder : public Artifacts {
 public:
  /// Creates the folder, or continues in it. `identity`: a flat JSON object of everything
  /// that the contents depend on. Files that an earlier process left are read whole and
  /// checked. Errors: FAILED_PRECONDITION for a folder of something else (the difference
  /// is named), of another version or with other files; UNAVAILABLE for one in use.
  static absl::StatusOr<std::unique_ptr<WorkFolder>> Open(const std::string& path,
                                                          const std::string& identity);
  /// Opens the folder of a build that another process may be running. Errors: as Open's.
  static absl::StatusOr<std::unique_ptr<WorkFolder>> Join(const std::string& path,
                                                          const std::string& identity);
  /// Returns the identity that a folder was created with. Errors: NOT_FOUND;
  /// FAILED_PRECONDITION for another version, or for something that is no manifest.
  static absl::StatusOr<std::string> IdentityOf(const std::string& path);

  std::string path() const override { return path_; }
  bool on_disk() const override { return true; }
  /// Whether an earlier process left artifacts.
  bool goes_on() const { return goes_on_; }

  bool Has(const std::string& name) const override;
  absl::StatusOr<ArtifactWriter> Create(const std::string& name) const override;
  absl::StatusOr<Buffer> Map(const std::vector<std::string>& names) const override;
  absl::StatusOr<Buffer> Scratch(std::size_t bytes) const override;
  void RemoveAll(std::string_view prefix) const override;
  /// Bytes of all files now, and at most so far. Only RemoveAll reduces them.
  std::uint64_t Bytes() const { return BytesOf(path_); }
  /// The same for any folder; 0 if there is none.
  static std::uint64_t BytesOf(const std::string& path);
  std::uint64_t MostBytes() const;
  /// Removes what builds made, and the folder if it is empty then.
  void Clear() { Remove(path_); }
  static void Remove(const std::string& path);

 private:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  absl::Status Lock();
  absl::Status CheckIdentity(const std::string& identity) const;
  void CheckArtifacts();
  std::string PathOf(const std::string& name) const;

  std::string path_;
  FileLock lock_;
  bool goes_on_ = false;
  mutable std::uint64_t most_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace hmann
