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

/// Behind the bytes of an artefact that is a file.
struct ArtefactFooter {
  static constexpr std::uint64_t kMagic = 0x7472617065'6e6e61;

  std::uint64_t magic = kMagic, bytes = 0, checksum = 0, own = 0;
  std::uint64_t Own() const { return Checksum(this, 3 * sizeof(std::uint64_t)); }
};
static_assert(sizeof(ArtefactFooter) == 32);

using ArtefactsInMemory = std::map<std::string, std::shared_ptr<Buffer>, std::less<>>;

/// Writes an artefact: to a file, with the number and checksum of its bytes behind them,
/// or to memory. It appears under its name whole or not at all.
class ArtefactWriter {
 public:
  ArtefactWriter() = default;
  /// Errors: as AtomicFile::Create.
  static absl::StatusOr<ArtefactWriter> ToFile(const std::string& path);
  static ArtefactWriter ToMemory(ArtefactsInMemory& artefacts, std::string name);

  /// Up to so many bytes will come, for which memory is found at once, of large pages. A
  /// file needs none. Errors: RESOURCE_EXHAUSTED.
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
  ArtefactsInMemory* artefacts_ = nullptr;  ///< none: a file
  std::string name_;
  std::shared_ptr<Buffer> memory_;  ///< has room for bytes_ or more
};

/// What the jobs of a build leave for those that follow: bytes under a name.
class Artefacts {
 public:
  virtual ~Artefacts() = default;
  virtual bool Has(const std::string& name) const = 0;
  virtual absl::StatusOr<ArtefactWriter> Create(const std::string& name) const = 0;
  /// Maps `names` one behind the other: all but the last hold whole pages. What is
  /// written to them changes no file. They stay as long as the buffer, whatever is
  /// removed. Errors: NOT_FOUND, DATA_LOSS where a file is not of the size that its end
  /// says.
  virtual absl::StatusOr<Buffer> Map(const std::vector<std::string>& names) const = 0;
  /// Removes all artefacts whose names begin so, if there are any.
  virtual void RemoveAll(std::string_view prefix) const = 0;
  /// Whether they outlive the process: then jobs are of ranges of nodes, so that a build
  /// can go on after each, and others can help. In memory one job makes all of a stage.
  virtual bool on_disk() const = 0;
  /// Where they are, for messages.
  virtual std::string path() const { return "memory"; }
  /// Names of those that were damaged when a build went on, and are removed.
  virtual const std::vector<std::string>& damaged() const { return damaged_; }

  /// A small artefact at once.
  absl::Status Write(const std::string& name, std::string_view bytes) const;

 protected:
  std::vector<std::string> damaged_;
};

/// Those of a build in memory, which are gone with it.
class MemoryArtefacts : public Artefacts {
 public:
  bool Has(const std::string& name) const override { return artefacts_.contains(name); }
  absl::StatusOr<ArtefactWriter> Create(const std::string& name) const override {
    return ArtefactWriter::ToMemory(artefacts_, name);
  }
  /// Of one name.
  absl::StatusOr<Buffer> Map(const std::vector<std::string>& names) const override;
  void RemoveAll(std::string_view prefix) const override;
  bool on_disk() const override { return false; }

 private:
  mutable ArtefactsInMemory artefacts_;
};

}  // namespace hmann
