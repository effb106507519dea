#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/base/buffer.h"
#include "index/construct/jobs/artefacts.h"

namespace hmann {

/// Where a build within bounded memory keeps what is done, so that it can be gone on with
/// after whatever ended it. One build is at work in a folder at a time, with any number
/// of processes that help it.
class WorkFolder : public Artefacts {
 public:
  /// Makes the folder, or goes on in it. `identity`: a flat JSON object of all that the
  /// contents depend on. What an earlier process left is read whole and checked. Errors:
  /// FAILED_PRECONDITION for a folder of something else (the difference is named), of
  /// another version, in use, or that holds other files; those of creating it.
  static absl::StatusOr<std::unique_ptr<WorkFolder>> Open(const std::string& path,
                                                          const std::string& identity);
  /// The folder of a build that another process may be at work in. Errors: as Open's.
  static absl::StatusOr<std::unique_ptr<WorkFolder>> Join(const std::string& path,
                                                          const std::string& identity);
  /// What a folder was begun with. Errors: NOT_FOUND; FAILED_PRECONDITION for another
  /// version, or what is no manifest.
  static absl::StatusOr<std::string> IdentityOf(const std::string& path);
  ~WorkFolder() override;

  std::string path() const override { return path_; }
  bool on_disk() const override { return true; }
  /// Whether an earlier process has left artefacts.
  bool goes_on() const { return goes_on_; }

  bool Has(const std::string& name) const override;
  absl::StatusOr<ArtefactWriter> Create(const std::string& name) const override;
  absl::StatusOr<Buffer> Map(const std::vector<std::string>& names) const override;
  void RemoveAll(std::string_view prefix) const override;
  /// Bytes of all files now, and at the most: they only get fewer by RemoveAll.
  std::uint64_t Bytes() const { return BytesOf(path_); }
  /// The same of any folder; 0 where none is.
  static std::uint64_t BytesOf(const std::string& path);
  std::uint64_t MostBytes() const;
  /// Removes the folder with all that is in it.
  void Clear();

 private:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  absl::Status Lock();
  absl::Status CheckIdentity(const std::string& identity) const;
  void CheckArtefacts();
  std::string PathOf(const std::string& name) const;

  std::string path_;
  int lock_ = -1;
  bool goes_on_ = false;
  mutable std::uint64_t most_bytes_ = 0;
};

}  // namespace hmann
