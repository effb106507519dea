#include "hmann/attributes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/attributes/attrs_file.h"
#include "index/attributes/attrs_verify.h"
#include "index/attributes/bitmap.h"
#include "index/attributes/bound_filter.h"
#include "index/attributes/rows.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// Evaluates a filter on a file of attributes.
class Evaluation {
 public:
  using Kind = FilterNode::Kind;
  using Op = FilterNode::Op;

  explicit Evaluation(const AttrsFile& file) : file_(file) {}

  absl::StatusOr<IdSet> Of(const BoundNode& node) const {
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
    const AttrsField& field = file_.fields()[node.field];
    if (node.kind == Kind::kNull) {
      HMANN_ASSIGN_OR_RETURN(IdSet set, BitmapOf(field, field.bitmaps() - 1));
      set.Not();
      return set;
    }
    if (IsTag(node.type)) return OfTags(field, node);
    if (node.type == AttributeType::kBool) return OfBool(field, node);
    return OfNumbers(field, node);
  }

 private:
  absl::StatusOr<IdSet> Combined(const BoundNode& node) const {
    std::vector<const BoundNode*> parts;
    parts.reserve(node.children.size());
    for (const BoundNode& child : node.children) parts.push_back(&child);
    if (node.kind == Kind::kAnd) {
      std::stable_partition(parts.begin(), parts.end(),
                            [](const BoundNode* part) { return part->numbers.empty(); });
    }
    HMANN_ASSIGN_OR_RETURN(IdSet set, Of(*parts[0]));
    for (std::size_t i = 1; i < parts.size(); ++i) {
      if (node.kind == Kind::kAnd && IsSmall(set) && !parts[i]->numbers.empty()) {
        HMANN_ASSIGN_OR_RETURN(set, Those(std::move(set), *parts[i]));
        continue;
      }
      HMANN_ASSIGN_OR_RETURN(IdSet other, Of(*parts[i]));
      node.kind == Kind::kAnd ? set.And(std::move(other)) : set.Or(std::move(other));
    }
    return set;
  }

  /// So few that their values are read sooner than all that a range selects. A guess.
  bool IsSmall(const IdSet& set) const { return set.MostIds() <= file_.n() / 64; }

  /// Those ids of a small set for which a comparison of numbers holds.
  absl::StatusOr<IdSet> Those(IdSet set, const BoundNode& node) const {
    const AttrsField& field = file_.fields()[node.field];
    std::vector<std::uint32_t> ids = set.Ids();
    std::erase_if(ids, [&](std::uint32_t id) { return !node.HoldsFor(ValueOf(field, id)); });
    IdSet those = IdSet::Of(file_.n(), std::move(ids));
    if (field.record.rows == file_.n()) return those;
    HMANN_ASSIGN_OR_RETURN(IdSet present, BitmapOf(field, field.bitmaps() - 1));
    those.And(std::move(present));
    return those;
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

  absl::StatusOr<IdSet> OfTag(const AttrsField& field, const FilterValue& value) const {
    const bool text = field.info.field.type == AttributeType::kTag;
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

  absl::StatusOr<IdSet> OfTags(const AttrsField& field, const BoundNode& node) const {
    HMANN_ASSIGN_OR_RETURN(IdSet set, OfTag(field, node.tags[0]));
    for (std::size_t i = 1; i < node.tags.size(); ++i) {
      HMANN_ASSIGN_OR_RETURN(IdSet other, OfTag(field, node.tags[i]));
      node.kind == Kind::kHas ? set.And(std::move(other)) : set.Or(std::move(other));
    }
    if (node.op == Op::kNotEqual) return Others(field, std::move(set));
    return set;
  }

  absl::StatusOr<IdSet> OfBool(const AttrsField& field, const BoundNode& node) const {
    HMANN_ASSIGN_OR_RETURN(IdSet set, BitmapOf(field, node.wants[0] && node.wants[1] ? 1 : 0));
    if (node.wants[1]) return set;
    return Others(field, std::move(set));
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

  absl::StatusOr<IdSet> OfNumbers(const AttrsField& field, const BoundNode& node) const {
    HMANN_ASSIGN_OR_RETURN(Slices slices, PlacesOf(field, node.numbers));
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
    std::vector<AttributeField> of_file;
    for (const AttrsField& field : file_.fields()) of_file.push_back(field.info.field);
    HMANN_ASSIGN_OR_RETURN(const BoundNode root, BindFilter(filter, of_file));
    HMANN_ASSIGN_OR_RETURN(IdSet set, Evaluation(file_).Of(root));
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
  absl::StatusOr<AttrsFile> opened = AttrsFile::Open(path, n, content_hash);
  if (absl::IsNotFound(opened.status()))
    return NotFound(path, ": the index has no attributes: give it some with hmann attrs");
  HMANN_ASSIGN_OR_RETURN(AttrsFile file, std::move(opened));
  return std::make_shared<const OpenAttributes>(std::move(file), content_hash);
}

}  // namespace hmann
