#include "index/attributes/attrs_verify.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "index/attributes/bitmap.h"
#include "index/base/errors.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Checks one field.
class FieldVerifier {
 public:
  FieldVerifier(const AttrsFile& file, const AttrsField& field) : file_(file), field_(field) {}

  absl::Status Check() {
    Roaring tagged(roaring_bitmap_create());
    const std::uint64_t last = field_.bitmaps() - 1;
    for (std::uint64_t i = 0; i < last; ++i) {
      absl::StatusOr<Roaring> bitmap = ReadBitmap(field_.Bitmap(i), file_.n());
      if (!bitmap.ok()) return Wrong("bitmap ", i, ": ", bitmap.status().message());
      if (IsTag(type()) && roaring_bitmap_is_empty(bitmap->get()))
        return Wrong("bitmap ", i, ": no vector has this tag");
      roaring_bitmap_or_inplace(tagged.get(), bitmap->get());
    }
    absl::StatusOr<Roaring> present = ReadBitmap(field_.Bitmap(last), file_.n());
    if (!present.ok()) return Wrong("bitmap ", last, ": ", present.status().message());
    if (roaring_bitmap_get_cardinality(present->get()) != field_.record.rows)
      return Wrong("bitmap ", last, ": expected ", field_.record.rows, " ids, found ",
                   roaring_bitmap_get_cardinality(present->get()));
    const bool agree = IsTag(type()) ? roaring_bitmap_equals(tagged.get(), present->get())
                                     : roaring_bitmap_is_subset(tagged.get(), present->get());
    if (!agree) return Wrong("bitmap ", last, ": it has not the ids of the others");
    return IsNumber(type()) ? CheckOrder(*present->get()) : absl::OkStatus();
  }

  absl::Status CheckDictionary() const {
    for (std::uint64_t i = 0; i < field_.record.values; ++i) {
      if (type() == AttributeType::kTag && Utf8(std::string(field_.Tag(i))) != field_.Tag(i))
        return Wrong("tag ", i, " is not UTF-8");
      const bool in_order =
          i == 0 || (type() == AttributeType::kTag
                         ? field_.Tag(i - 1) < field_.Tag(i)
                         : field_.At<std::int64_t>(0, i - 1) < field_.At<std::int64_t>(0, i));
      if (!in_order) return Wrong("tag ", i, " is not in order");
    }
    return absl::OkStatus();
  }

 private:
  AttributeType type() const { return field_.info.field.type; }
  template <typename... Parts>
  absl::Status Wrong(const Parts&... parts) const {
    return DataLoss(file_.path(), ": ", field_.info.field.name, ": ", parts...);
  }

  /// Each id that has a value is in the order of values once.
  absl::Status CheckOrder(const roaring_bitmap_t& present) const {
    std::uint32_t before = 0;
    for (std::uint64_t place = 0; place < field_.record.rows; ++place) {
      const auto id = field_.At<std::uint32_t>(1, place);
      if (id >= file_.n()) return Wrong("id ", place, " in the order of values is no vector");
      if (!roaring_bitmap_contains(&present, id) || (place > 0 && !IsBefore(before, id)))
        return Wrong("id ", place, " is not in the order of values");
      before = id;
    }
    return absl::OkStatus();
  }
  bool IsBefore(std::uint32_t a, std::uint32_t b) const {
    if (type() != AttributeType::kFloat64) {
      const auto x = field_.At<std::int64_t>(0, a), y = field_.At<std::int64_t>(0, b);
      return x != y ? x < y : a < b;
    }
    const auto x = field_.At<double>(0, a), y = field_.At<double>(0, b);
    return !std::isnan(x) && !std::isnan(y) && (x != y ? x < y : a < b);
  }

  const AttrsFile& file_;
  const AttrsField& field_;
};

}  // namespace

absl::Status VerifyValues(const AttrsFile& file) {
  HMANN_RETURN_IF_ERROR(file.CheckMapped());
  for (const AttrsField& field : file.fields())
    HMANN_RETURN_IF_ERROR(FieldVerifier(file, field).CheckDictionary());
  return absl::OkStatus();
}

absl::Status VerifyAttrs(const AttrsFile& file) {
  HMANN_RETURN_IF_ERROR(VerifyValues(file));
  for (const AttrsField& field : file.fields())
    HMANN_RETURN_IF_ERROR(FieldVerifier(file, field).Check());
  return absl::OkStatus();
}

}  // namespace hmann
