#include "index/attributes/stored_rows.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "index/attributes/attrs_file.h"
#include "index/attributes/attrs_verify.h"
#include "index/attributes/bitmap.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Reads the values of a field by id, from bitmaps that are by value.
class FieldReader {
 public:
  FieldReader(const AttrsFile& file, std::uint32_t number)
      : file_(file), field_(file.fields()[number]), number_(number) {}

  absl::Status Start() {
    // The last bitmap of tags has the ids of all others.
    const std::uint64_t count = field_.bitmaps() - (IsTag(type()) ? 1 : 0);
    for (std::uint64_t i = 0; i < count; ++i) {
      const char* fault = bitmaps_.emplace_back(field_.Bitmap(i), file_.n()).Start();
      if (fault != nullptr) return file_.BadBitmap(field_, i, fault);
    }
    return absl::OkStatus();
  }

  /// Reads which ids of a range, or which one of them, have which values. Call it with
  /// ascending ranges.
  absl::Status Fill(std::uint32_t range, std::optional<std::uint16_t> only) {
    found_.clear();
    next_ = 0;
    for (std::uint64_t i = 0; i < bitmaps_.size(); ++i) {
      BitmapReader& bitmap = bitmaps_[i];
      const char* fault = nullptr;
      while (fault == nullptr && !bitmap.Done() && bitmap.key() < range) fault = bitmap.Skip();
      ids_.clear();
      if (fault == nullptr && !bitmap.Done() && bitmap.key() == range)
        fault = bitmap.Read({}, &ids_);
      if (fault != nullptr) return file_.BadBitmap(field_, i, fault);
      for (const std::uint64_t id : ids_) {
        if (!only.has_value() || id == *only) found_.push_back(id << 32 | i);
      }
    }
    std::sort(found_.begin(), found_.end());
    return absl::OkStatus();
  }

  /// Appends the values of an id of that range. Call it with ascending ids.
  absl::Status Take(std::uint32_t id, std::vector<AttributeCell>* cells) {
    const std::size_t first = next_;
    while (next_ < found_.size() && found_[next_] >> 32 == id % BitmapReader::kContainer) ++next_;
    if (first == next_) return absl::OkStatus();
    const auto add = [&](FilterValue value) { cells->push_back({number_, std::move(value)}); };
    switch (type()) {
      case AttributeType::kTag:
        for (std::size_t i = first; i < next_; ++i) add(std::string(field_.Tag(Bitmap(i))));
        break;
      case AttributeType::kIntTag:
        for (std::size_t i = first; i < next_; ++i) add(field_.At<std::int64_t>(0, Bitmap(i)));
        break;
      case AttributeType::kInt64:
      case AttributeType::kTime:
        add(field_.At<std::int64_t>(0, id));
        break;
      case AttributeType::kFloat64:
        if (std::isnan(field_.At<double>(0, id))) return Wrong("id ", id, ": its value is NaN");
        add(field_.At<double>(0, id));
        break;
      case AttributeType::kBool:
        if (Bitmap(next_ - 1) == 0) return Wrong("id ", id, ": true, and without a value");
        add(Bitmap(first) == 0);
    }
    return absl::OkStatus();
  }

 private:
  AttributeType type() const { return field_.info.field.type; }
  std::uint64_t Bitmap(std::size_t place) const { return found_[place] & 0xffff'ffff; }
  template <typename... Parts>
  absl::Status Wrong(const Parts&... parts) const {
    return DataLoss(file_.path(), ": ", field_.info.field.name, ": ", parts...);
  }

  const AttrsFile& file_;
  const AttrsField& field_;
  std::uint32_t number_;
  std::vector<BitmapReader> bitmaps_;
  std::vector<std::uint64_t> found_;  ///< id in the range << 32 | bitmap
  std::size_t next_ = 0;
  std::vector<std::uint16_t> ids_;
};

absl::StatusOr<std::vector<FieldReader>> ReadersOf(const AttrsFile& file) {
  std::vector<FieldReader> readers;
  for (std::uint32_t f = 0; f < file.fields().size(); ++f)
    HMANN_RETURN_IF_ERROR(readers.emplace_back(file, f).Start());
  return readers;
}

}  // namespace

StoredRows::StoredRows(std::shared_ptr<const Attributes> attributes)
    : attributes_(std::move(attributes)) {
  for (const AttrsField& field : attributes_->file().fields()) fields_.push_back(field.info.field);
  rows_ = attributes_->file().n();
  has_labels_ = true;
}

absl::StatusOr<std::unique_ptr<StoredRows>> StoredRows::Open(
    std::shared_ptr<const Attributes> attributes) {
  HMANN_RETURN_IF_ERROR(VerifyValues(attributes->file()));
  return std::unique_ptr<StoredRows>(new StoredRows(std::move(attributes)));
}

absl::Status StoredRows::ForEach(const Visit& visit) const {
  HMANN_ASSIGN_OR_RETURN(std::vector<FieldReader> readers, ReadersOf(attributes_->file()));
  std::vector<AttributeCell> cells;
  for (std::uint64_t id = 0; id < rows_; ++id) {
    const auto range = static_cast<std::uint32_t>(id / BitmapReader::kContainer);
    cells.clear();
    for (FieldReader& reader : readers) {
      if (id % BitmapReader::kContainer == 0)
        HMANN_RETURN_IF_ERROR(reader.Fill(range, std::nullopt));
      HMANN_RETURN_IF_ERROR(reader.Take(static_cast<std::uint32_t>(id), &cells));
    }
    HMANN_RETURN_IF_ERROR(visit(id, id, cells));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AttributeCell>> CellsOf(const Attributes& attributes, std::uint32_t id) {
  HMANN_ASSIGN_OR_RETURN(std::vector<FieldReader> readers, ReadersOf(attributes.file()));
  std::vector<AttributeCell> cells;
  for (FieldReader& reader : readers) {
    HMANN_RETURN_IF_ERROR(reader.Fill(id / BitmapReader::kContainer,
                                      static_cast<std::uint16_t>(id % BitmapReader::kContainer)));
    HMANN_RETURN_IF_ERROR(reader.Take(id, &cells));
  }
  return cells;
}

}  // namespace hmann
