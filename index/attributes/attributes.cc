#include "hmann/attributes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "index/attributes/attrs_file.h"
#include "index/attributes/attrs_verify.h"
#include "index/attributes/bitmap.h"
#include "index/attributes/rows.h"
#include "index/base/errors.h"
#include "index/base/json_reader.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

using Kind = FilterNode::Kind;
using Op = FilterNode::Op;

std::string TextOf(const FilterValue& value) {
  if (const auto* tag = std::get_if<std::string>(&value); tag != nullptr)
    return JsonText(nlohmann::json(tag->substr(0, 40)));
  if (const auto* is = std::get_if<bool>(&value); is != nullptr) return *is ? "true" : "false";
  if (const auto* real = std::get_if<double>(&value); real != nullptr) return absl::StrCat(*real);
  return absl::StrCat(std::get<std::int64_t>(value));
}

/// A whole number, or a number with a fraction; both compare exactly with either.
using Number = long double;

/// Evaluates a filter on a file of attributes.
class Evaluation {
 public:
  explicit Evaluation(const AttrsFile& file) : file_(file) {}

  absl::StatusOr<IdSet> Of(const FilterNode& node) const {
    switch (node.kind) {
      case Kind::kAnd:
      case Kind::kOr:
        return Combined(node);
      case Kind::kNot: {
        HMANN_ASSIGN_OR_RETURN(IdSet set, Of(node.children[0]));
        set.Not();
        return set;
      }
      default:
        break;
    }
    HMANN_ASSIGN_OR_RETURN(const AttrsField* field, FieldOf(node));
    const AttributeType type = field->info.field.type;
    if (node.kind == Kind::kNull) {
      HMANN_ASSIGN_OR_RETURN(IdSet set, BitmapOf(*field, field->bitmaps() - 1));
      set.Not();
      return set;
    }
    if (node.kind == Kind::kHas && !IsTag(type))
      return Wrong(node, absl::StrCat("has() needs a field of tags, and ", Described(*field)));
    if (IsTag(type)) return OfTags(*field, node);
    if (type == AttributeType::kBool) return OfBool(*field, node);
    return OfNumbers(*field, node);
  }

 private:
  static absl::Status Wrong(const FilterNode& node, absl::string_view what) {
    return InvalidArgument("filter: column ", node.column, ": ", what);
  }
  static std::string Described(const AttrsField& field) {
    return absl::StrCat(field.info.field.name, " is ",
                        std::string(AttributeTypeName(field.info.field.type)));
  }

  absl::StatusOr<const AttrsField*> FieldOf(const FilterNode& node) const {
    const std::vector<AttrsField>& fields = file_.fields();
    for (const AttrsField& field : fields) {
      if (field.info.field.name == node.field) return &field;
    }
    constexpr std::size_t kShown = 20;
    return Wrong(node,
                 absl::StrCat("there is no field ", node.field, ", only ",
                              absl::StrJoin(fields.begin(),
                                            fields.begin() + static_cast<std::ptrdiff_t>(
                                                                 std::min(fields.size(), kShown)),
                                            ", ",
                                            [](std::string* out, const AttrsField& field) {
                                              absl::StrAppend(out, field.info.field.name);
                                            }),
                              fields.size() > kShown ? ", ..." : ""));
  }

  absl::StatusOr<IdSet> Combined(const FilterNode& node) const {
    std::vector<const FilterNode*> parts;
    parts.reserve(node.children.size());
    for (const FilterNode& child : node.children) parts.push_back(&child);
    if (node.kind == Kind::kAnd) {
      std::stable_partition(parts.begin(), parts.end(),
                            [this](const FilterNode* part) { return NumbersOf(*part) == nullptr; });
    }
    HMANN_ASSIGN_OR_RETURN(IdSet set, Of(*parts[0]));
    for (std::size_t i = 1; i < parts.size(); ++i) {
      if (node.kind == Kind::kAnd && IsSmall(set) && NumbersOf(*parts[i]) != nullptr) {
        HMANN_ASSIGN_OR_RETURN(set, Those(std::move(set), *NumbersOf(*parts[i]), *parts[i]));
        continue;
      }
      HMANN_ASSIGN_OR_RETURN(IdSet other, Of(*parts[i]));
      node.kind == Kind::kAnd ? set.And(std::move(other)) : set.Or(std::move(other));
    }
    return set;
  }

  /// The field of numbers with which `node` compares; nullptr: none.
  const AttrsField* NumbersOf(const FilterNode& node) const {
    if (node.kind != Kind::kCompare && node.kind != Kind::kIn) return nullptr;
    for (const AttrsField& field : file_.fields()) {
      if (field.info.field.name == node.field && IsNumber(field.info.field.type)) return &field;
    }
    return nullptr;
  }

  /// So few that their values are read sooner than all that a range selects. A guess.
  bool IsSmall(const IdSet& set) const { return set.MostIds() <= file_.n() / 64; }

  /// Those ids of a small set for which a comparison of numbers holds.
  absl::StatusOr<IdSet> Those(IdSet set, const AttrsField& field, const FilterNode& node) const {
    HMANN_ASSIGN_OR_RETURN(const std::vector<Number> numbers, ComparedWith(field, node));
    const Op op = node.kind == Kind::kIn ? Op::kEqual : node.op;
    std::vector<std::uint32_t> ids = set.Ids();
    std::erase_if(ids, [&](std::uint32_t id) { return !Holds(op, ValueOf(field, id), numbers); });
    IdSet those = IdSet::Of(file_.n(), std::move(ids));
    if (field.record.rows == file_.n()) return those;
    HMANN_ASSIGN_OR_RETURN(IdSet present, BitmapOf(field, field.bitmaps() - 1));
    those.And(std::move(present));
    return those;
  }

  /// `numbers`: of kEqual and kNotEqual, sorted; else one.
  static bool Holds(Op op, Number value, const std::vector<Number>& numbers) {
    switch (op) {
      case Op::kEqual:
        return std::binary_search(numbers.begin(), numbers.end(), value);
      case Op::kNotEqual:
        return value != numbers[0];
      case Op::kLess:
        return value < numbers[0];
      case Op::kLessEqual:
        return value <= numbers[0];
      case Op::kGreater:
        return value > numbers[0];
      case Op::kGreaterEqual:
        break;
    }
    return value >= numbers[0];
  }

  static Number ValueOf(const AttrsField& field, std::uint32_t id) {
    return field.info.field.type == AttributeType::kFloat64
               ? static_cast<Number>(field.At<double>(0, id))
               : static_cast<Number>(field.At<std::int64_t>(0, id));
  }

  absl::StatusOr<IdSet> BitmapOf(const AttrsField& field, std::uint64_t i) const {
    absl::StatusOr<Roaring> bitmap = ReadBitmap(field.Bitmap(i), file_.n());
    if (!bitmap.ok()) return file_.BadBitmap(field, i, bitmap.status().message());
    return IdSet(file_.n(), *std::move(bitmap));
  }

  /// The vectors with a value for which not all of `set` hold.
  absl::StatusOr<IdSet> Others(const AttrsField& field, IdSet set) const {
    set.Not();
    if (field.record.rows == file_.n()) return set;
    HMANN_ASSIGN_OR_RETURN(IdSet present, BitmapOf(field, field.bitmaps() - 1));
    present.And(std::move(set));
    return present;
  }

  absl::StatusOr<IdSet> OfTag(const AttrsField& field, const FilterNode& node,
                              const FilterValue& value) const {
    const bool text = field.info.field.type == AttributeType::kTag;
    if (!(text ? std::holds_alternative<std::string>(value)
               : std::holds_alternative<std::int64_t>(value))) {
      return Wrong(node, absl::StrCat(Described(field), ", and ", TextOf(value), " is no ",
                                      text ? "string" : "whole number"));
    }
    std::uint64_t low = 0, high = field.record.values;
    const auto is_below = [&](std::uint64_t i) {
      return text ? field.Tag(i) < std::get<std::string>(value)
                  : field.At<std::int64_t>(0, i) < std::get<std::int64_t>(value);
    };
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      is_below(middle) ? low = middle + 1 : high = middle;
    }
    const bool found = low < field.record.values &&
                       (text ? field.Tag(low) == std::get<std::string>(value)
                             : field.At<std::int64_t>(0, low) == std::get<std::int64_t>(value));
    if (!found) return IdSet(file_.n(), Roaring(roaring_bitmap_create()));
    return BitmapOf(field, low);
  }

  absl::StatusOr<IdSet> OfTags(const AttrsField& field, const FilterNode& node) const {
    if (node.kind == Kind::kCompare && node.op != Op::kEqual && node.op != Op::kNotEqual)
      return Wrong(node, absl::StrCat(Described(field), ", and tags have no order"));
    HMANN_ASSIGN_OR_RETURN(IdSet set, OfTag(field, node, node.values[0]));
    for (std::size_t i = 1; i < node.values.size(); ++i) {
      HMANN_ASSIGN_OR_RETURN(IdSet other, OfTag(field, node, node.values[i]));
      node.kind == Kind::kHas ? set.And(std::move(other)) : set.Or(std::move(other));
    }
    if (node.kind == Kind::kCompare && node.op == Op::kNotEqual)
      return Others(field, std::move(set));
    return set;
  }

  absl::StatusOr<IdSet> OfBool(const AttrsField& field, const FilterNode& node) const {
    if (node.kind == Kind::kCompare && node.op != Op::kEqual && node.op != Op::kNotEqual)
      return Wrong(node, absl::StrCat(Described(field), ", and true and false have no order"));
    bool wants[2] = {false, false};
    for (const FilterValue& value : node.values) {
      const bool* is = std::get_if<bool>(&value);
      if (is == nullptr) {
        return Wrong(node, absl::StrCat(Described(field), ", and ", TextOf(value),
                                        " is neither true nor false"));
      }
      wants[*is != (node.kind == Kind::kCompare && node.op == Op::kNotEqual) ? 1 : 0] = true;
    }
    HMANN_ASSIGN_OR_RETURN(IdSet set, BitmapOf(field, wants[0] && wants[1] ? 1 : 0));
    if (wants[1]) return set;
    return Others(field, std::move(set));
  }

  absl::StatusOr<Number> NumberOf(const AttrsField& field, const FilterNode& node,
                                  const FilterValue& value) const {
    const auto* text = std::get_if<std::string>(&value);
    if (text != nullptr && field.info.field.type == AttributeType::kTime) {
      const absl::StatusOr<std::int64_t> time = ParseAttributeTime(*text);
      if (!time.ok()) return Wrong(node, time.status().message());
      return static_cast<Number>(*time);
    }
    if (const auto* whole = std::get_if<std::int64_t>(&value); whole != nullptr)
      return static_cast<Number>(*whole);
    if (const auto* real = std::get_if<double>(&value); real != nullptr)
      return static_cast<Number>(*real);
    return Wrong(node, absl::StrCat(Described(field), ", and ", TextOf(value), " is no number"));
  }

  /// The numbers with which `node` compares, ascending.
  absl::StatusOr<std::vector<Number>> ComparedWith(const AttrsField& field,
                                                   const FilterNode& node) const {
    std::vector<Number> numbers(node.values.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      HMANN_ASSIGN_OR_RETURN(numbers[i], NumberOf(field, node, node.values[i]));
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }

  absl::Status BadOrder(const AttrsField& field, std::uint64_t place) const {
    return DataLoss(file_.path(), ": ", field.info.field.name, ": id ", place,
                    " in the order of values is no vector");
  }

  /// Places in the order of values: [first, last).
  using Slices = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

  /// The places of each number. All binary searches take a step together, without
  /// branches, so that they wait for memory at the same time.
  absl::StatusOr<Slices> PlacesOf(const AttrsField& field,
                                  const std::vector<Number>& numbers) const {
    Slices found(numbers.size());
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ids(numbers.size());
    for (std::uint64_t left = field.record.rows; left > 0; left /= 2) {
      const std::uint64_t half = left - left / 2;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const std::uint64_t places[] = {found[i].first + half - 1, found[i].second + half - 1};
        ids[i] = {field.At<std::uint32_t>(1, places[0]), field.At<std::uint32_t>(1, places[1])};
        if (ids[i].first >= file_.n()) return BadOrder(field, places[0]);
        if (ids[i].second >= file_.n()) return BadOrder(field, places[1]);
      }
      for (std::size_t i = 0; i < ids.size(); ++i) {
        found[i].first += half * std::uint64_t{ValueOf(field, ids[i].first) < numbers[i]};
        found[i].second += half * std::uint64_t{ValueOf(field, ids[i].second) <= numbers[i]};
      }
    }
    return found;
  }

  /// The places for which `op` holds, of `end`. `equal`: those of the number.
  static Slices SlicesOf(Op op, std::pair<std::uint64_t, std::uint64_t> equal, std::uint64_t end) {
    const auto [low, high] = equal;
    switch (op) {
      case Op::kEqual:
        return Slices{{low, high}};
      case Op::kNotEqual:
        return Slices{{0, low}, {high, end}};
      case Op::kLess:
        return Slices{{0, low}};
      case Op::kLessEqual:
        return Slices{{0, high}};
      case Op::kGreater:
        return Slices{{high, end}};
      case Op::kGreaterEqual:
        break;
    }
    return Slices{{low, end}};
  }

  absl::StatusOr<IdSet> OfSlices(const AttrsField& field, const Slices& slices) const {
    std::uint64_t count = 0;
    for (const auto& [first, last] : slices) count += last - first;
    std::vector<std::uint32_t> ids(count);
    std::uint32_t* next = ids.data();
    for (const auto& [first, last] : slices) {
      if (first == last) continue;
      std::memcpy(next, field.data[1].data() + first * sizeof(*next),
                  (last - first) * sizeof(*next));
      next += last - first;
    }
    const auto wrong =
        std::find_if(ids.begin(), ids.end(), [this](std::uint32_t id) { return id >= file_.n(); });
    if (wrong != ids.end()) {
      return DataLoss(file_.path(), ": ", field.info.field.name, ": the order of values has id ",
                      *wrong, ", which is no vector");
    }
    return IdSet::Of(file_.n(), std::move(ids));
  }

  absl::StatusOr<IdSet> OfNumbers(const AttrsField& field, const FilterNode& node) const {
    HMANN_ASSIGN_OR_RETURN(const std::vector<Number> numbers, ComparedWith(field, node));
    HMANN_ASSIGN_OR_RETURN(Slices slices, PlacesOf(field, numbers));
    if (node.kind != Kind::kIn) slices = SlicesOf(node.op, slices[0], field.record.rows);
    std::uint64_t chosen = 0;
    for (const auto& [first, last] : slices) chosen += last - first;
    if (node.kind == Kind::kIn || chosen <= field.record.rows / 2) return OfSlices(field, slices);
    // Most of the values: the others are fewer.
    Slices rest;
    std::uint64_t at = 0;
    for (const auto& [first, last] : slices) {
      rest.emplace_back(at, first);
      at = last;
    }
    rest.emplace_back(at, field.record.rows);
    HMANN_ASSIGN_OR_RETURN(IdSet others, OfSlices(field, rest));
    return Others(field, std::move(others));
  }

  const AttrsFile& file_;
};

class OpenAttributes : public Attributes {
 public:
  OpenAttributes(AttrsFile file, std::uint64_t content_hash)
      : file_(std::move(file)), content_hash_(content_hash) {}

  std::vector<AttributeFieldInfo> fields() const override {
    std::vector<AttributeFieldInfo> fields;
    for (const AttrsField& field : file_.fields()) fields.push_back(field.info);
    return fields;
  }
  std::uint64_t memory_bytes() const override { return file_.memory_bytes(); }
  std::uint64_t mapped_bytes() const override { return file_.mapped_bytes(); }
  absl::StatusOr<Matches> Matching(const Filter& filter) const override {
    HMANN_ASSIGN_OR_RETURN(IdSet set, Evaluation(file_).Of(filter.root()));
    constexpr std::uint64_t kSparse = 512;  // their ids take a 16th of the bits; a guess
    if (set.MostIds() <= file_.n() / kSparse) return Matches(file_.n(), content_hash_, set.Ids());
    return Matches(file_.n(), content_hash_, std::move(set).TakeWords());
  }
  absl::Status Verify() const override { return VerifyAttrs(file_); }
  const AttrsFile& file() const override { return file_; }

 private:
  AttrsFile file_;
  std::uint64_t content_hash_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadTagFilters(const std::string& path,
                                                        std::uint64_t queries) {
  HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<AttributeRows> rows, AttributeRows::Open(path));
  if (rows->rows() < queries) {
    return InvalidArgument(path, ": filters of ", rows->rows(), " queries, ", queries,
                           " are searched");
  }
  std::vector<std::string> filters;
  HMANN_RETURN_IF_ERROR(
      rows->ForEach([&](std::uint64_t, std::uint64_t, std::span<const AttributeCell> cells) {
        std::string text = "tags is null or tags is not null";
        if (!cells.empty()) text = "has(tags";
        for (const AttributeCell& cell : cells)
          absl::StrAppend(&text, ", ", std::get<std::int64_t>(cell.value));
        filters.push_back(cells.empty() ? text : text + ")");
        return absl::OkStatus();
      }));
  return filters;
}

std::string Attributes::PathOf(const std::string& index) { return index + ".attrs"; }

absl::StatusOr<std::shared_ptr<const Attributes>> Attributes::Open(const std::string& path,
                                                                   std::uint64_t n,
                                                                   std::uint64_t content_hash) {
  HMANN_ASSIGN_OR_RETURN(AttrsFile file, AttrsFile::Open(path, n, content_hash));
  return std::make_shared<const OpenAttributes>(std::move(file), content_hash);
}

}  // namespace hmann
