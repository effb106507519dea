/// The formats of attribute files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/attributes/field_table.h"
#include "index/attributes/rows.h"
#include "index/base/file.h"

namespace hmann {

/// Gives pages of a mapped file back to the system once they have been read, so that
/// memory does not grow with the file.
class PagesBehind {
 public:
  /// Reads from `begin` on.
  explicit PagesBehind(const MappedFile& file, std::uint64_t begin = 0)
      : file_(file), begin_(begin) {}
  /// Everything before `offset` has been read.
  void Pass(std::uint64_t offset) {
    if (offset - begin_ < kStep) return;
    file_.Advise(MappedFile::Access::kNone, begin_, offset - begin_);
    begin_ = offset;
  }

 private:
  static constexpr std::uint64_t kStep = 16 << 20;
  const MappedFile& file_;
  std::uint64_t begin_;
};

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// The text of a file without its byte order mark.
inline std::string_view TextOf(const MappedFile& file) {
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

/// May change the row.
using SeeRow = std::function<absl::Status(FoundRow* row)>;

/// Call `see` for each row of the file, with fields that they find in, or add to,
/// `*fields`. Errors: those of `see`; INVALID_ARGUMENT.
absl::Status ReadNdjsonRows(const MappedFile& file, FieldTable* fields, const SeeRow& see);
absl::Status ReadCsvRows(const MappedFile& file, FieldTable* fields, const SeeRow& see);

/// As AttributeRows::Open.
absl::StatusOr<std::unique_ptr<AttributeRows>> OpenSpmatRows(
    const std::string& path, const std::vector<AttributeField>& given);

}  // namespace hmann
