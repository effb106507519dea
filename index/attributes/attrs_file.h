#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hmann/attributes.h"
#include "index/base/buffer.h"
#include "index/base/file.h"

namespace hmann {

/// A section of a file of attributes. See ATTRS.md.
struct AttrsSection {
  std::uint64_t offset = 0, bytes = 0, checksum = 0;
};

struct AttrsHeader {
  static constexpr std::uint64_t kMagic = 0x7474616e6e616d68;  ///< "hmannatt"
  static constexpr std::uint32_t kVersion = 1;
  static constexpr std::uint32_t kMostFields = 1000;

  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion, fields = 0;
  std::uint64_t n = 0, content_hash = 0;
  AttrsSection directory;
  std::uint64_t checksum = 0;  ///< of everything before

  std::uint64_t Checksum() const;
};
static_assert(sizeof(AttrsHeader) == 64);

/// The fixed part of a field's record in the directory.
struct AttrsRecord {
  std::uint32_t type = 0, name_bytes = 0;
  std::uint64_t values = 0, rows = 0;
  std::array<AttrsSection, 4> sections;
};
static_assert(sizeof(AttrsRecord) == 120);

constexpr std::uint64_t kAttrsAlignment = 64;
constexpr std::uint32_t kMostNameBytes = 256;

inline bool IsTag(AttributeType type) {
  return type == AttributeType::kTag || type == AttributeType::kIntTag;
}
inline bool IsNumber(AttributeType type) { return !IsTag(type) && type != AttributeType::kBool; }
/// The number of bitmaps of a field; the last has the ids with a value.
inline std::uint64_t BitmapsOf(AttributeType type, std::uint64_t values) {
  return IsTag(type) ? values + 1 : type == AttributeType::kBool ? 2 : 1;
}

/// A field of a file that is open. All memory belongs to the AttrsFile.
struct AttrsField {
  AttributeFieldInfo info;
  AttrsRecord record;
  /// The sections, in memory or mapped.
  std::array<std::span<const std::byte>, 4> data;

  template <typename T>
  T At(int section, std::uint64_t i) const {
    T value;
    std::memcpy(&value, data[static_cast<std::size_t>(section)].data() + i * sizeof(T),
                sizeof(value));
    return value;
  }
  /// The place i of the pieces whose ends are in section `ends`.
  std::span<const std::byte> Piece(int ends, std::uint64_t i) const {
    const std::uint64_t begin = i == 0 ? 0 : At<std::uint64_t>(ends, i - 1);
    return data[static_cast<std::size_t>(ends) + 1].subspan(begin,
                                                            At<std::uint64_t>(ends, i) - begin);
  }
  std::string_view Tag(std::uint64_t i) const {
    const std::span<const std::byte> piece = Piece(0, i);
    return {reinterpret_cast<const char*>(piece.data()), piece.size()};
  }
  std::span<const std::byte> Bitmap(std::uint64_t i) const { return Piece(2, i); }
  std::uint64_t bitmaps() const { return BitmapsOf(info.field.type, record.values); }
};

/// An open file of attributes: everything is within its bounds, and what is in memory has
/// its checksum. Contents of bitmaps and columns are not checked.
class AttrsFile {
 public:
  /// Errors: see Attributes::Open.
  static absl::StatusOr<AttrsFile> Open(const std::string& path, std::uint64_t n,
                                        std::uint64_t content_hash);

  const std::string& path() const { return file_.path(); }
  std::uint64_t n() const { return n_; }
  const std::vector<AttrsField>& fields() const { return fields_; }
  std::uint64_t memory_bytes() const { return memory_bytes_; }
  std::uint64_t mapped_bytes() const { return mapped_bytes_; }
  /// DATA_LOSS naming the bitmap i of a field, with its fault.
  absl::Status BadBitmap(const AttrsField& field, std::uint64_t i, absl::string_view fault) const;
  /// Compares the mapped sections with their checksums. Errors: DATA_LOSS.
  absl::Status CheckMapped() const;

 private:
  absl::StatusOr<AttrsHeader> ReadHeader(std::uint64_t n, std::uint64_t content_hash) const;
  absl::Status ReadField(const std::byte* record, std::uint64_t bytes, std::uint64_t* taken);
  absl::Status Place(AttrsField& field);
  absl::Status CheckShape(const AttrsField& field) const;
  absl::Status CheckEnds(const AttrsField& field, int ends) const;
  absl::Status Damaged(absl::string_view what) const;

  MappedFile file_;
  std::uint64_t n_ = 0, memory_bytes_ = 0, mapped_bytes_ = 0;
  std::vector<Buffer> memory_;
  std::vector<AttrsField> fields_;
};

}  // namespace hmann
