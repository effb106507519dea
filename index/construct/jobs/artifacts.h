#pragma once

#include <cstdint>
#include <map>
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

/// The footer behind the bytes of an artifact that is a file.
struct ArtifactFooter {
  static constexpr std::uint64_t kMagic = 0x7472617065'6e6e61;

  std::uint64_t magic = kMagic, bytes = 0, checksum = 0, own = 0;
  std::uint64_t Own() const { return Checksum(this, 3 * sizeof(std::uint64_t)); }
};
static_assert(sizeof(ArtifactFooter) == 32);

using ArtifactsInMemory = std::map<std::string, std::shared_ptr<Buffer>, std::less<>>;

/// Writes an artifact to a file, with the number and checksum of its bytes behind them,
/// or to memory. The artifact appears under its name whole or not at all.
class ArtifactWriter {
 public:
  ArtifactWriter() = default;
  /// Errors: as AtomicFile::Create.
  static absl::StatusOr<ArtifactWriter> ToFile(const std::string& path);
  static ArtifactWriter ToMemory(ArtifactsInMemory& artifacts, std::string name);

  /// Announces that up to `bytes` bytes will come. In memory they are allocated at once,
  /// with large pages. A file needs no allocation. Errors: RESOURCE_EXHAUSTED.
  absl::Status Expect(std::uint64_t bytes);
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
  ArtifactsInMemory* artifacts_ = nullptr;  ///< nullptr: a file
  std::string name_;
  std::shared_ptr<Buffer> memory_;  ///< has room for bytes_ or more
};

/// Named byte arrays that the jobs of a build leave for later jobs.
class Artifacts {
 public:
  virtual ~Artifacts() = default;
  virtual bool Has(const std::string& name) const = 0;
  virtual absl::StatusOr<ArtifactWriter> Create(const std::string& name) const = 0;
  /// Maps `names` one behind the other; all but the last hold whole pages. Writes to the
  /// buffer change no file. The mapped bytes stay as long as the buffer, whatever is
  /// removed. Errors: NOT_FOUND; DATA_LOSS where the size of a file differs from its
  /// footer.
  virtual absl::StatusOr<Buffer> Map(const std::vector<std::string>& names) const = 0;
  /// Memory for `bytes` bytes that are changed at random and that no process needs after
  /// this one. Where artifacts are files it is a file without a name, whose pages the
  /// kernel keeps in memory as long as there is room. It must not outlive this. Errors:
  /// RESOURCE_EXHAUSTED, also for a full disk.
  virtual absl::StatusOr<Buffer> Scratch(std::size_t bytes) const = 0;
  /// Removes all artifacts whose names begin with `prefix`, if there are any.
  virtual void RemoveAll(std::string_view prefix) const = 0;
  /// Whether artifacts outlive the process. Then jobs cover ranges of nodes, so that a
  /// build can continue after each, and other processes can help. In memory a single job
  /// makes a whole stage.
  virtual bool on_disk() const = 0;
  /// The location of the artifacts, for messages.
  virtual std::string path() const { return "memory"; }
  /// Names of artifacts that were damaged when a build continued, and were removed.
  virtual const std::vector<std::string>& damaged() const { return damaged_; }

  /// Writes a small artifact in one call.
  absl::Status Write(const std::string& name, std::string_view bytes) const;

 protected:
  std::vector<std::string> damaged_;
};

/// The artifacts of a build in memory, which end with it.
class MemoryArtifacts : public Artifacts {
 public:
  bool Has(const std::string& name) const override { return artifacts_.contains(name); }
  absl::StatusOr<ArtifactWriter> Create(const std::string& name) const override {
    return ArtifactWriter::ToMemory(artifacts_, name);
  }
  /// `names` must hold one name.
  absl::StatusOr<Buffer> Map(const std::vector<std::string>& names) const override;
  absl::StatusOr<Buffer> Scratch(std::size_t bytes) const override {
    return Buffer::Allocate(bytes);
  }
  void RemoveAll(std::string_view prefix) const override;
  bool on_disk() const override { return false; }

 private:
  mutable ArtifactsInMemory artifacts_;
};

}  // namespace hmann
