#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/filter.h"
#include "hmann/matches.h"

namespace hmann {

/// The type of a field of attributes. The numbers are those of the file.
enum class AttributeType : std::uint32_t {
  kTag = 1,     ///< any number of strings
  kIntTag = 2,  ///< any number of whole numbers that name something
  kInt64 = 3,
  kFloat64 = 4,  ///< not NaN
  kTime = 5,     ///< microseconds since 1970, UTC
  kBool = 6,
};
/// "tag", "int-tag", "int64", "float64", "time", "bool".
std::string_view AttributeTypeName(AttributeType type);

/// A field of attributes.
struct AttributeField {
  std::string name;
  AttributeType type = AttributeType::kTag;
  bool operator==(const AttributeField&) const = default;
};

/// Parses "year:int64,tags:tag". Errors: INVALID_ARGUMENT.
absl::StatusOr<std::vector<AttributeField>> ParseAttributeFields(std::string_view text);

/// Parses an RFC 3339 time ("2026-05-01", "2026-05-01T12:00:00Z", with a zone and a
/// fraction) into microseconds since 1970. Errors: INVALID_ARGUMENT.
absl::StatusOr<std::int64_t> ParseAttributeTime(std::string_view text);

/// Reads an .spmat file with a row for each query: the filter `has(tags, ...)` of its
/// tags; for a row without any, one that holds for all vectors. Errors: those of files;
/// INVALID_ARGUMENT, also for fewer rows than `queries`.
absl::StatusOr<std::vector<std::string>> ReadTagFilters(const std::string& path,
                                                        std::uint64_t queries);

/// What a file of attributes says about one of its fields.
struct AttributeFieldInfo {
  AttributeField field;
  std::uint64_t rows = 0;    ///< vectors that have a value
  std::uint64_t values = 0;  ///< distinct tags; otherwise 0
};

class AttrsFile;

/// The attributes of the vectors of one index, from the file next to it. Evaluates
/// filters. Immutable and thread-safe. index/attributes/ATTRS.md describes the file.
class Attributes {
 public:
  /// The file that belongs to an index: its path and ".attrs".
  static std::string PathOf(const std::string& index);
  /// Opens the attributes of the index with n vectors and this IndexInfo::content_hash.
  /// Dictionaries and bitmaps are read to memory and compared with their checksums;
  /// columns of numbers stay in the mapped file. Errors: NOT_FOUND; UNIMPLEMENTED
  /// (another version); DATA_LOSS; FAILED_PRECONDITION (attributes of another index);
  /// RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::shared_ptr<const Attributes>> Open(const std::string& path,
                                                                std::uint64_t n,
                                                                std::uint64_t content_hash);
  virtual ~Attributes() = default;

  virtual std::vector<AttributeFieldInfo> fields() const = 0;
  virtual std::uint64_t memory_bytes() const = 0;
  virtual std::uint64_t mapped_bytes() const = 0;
  /// The vectors for which the filter holds, by internal id. Errors: INVALID_ARGUMENT
  /// naming the column of the filter: a field that there is not, a comparison that its
  /// type does not have; DATA_LOSS.
  virtual absl::StatusOr<Matches> Matching(const Filter& filter) const = 0;
  /// Checks every checksum, bitmap and order. Errors: DATA_LOSS naming field and place.
  virtual absl::Status Verify() const = 0;
  virtual const AttrsFile& file() const = 0;  ///< for other parts of the library
};

}  // namespace hmann
