#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/base/buffer.h"
#include "index/base/checksum.h"
#include "index/base/file.h"

namespace hmann {

/// Of the file of an artefact: their number and checksum.
constexpr std::uint64_t kBytesBehindArtefact = 32;

/// A file of a work folder: bytes, and behind them their number and checksum. It appears
/// under its name whole or not at all.
class ArtefactWriter {
 public:
  static absl::StatusOr<ArtefactWriter> Create(const std::string& path);
  absl::Status Append(const void* data, std::size_t bytes);
  template <typename T>
  absl::Status Append(std::span<const T> values) {
    return Append(values.data(), values.size_bytes());
  }
  absl::Status Commit();

 private:
  AtomicFile file_;
  XXH3_state_t checksum_;
  std::uint64_t bytes_ = 0;
};

/// Where a build within bounded memory keeps what is done, so that it can be gone on with
/// after whatever ended it. One build is at work in a folder at a time, with any number
/// of processes that help it.
class WorkFolder {
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
  ~WorkFolder();

  const std::string& path() const { return path_; }
  /// Names of artefacts that were damaged when the folder was opened, and are removed.
  const std::vector<std::string>& damaged() const { return damaged_; }
  /// Whether an earlier process has left artefacts.
  bool goes_on() const { return goes_on_; }

  bool Has(const std::string& name) const;
  absl::StatusOr<ArtefactWriter> Create(const std::string& name) const;
  /// A small artefact at once.
  absl::Status Write(const std::string& name, std::string_view bytes) const;
  /// Maps `names` one behind the other: all but the last hold whole pages. Pages are the
  /// file's until they are written to, which changes no file. Errors: NOT_FOUND,
  /// DATA_LOSS where a file is not of the size that its end says.
  absl::StatusOr<Buffer> Map(const std::vector<std::string>& names) const;
  /// Removes all artefacts whose names begin so, if there are any.
  void RemoveAll(std::string_view prefix) const;
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
  std::vector<std::string> damaged_;
};

}  // namespace hmann
