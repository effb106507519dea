#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "index/base/errors.h"
#include "index/base/file.h"

namespace hmann {

static_assert(std::endian::native == std::endian::little,
              "foreign indexes are little-endian and mapped as they are");

/// Loads a T from any address, aligned or not.
template <typename T>
T LoadAs(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// A run of consecutive items in the mapped file.
struct ItemRun {
  const std::byte* data = nullptr;
  std::uint64_t offset = 0;  ///< in the file
  std::uint64_t count = 0;

  template <typename T>
  T Get(std::uint64_t i) const {
    return LoadAs<T>(data + i * sizeof(T));
  }
};

/// Reads a mapped file from front to back and never past its end. Does not own the file.
class ImportReader {
 public:
  explicit ImportReader(const MappedFile& file) : file_(file) {}

  std::uint64_t offset() const { return offset_; }

  /// Errors: DATA_LOSS if the file ends too early.
  template <typename T>
  absl::StatusOr<T> Read(const char* what) {
    absl::StatusOr<ItemRun> run = Take(1, sizeof(T), what);
    if (!run.ok()) return run.status();
    return run->Get<T>(0);
  }

  /// Takes the next count * item_bytes bytes, item_bytes > 0. No size overflows. Errors:
  /// DATA_LOSS if the file ends too early.
  absl::StatusOr<ItemRun> Take(std::uint64_t count, std::uint64_t item_bytes, const char* what) {
    const std::uint64_t left = file_.bytes().size() - offset_;
    if (count > left / item_bytes) {
      return Corrupt(offset_, what, absl::StrCat(count, " x ", item_bytes, " bytes"),
                     absl::StrCat(left, " bytes to the end of the file"));
    }
    const ItemRun run{file_.bytes().data() + offset_, offset_, count};
    offset_ += count * item_bytes;
    return run;
  }

  /// Errors: DATA_LOSS if bytes are left.
  absl::Status ExpectEnd() const {
    if (offset_ == file_.bytes().size()) return absl::OkStatus();
    return Corrupt(offset_, "size", absl::StrCat("the end of the file"),
                   absl::StrCat(file_.bytes().size() - offset_, " bytes more"));
  }

  /// DATA_LOSS: the file contradicts itself or its size.
  absl::Status Corrupt(std::uint64_t offset, const std::string& what,
                       const absl::AlphaNum& expected, const absl::AlphaNum& found) const {
    return DataLoss(Message(offset, what, expected, found));
  }

  /// INVALID_ARGUMENT: the file may be sound, but it is not the requested one.
  absl::Status Mismatch(std::uint64_t offset, const std::string& what,
                        const absl::AlphaNum& expected, const absl::AlphaNum& found) const {
    return InvalidArgument(Message(offset, what, expected, found));
  }

 private:
  std::string Message(std::uint64_t offset, const std::string& what, const absl::AlphaNum& expected,
                      const absl::AlphaNum& found) const {
    return absl::StrCat(file_.path(), ": offset ", offset, ": ", what, ": expected ", expected,
                        ", found ", found);
  }

  const MappedFile& file_;
  std::uint64_t offset_ = 0;
};

}  // namespace hmann
